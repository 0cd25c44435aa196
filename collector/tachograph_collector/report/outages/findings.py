"""What is found in one table of outages, as every report shows it: figures, listings, notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final

from tachograph_agent.trainers.base import SkippedLine

from tachograph_collector.report.text import UNKNOWN, number
from tachograph_collector.report.text import hours as hours_of

Value = float | int | str | None
_US: Final = 1e6
_MOST_HOURS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller knows beside the table; None where he doesn't."""

    tz: tzinfo | None = None
    """Zone of times that name none."""
    span_s: float | None = None
    """How long was watched."""
    gpus: int | None = None
    """How many GPUs (devices) could have failed."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number: ``value`` in the unit that ``key`` ends in, None for unknown; ``words`` for people.

    Without words only JSON has it.
    """

    key: str
    label: str
    value: Value
    words: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under ``columns``, whose names are the keys in JSON."""

    key: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@dataclass(slots=True)
class OutageReport:
    """What one table (in one or more files) tells."""

    name: str
    kind: str
    num_rows: int
    headline: str = ""
    figures: list[Figure] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    skips: Sequence[SkippedLine] = ()

    def figure(self, key: str, label: str, value: Value, words: str | None = None, *, why: str = "") -> None:
        """Add a figure; an unknown one says ``why`` it is."""
        if isinstance(value, float) and not math.isfinite(value):
            value, why = None, "the numbers in the table are too large"
        if value is None:
            words = f"{UNKNOWN}{f': {why}' if why else ''}"
        elif words is None:
            words = value if isinstance(value, str) else number(value, 0 if value == int(value) else 2)
        self.figures.append(Figure(key, label, value, words))

    def note(self, sentence: str) -> None:
        """Say something once."""
        if sentence not in self.notes:
            self.notes.append(sentence)


def hours(seconds: float | None) -> str:
    """Seconds as ``12.42 h`` (two digits: means are compared), shorter ones in minutes or seconds."""
    if seconds is None:
        return UNKNOWN
    if 3600 <= seconds < _MOST_HOURS * 3600:
        return f"{seconds / 3600:,.2f} h"
    return hours_of(round(seconds * _US))
