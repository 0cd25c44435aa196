"""What every report is made from: one run's books and details, and what the reading of its log had to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tachograph_agent.trainers.base import SkippedLine

from tachograph_collector.ledger.books import ACCOUNTS, Account, Books, Details, Interruption
from tachograph_collector.report.text import HOUR, duration, instant

if TYPE_CHECKING:
    from tachograph_collector.report.flagged import Flagged

LossPoint = tuple[int, int, float]
"""(time in microseconds since 1970, step, loss)"""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of calendar time, ``since`` included and ``until`` excluded; None is open on that side."""

    since_us: int | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run, ready to be reported."""

    books: Books
    details: Details
    notes: Sequence[str] = ()
    """What was assumed or can't be known, one sentence each."""
    skipped_lines: int = 0
    """Lines of the log (all runs in it) that could not be read."""
    skips: Sequence[SkippedLine] = ()
    """The first few of them."""
    format: str | None = None
    """The log's format; None if nobody said."""
    has_clock: bool = True
    """False if the log tells durations only: its timeline starts at 0, or where the caller put it."""
    loss_points: Sequence[LossPoint] | None = None
    incidents: Sequence[Flagged] | None = None
    """What the detectors found; None if they were not asked."""
    window: Window | None = None
    """The calendar window that books and details were clipped to, if one was asked for."""
    price_per_gpu_hour: float | None = None
    """A price the caller gave; it goes before the one that the log tells."""

    last_step: int | None = None
    """With a window: the last step done by its end, None if unknown."""

    @property
    def price(self) -> float | None:
        """Price of a GPU-hour, in whatever currency the user thinks in; None if nobody gave one that is a price."""
        price = self.books.price_per_gpu_hour if self.price_per_gpu_hour is None else self.price_per_gpu_hour
        return price if price is not None and 0 <= price < math.inf else None

    @property
    def steps(self) -> int | None:
        """Steps the run has done; None where a window ends before the run, since the books know only the last step."""
        return self.books.steps if self.window is None else self.last_step

    @property
    def clock(self) -> str:
        """``wall`` if the log tells the time of day, ``durations`` if its instants are only relative."""
        return "wall" if self.has_clock else "durations"

    def when(self, us: int | None, *, with_seconds: bool = False) -> str:
        """The instant for people: UTC, or how long after the beginning where the log has no clock."""
        if us is None or self.has_clock:
            return instant(us, with_seconds=with_seconds)
        return f"+{duration(us)}"

    def gpu_hours(self) -> dict[str, float] | None:
        """GPU-hours by account, and ``idle`` and ``held``; None where nobody says how many GPUs."""
        gpu = self.books.gpu
        if gpu is None:
            return None
        return {name: getattr(gpu, name) / HOUR for name in (*ACCOUNTS, "idle", "held")}

    def money(self) -> dict[str, float] | None:
        """Price times GPU-hours by account; None where the price or the GPUs are unknown, or the product no number."""
        hours, price = self.gpu_hours(), self.price
        if hours is None or price is None:
            return None
        money = {name: value * price for name, value in hours.items()}
        return money if math.isfinite(money["held"]) else None

    def share(self, account: Account) -> float | None:
        """The account's part of the run's time; None for a run of no length."""
        return self.books.accounts_us[account] / self.books.wall_us if self.books.wall_us else None

    def worst(self, num: int = 5) -> list[tuple[int, Interruption]]:
        """The costliest interruptions (lost and restart time), worst first, with their 1-based numbers in the run."""
        numbered = list(enumerate(self.details.interruptions, start=1))
        return sorted(numbered, key=lambda pair: (-cost_us(pair[1]), pair[0]))[:num]


def cost_us(interruption: Interruption) -> int:
    """What an interruption cost the run: work lost to it and the time until training went on."""
    return interruption.lost_us + interruption.restart_us
