"""What the time of many runs came to, by account and cause: in wall-clock, GPU time and money.

A run's GPU time within a window is the world size of its attempts times its stretches. Where the books know better (a
scheduler's allocation tells how many GPUs were held) the whole run's accounts are theirs, its causes share them by
their own GPU time; a part of such a run is unknown, and said to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.ledger.books import ACCOUNTS, AttemptRecord, Books, Interruption, Segment
from tachograph_collector.report.model import Window
from tachograph_collector.report.text import HOUR, seconds
from tachograph_collector.service.formats import Column, Table, well

NAMES: Final = (*ACCOUNTS, "idle", "held")
MAX_UNKNOWN_SHOWN: Final = 20

Ints = NDArray[np.int64]


class Cause(NamedTuple):
    """What time went to: an account, its part, and for lost and restart time what made it so."""

    account: str
    sub: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class Strip:
    """A run's stretches as arrays, in order of time; ``cause`` is an index into ``causes``."""

    start_us: Ints
    end_us: Ints
    cause: Ints
    causes: list[Cause]
    gpus: Ints | None
    """World size of the attempt of each stretch; None where an attempt does not tell."""


@dataclass(frozen=True, slots=True)
class RunTotals:
    """One run's time in the window, by cause. GPU time is whole GPU-microseconds; None where it is not known."""

    wall_us: dict[Cause, int]
    gpu_us: dict[Cause, int] | None
    idle_us: int


def strip_of(
    segments: Sequence[Segment],
    attempts: Mapping[int, AttemptRecord],
    interruptions: Sequence[Interruption],
    world_size: int | None,
) -> Strip:
    """The stretches of a run with their causes: time without training is due to the stop before it.

    ``world_size`` is that of attempts that don't tell theirs.
    """
    start = np.array([segment.start_us for segment in segments], dtype=np.int64)
    stops = sorted(interruptions, key=lambda stop: stop.at_us)
    behind = np.searchsorted(np.array([stop.at_us for stop in stops], dtype=np.int64), start, side="right") - 1
    numbers: dict[tuple[str, str, str | None], int] = {}
    codes = []
    for segment, place in zip(segments, behind.tolist(), strict=True):
        cause = None
        if segment.account == "lost":
            cause = segment.cause or "unknown"
        elif segment.account == "restart" and place >= 0:
            stop = stops[place]
            if stop.resumed_at_us is None or segment.start_us < stop.resumed_at_us:
                cause = stop.category or (stop.how if stop.how != "failure" else "unknown")
        codes.append(numbers.setdefault((segment.account, segment.sub, cause), len(numbers)))
    told = {index: attempt.world_size or world_size for index, attempt in attempts.items()}
    sizes = [told.get(segment.attempt) for segment in segments]
    return Strip(
        start_us=start,
        end_us=np.array([segment.end_us for segment in segments], dtype=np.int64),
        cause=np.array(codes, dtype=np.int64),
        causes=[Cause(*each) for each in numbers],
        gpus=None if None in sizes else np.array(sizes, dtype=np.int64),
    )


def totals_of(strip: Strip, books: Books, window: Window) -> RunTotals:
    """What of the run lies within the window."""
    low = books.start_us if window.since_us is None else window.since_us
    high = max(books.end_us, low) if window.until_us is None else window.until_us
    lengths = np.maximum(np.minimum(strip.end_us, high) - np.maximum(strip.start_us, low), 0)
    wall = _summed(strip, lengths)
    gpu = None if strip.gpus is None else _summed(strip, lengths * strip.gpus)
    if books.gpu is None:
        return RunTotals(wall, None, 0)
    whole = None if strip.gpus is None else _summed(strip, (strip.end_us - strip.start_us) * strip.gpus)
    by_account = _by_account(whole) if whole is not None else None
    if by_account == {a: getattr(books.gpu, a) for a in ACCOUNTS if getattr(books.gpu, a)} and not books.gpu.idle:
        return RunTotals(wall, gpu, 0)
    if low > books.start_us or high < books.end_us:
        return RunTotals(wall, None, 0)
    return RunTotals(wall, _shared(books, whole if whole is not None else wall), books.gpu.idle)


def _summed(strip: Strip, amounts: Ints) -> dict[Cause, int]:
    sums = np.zeros(len(strip.causes), dtype=np.int64)
    np.add.at(sums, strip.cause, amounts)
    return {cause: amount for cause, amount in zip(strip.causes, sums.tolist(), strict=True) if amount}


def _by_account(amounts: Mapping[Cause, int]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for cause, amount in amounts.items():
        sums[cause.account] += amount
    return dict(sums)


def _shared(books: Books, amounts: Mapping[Cause, int]) -> dict[Cause, int]:
    """The books' GPU time of each account, shared out among its causes by ``amounts``."""
    sums = _by_account(amounts)
    return {
        cause: round(getattr(books.gpu, cause.account) * amount / sums[cause.account])
        for cause, amount in amounts.items()
    }


@dataclass(slots=True)
class FleetTotals:
    """Totals of the runs that were added."""

    num_runs: int = 0
    wall_us: Counter[Cause] = field(default_factory=Counter)
    gpu_us: Counter[Cause] = field(default_factory=Counter)
    money: Counter[Cause] = field(default_factory=Counter)
    without_gpus: list[str] = field(default_factory=list)
    without_price: list[str] = field(default_factory=list)

    def add(self, name: str, totals: RunTotals, price: float | None) -> None:
        """Add a run; one with no time in the window is none of them."""
        if not totals.wall_us:
            return
        self.num_runs += 1
        self.wall_us.update(totals.wall_us)
        if totals.gpu_us is None:
            self.without_gpus.append(name)
            return
        spent = {**totals.gpu_us, **({_IDLE: totals.idle_us} if totals.idle_us else {})}
        self.gpu_us.update(spent)
        if price is None:
            self.without_price.append(name)
            return
        for cause, amount in spent.items():
            self.money[cause] += amount / HOUR * price  # type: ignore[assignment] # Counter is typed for whole numbers

    def answer(self) -> dict[str, object]:
        """The totals as JSON values, but for the rows by cause."""
        gpu = {name: _of(self.gpu_us, name) / HOUR for name in NAMES}
        unknown = [*self.without_gpus, *self.without_price][:MAX_UNKNOWN_SHOWN]
        return {
            "runs": self.num_runs,
            "wall_s": seconds(sum(self.wall_us.values())),
            "accounts_s": {account: seconds(int(_of(self.wall_us, account))) for account in ACCOUNTS},
            "gpu_hours": gpu,
            "gpu_goodput": gpu["kept"] / gpu["held"] if gpu["held"] else None,
            "money": {name: float(_of(self.money, name)) for name in NAMES},
            "runs_without_gpus": len(self.without_gpus),
            "runs_without_price": len(self.without_price),
            "unknown_runs": [well(name) for name in unknown],
        }

    def causes(self) -> Table:
        """A row for each cause that any time went to, the costliest first in GPU time, then in wall-clock."""
        found = sorted(
            self.wall_us.keys() | self.gpu_us.keys(),
            key=lambda cause: (-self.gpu_us[cause], -self.wall_us[cause], str(cause)),
        )
        return [
            Column("account", "text", [cause.account for cause in found]),
            Column("sub", "text", [cause.sub for cause in found]),
            Column("cause", "text", [cause.cause for cause in found]),
            Column("wall_s", "seconds", [self.wall_us[cause] for cause in found]),
            Column("gpu_hours", "float", [self.gpu_us[cause] / HOUR for cause in found]),
            Column("money", "float", [float(self.money[cause]) for cause in found]),
        ]


_IDLE: Final = Cause("idle", "idle", None)


def _of(amounts: Mapping[Cause, Any], name: str) -> float:
    return float(sum(amount for cause, amount in amounts.items() if name in {"held", cause.account}))
