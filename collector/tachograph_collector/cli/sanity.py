"""Refuses a run of decades before it is booked: a broken clock, not a run, and every minute of it would take memory.

The ledger sets aside a lone event far from all others; two of them make a run that lasts from 1970 until today.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from tachograph_agent.events import AnyEvent

from tachograph_collector.cli.errors import BadInputError

LONGEST_RUN_SECONDS: Final = 5 * 366 * 86_400
_DAY_SECONDS: Final = 86_400
_NUM_BATCHES_LOOKED_AT_WHOLE: Final = 8


class Reach:
    """From when to when a log reaches, told from the borders of its batches, which costs nothing."""

    def __init__(self) -> None:
        self._earliest = float("inf")
        self._latest = 0.0
        self._num_batches = 0

    def add(self, batch: Sequence[AnyEvent]) -> None:
        """Take a batch into account; of a short log every event is looked at."""
        self._num_batches += 1
        looked_at = batch if self._num_batches <= _NUM_BATCHES_LOOKED_AT_WHOLE else (batch[0], batch[-1])
        for event in looked_at:
            if event.t < self._earliest:
                self._earliest = event.t
            if event.t > self._latest:
                self._latest = event.t

    def is_suspicious(self, now_us: int | None) -> bool:
        """Whether a run in the log may be longer than any run is."""
        end = self._latest if now_us is None else max(self._latest, now_us / 1e6)
        return end - self._earliest > LONGEST_RUN_SECONDS


def refuse_decades(batches: Iterable[Sequence[AnyEvent]], now_us: int | None) -> None:
    """Raise ``BadInputError`` if a run, lone events left out, lasts longer than five years."""
    days: dict[str, Counter[int]] = defaultdict(Counter)
    for batch in batches:
        for event in batch:
            days[event.run][int(event.t // _DAY_SECONDS)] += 1
    for run, counts in days.items():
        crowded = [day for day in counts if sum(counts[near] for near in (day - 1, day, day + 1)) > 1]
        if not crowded:
            continue
        first, last = min(crowded), max(crowded)
        by_now = now_us is not None and now_us / 1e6 > (last + 1) * _DAY_SECONDS
        end = now_us / 1e6 if by_now and now_us is not None else (last + 1) * _DAY_SECONDS
        if end - first * _DAY_SECONDS > LONGEST_RUN_SECONDS:
            raise BadInputError(
                f"run {run!r} would last from {_date(first * _DAY_SECONDS)} to {_date(end if by_now else end - 1)}"
                f"{', the time of --now' if by_now else ''}; no run lasts more than 5 years: "
                + ("check --now" if by_now else "check the clocks, and leave the wrong lines out")
            )


def _date(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d")
