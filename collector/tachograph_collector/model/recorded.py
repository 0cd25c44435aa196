"""A run's books as arrays, on two clocks: what the estimates and the judge compute from. Seconds from its beginning.

The wall clock runs all the time; the **exposure** clock stands still in planned down time and while the run was queued
for machines, when no failure could have counted; the **work** clock runs only while steps are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.ledger.books import SUB_ACCOUNTS, Details, Interruption
from tachograph_collector.model.check import Floats
from tachograph_collector.model.incidents import Stop

_SUBS: Final = {sub: code for code, sub in enumerate(sub for subs in SUB_ACCOUNTS.values() for sub in subs)}
_WORK: Final = np.array([_SUBS[sub] for account in ("kept", "lost") for sub in SUB_ACCOUNTS[account]])
_KEPT: Final = np.array([_SUBS[sub] for sub in SUB_ACCOUNTS["kept"]])
_LOST: Final = np.array([_SUBS[sub] for sub in SUB_ACCOUNTS["lost"]])
_RESTART: Final = np.array([_SUBS[sub] for sub in SUB_ACCOUNTS["restart"]])
_US: Final = 1e-6

PARTS: Final = (
    "kept",
    "saving",
    "aborted_saves",
    "lost_to_failures",
    "lost_otherwise",
    "down",
    "planned",
    "stalls",
    "other_restart",
)
"""What time is for the judge. ``down`` is start-up and the way back from failures, which failures explain; ``planned``
is planned down time and queueing; ``other_restart`` is the way back from rollbacks, and what nobody accounts for."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One run, or a window of it. Segments are in order of time; all arrays of segments have one length."""

    begin_s: Floats
    end_s: Floats
    part: NDArray[np.int8]
    """Index into ``PARTS``."""
    is_work: NDArray[np.bool_]
    interruptions: Sequence[Interruption]
    origin_us: int
    attempt_ends_us: dict[int, int]

    def seconds(self, at_us: int) -> float:
        """The instant, as seconds from the beginning."""
        return (at_us - self.origin_us) * _US

    def parts_s(self) -> dict[str, float]:
        """Seconds by part; they sum to the run's time."""
        sums = np.bincount(self.part, weights=self.end_s - self.begin_s, minlength=len(PARTS))
        return {part: float(seconds) for part, seconds in zip(PARTS, sums, strict=True)}

    def exposure(self, at_s: Floats) -> Floats:
        """The exposure clock at these moments."""
        return self._clock(at_s, self.part != PARTS.index("planned"))

    def work(self, at_s: Floats) -> Floats:
        """The work clock at these moments."""
        return self._clock(at_s, self.is_work)

    def _clock(self, at_s: Floats, runs: NDArray[np.bool_]) -> Floats:
        told = np.concatenate(([0.0], np.cumsum(np.where(runs, self.end_s - self.begin_s, 0.0))))
        place = np.clip(np.searchsorted(self.begin_s, at_s, side="right") - 1, 0, None)
        into = np.clip(at_s - self.begin_s[place], 0.0, self.end_s[place] - self.begin_s[place])
        return np.asarray(told[place] + np.where(runs[place], into, 0.0))

    def failures(self) -> list[Stop]:
        """Every unplanned failure in order of time, on the wall clock.

        It struck when training stopped; where nothing had stepped, when the attempt ended. Where the next attempt was
        at work before (parts of a log in the wrong order, attempts that overlap), nothing stood still.
        """
        found = []
        for it in self.interruptions:
            if it.how != "failure":
                continue
            at_work = it.last_step is not None
            struck_us = it.at_us if at_work else max(it.at_us, self.attempt_ends_us.get(it.attempt, it.at_us))
            resumed_s = None if it.resumed_at_us is None else self.seconds(max(struck_us, it.resumed_at_us))
            found.append(Stop(self.seconds(struck_us), resumed_s, it.category or "unknown", at_work))
        return sorted(found, key=lambda stop: stop.struck_s)


def recorded(details: Details) -> Recorded:
    """The arrays of a run's details, or of details that were clipped to a window. At least one segment is needed."""
    segments, interruptions = details.segments, sorted(details.interruptions, key=attrgetter("at_us"))
    num = len(segments)
    origin_us = segments[0].start_us

    # Lists of one attribute are the fastest way from records to arrays; a live judge has a run of 40,000 segments.
    begin_us = np.array([segment.start_us for segment in segments], np.int64)
    end_us = np.array([segment.end_us for segment in segments], np.int64)
    attempt = np.array([segment.attempt for segment in segments], np.int64)
    sub = np.array([_SUBS[segment.sub] for segment in segments], np.int8)
    is_work = np.isin(sub, _WORK)
    part = np.full(num, PARTS.index("kept"), np.int8)
    part[sub == _SUBS["save"]] = PARTS.index("saving")
    part[sub == _SUBS["aborted"]] = PARTS.index("aborted_saves")
    part[np.isin(sub, _LOST)] = PARTS.index("lost_to_failures")
    otherwise = _not_by_failure(interruptions)
    for place in np.flatnonzero(np.isin(sub, _LOST)):
        if segments[place].by in otherwise:
            part[place] = PARTS.index("lost_otherwise")
    restart = np.isin(sub, _RESTART)
    part[restart] = _restart_parts(begin_us, sub, attempt, is_work, interruptions)[restart]
    return Recorded(
        begin_s=np.asarray((begin_us - origin_us) * _US, np.float64),
        end_s=np.asarray((end_us - origin_us) * _US, np.float64),
        part=part,
        is_work=is_work,
        interruptions=interruptions,
        origin_us=origin_us,
        attempt_ends_us={one.index: one.end_us for one in details.attempts},
    )


def _not_by_failure(interruptions: Sequence[Interruption]) -> set[tuple[int, int] | None]:
    """Which interruptions, by attempt and how many rollbacks it had had, were rollbacks or planned stops."""
    rollbacks: Counter[int] = Counter()
    found: set[tuple[int, int] | None] = set()
    for it in interruptions:
        if it.how != "failure":
            found.add((it.attempt, rollbacks[it.attempt]))
        rollbacks[it.attempt] += it.how == "rollback"
    return found


def _restart_parts(
    begin_us: NDArray[np.int64],
    sub: NDArray[np.int8],
    attempt: NDArray[np.int64],
    is_work: NDArray[np.bool_],
    interruptions: Sequence[Interruption],
) -> NDArray[np.int8]:
    """For every segment the part that it would be if it were restart."""
    num = begin_us.size
    # Start-up, and what follows the last work, is explained: it belongs to the design.
    first_work = np.full(int(attempt.max(initial=0)) + 1, num)
    np.minimum.at(first_work, attempt[is_work], np.flatnonzero(is_work))
    places = np.arange(num)
    last_work = int(np.max(np.flatnonzero(is_work), initial=-1))
    starts = (places < first_work[attempt]) | (places > last_work)
    part = np.where(starts, PARTS.index("down"), PARTS.index("other_restart")).astype(np.int8)
    if interruptions:
        at_us = np.array([it.at_us for it in interruptions])
        until_us = np.array(
            [np.iinfo(np.int64).max if it.resumed_at_us is None else it.resumed_at_us for it in interruptions]
        )
        of = np.array([_of_how(it.how) for it in interruptions], np.int8)
        last = np.searchsorted(at_us, begin_us, side="right") - 1
        within = (last >= 0) & (begin_us < until_us[last])
        part = np.where(within, of[last], part).astype(np.int8)
    part[sub == _SUBS["stall"]] = PARTS.index("stalls")
    part[(sub == _SUBS["planned"]) | (sub == _SUBS["queued"])] = PARTS.index("planned")
    return part


def _of_how(how: str) -> int:
    if how == "planned":
        return PARTS.index("planned")
    return PARTS.index("other_restart") if how == "rollback" else PARTS.index("down")
