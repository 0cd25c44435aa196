"""A figure: what is promised, how it is measured, what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import Costs


@dataclass(frozen=True, slots=True)
class Setting:
    """How a figure is to be measured. ``quick``: smaller inputs and fewer rounds, for a look in CI."""

    scratch: Path
    quick: bool = False

    @property
    def rounds(self) -> int:
        """How often each command is run."""
        return 3 if self.quick else 5


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``is_met`` is None where nothing is promised."""

    what: str
    measured: str
    target: str = ""
    is_met: bool | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure's title, method and rows, and what would close the gap where it is missed."""

    title: str
    method: str
    rows: Sequence[Row] = field(default_factory=list)
    gap: str = ""


def ratio_row(what: str, one: Costs, other: Costs, at_most: float | None = None) -> Row:
    """Processor time of ``one`` over that of ``other``; judged by the least of each."""
    ratio = one.cpu_s / other.cpu_s
    measured = (
        f"{ratio:.2f} (medians {one.median_cpu_s / other.median_cpu_s:.2f}, by the wall clock "
        f"{one.wall_s / other.wall_s:.2f}; {one.cpu_s:.2f} s over {other.cpu_s:.2f} s)"
    )
    return Row(
        what, measured, "" if at_most is None else f"≤ {at_most:g}", None if at_most is None else ratio <= at_most
    )
