"""Declared phases as sorted intervals of time: training ones split work, the others split restart time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import pairwise

from msgspec import Struct, field
from tachograph_agent.events import RESTART_PHASES, TRAINING_PHASES, Phase, PhaseStart, microseconds


class Interval(Struct, frozen=True, order=True, gc=False):
    """A named stretch of time."""

    start_us: int
    end_us: int
    name: str


class PhaseBook(Struct):
    """All phases of a run. Phases that the vocabulary doesn't know change nothing."""

    training: list[Interval] = field(default_factory=list)
    restart: list[Interval] = field(default_factory=list)
    starts: list[tuple[int, str]] = field(default_factory=list)
    """``phase.start`` events in time order; one that no ``phase`` closes is open."""
    unmeasured: list[tuple[int, str]] = field(default_factory=list)
    """``phase`` events without ``dur``: each began with the last start of its name before it."""
    longest_us: int = 0
    seen: set[tuple[int, str, str, int, str]] = field(default_factory=set)
    signs: dict[str, list[int]] = field(default_factory=dict)
    """When a training phase was told, by attempt name (empty: none was named): a sign of training."""

    def add(self, event: Phase | PhaseStart) -> int | None:
        """Take one phase; gives the earliest time that it changes, None if it is a repeat or unknown."""
        t_us = microseconds(event.t)
        key = (t_us, event.kind, event.name, -1 if event.rank is None else event.rank, event.node or "")
        if key in self.seen:
            return None
        self.seen.add(key)
        if event.name not in TRAINING_PHASES and event.name not in RESTART_PHASES:
            return None
        if isinstance(event, PhaseStart):
            return self._begin(event.name, t_us)
        if event.name in TRAINING_PHASES:
            insort(self.signs.setdefault("" if event.attempt is None else str(event.attempt), []), t_us)
        if event.dur is None:
            insort(self.unmeasured, (t_us, event.name))
            start_us = self._begun(event.name, t_us)
        else:
            start_us = max(0, t_us - microseconds(event.dur))
        self._insert(Interval(start_us, t_us, event.name))
        return start_us

    def _begun(self, name: str, end_us: int) -> int:
        """When a phase without ``dur`` began that ended at ``end_us``; then, if no start of it is known."""
        return max((t for t, started in self.starts if started == name and t <= end_us), default=end_us)

    def _begin(self, name: str, t_us: int) -> int:
        """Take a start; gives the earliest time that it changes. Ends without ``dur`` may have arrived before it."""
        later = [(end_us, self._begun(name, end_us)) for end_us, n in self.unmeasured if n == name and end_us >= t_us]
        insort(self.starts, (t_us, name))
        changed_us = t_us
        for end_us, before_us in later:
            begun_us = self._begun(name, end_us)
            if begun_us != before_us:
                self._intervals(name).remove(Interval(before_us, end_us, name))
                self._insert(Interval(begun_us, end_us, name))
                changed_us = min(changed_us, before_us)
        return changed_us

    def _intervals(self, name: str) -> list[Interval]:
        return self.training if name in TRAINING_PHASES else self.restart

    def _insert(self, interval: Interval) -> None:
        insort(self._intervals(interval.name), interval)
        self.longest_us = max(self.longest_us, interval.end_us - interval.start_us)

    def next_training(self, t_us: int) -> int:
        """Where the first training phase that ends after ``t_us`` begins; far away if there is none."""
        first = None
        for interval in self.training[bisect_left(self.training, t_us - self.longest_us, key=_start) :]:
            if interval.end_us > t_us and interval.end_us > interval.start_us:
                first = interval.start_us
                break
        return 1 << 62 if first is None else first

    def training_in(self, start_us: int, end_us: int) -> list[Interval]:
        """Training phases inside [start, end), clipped, disjoint and in order; ``eval`` wins over ``data_wait``."""
        return _disjoint(self._overlapping(self.training, start_us, end_us), start_us, end_us)

    def restart_in(self, start_us: int, end_us: int) -> list[Interval]:
        """Restart phases inside [start, end), clipped, disjoint and in order; of two at once the later begun counts."""
        return _disjoint(self._overlapping(self.restart, start_us, end_us), start_us, end_us)

    def open_since(self, t_us: int, name: str) -> int | None:
        """When a phase of that name began, at or after ``t_us``, that nothing has closed."""
        closed = [interval.end_us for interval in self.training if interval.name == name]
        begun = [t for t, n in self.starts if n == name and t >= t_us and not any(end >= t for end in closed)]
        return min(begun, default=None)

    def last_sign(self, attempt: str, start_us: int, end_us: int) -> int:
        """The latest time in [start, end] at which a phase of that attempt, or of none, was told; 0 if none was.

        At ``end`` too: at one time a phase comes before the start of the next attempt.
        """
        latest = 0
        for name in {attempt, ""}:
            times = self.signs.get(name, [])
            place = bisect_right(times, end_us) - 1
            if place >= 0 and times[place] >= start_us:
                latest = max(latest, times[place])
        return latest

    def _overlapping(self, intervals: list[Interval], start_us: int, end_us: int) -> list[Interval]:
        low = bisect_left(intervals, start_us - self.longest_us, key=_start)
        high = bisect_right(intervals, end_us, key=_start)
        return [i for i in intervals[low:high] if i.end_us > start_us and i.start_us < end_us]


def _start(interval: Interval) -> int:
    return interval.start_us


def _disjoint(intervals: list[Interval], start_us: int, end_us: int) -> list[Interval]:
    """Clip to [start, end) and resolve overlaps: ``eval`` first, then the one that began later."""
    if not intervals:
        return []
    edges = sorted({start_us, end_us, *(e for i in intervals for e in (i.start_us, i.end_us) if start_us < e < end_us)})
    result: list[Interval] = []
    for low, high in pairwise(edges):
        here = [i for i in intervals if i.start_us <= low and i.end_us >= high]
        if not here:
            continue
        name = max(here, key=lambda i: (i.name == "eval", i.start_us, i.name)).name
        if result and result[-1].end_us == low and result[-1].name == name:
            result[-1] = Interval(result[-1].start_us, high, name)
        else:
            result.append(Interval(low, high, name))
    return result
