"""Declared phases as sorted intervals of time: training ones split work, the others split restart time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec import Struct, field
from tachograph_agent.events import RESTART_PHASES, TRAINING_PHASES, Phase, PhaseStart, microseconds

from tachograph_collector.ledger.cover import Cover


class Interval(Struct, frozen=True, order=True, gc=False):
    """A named stretch of time."""

    start_us: int
    end_us: int
    name: str


class PhaseBook(Struct):
    """All phases of a run. Phases that the vocabulary doesn't know change nothing."""

    covers: dict[str, Cover] = field(default_factory=dict)
    """By name, when it was told to last; ranks that tell the same stretch are one."""
    inferred: dict[str, Cover] = field(default_factory=dict)
    """The same for phases that were told without ``dur``: each began with the last start of its name before it."""
    starts: list[tuple[int, str]] = field(default_factory=list)
    """``phase.start`` events in time order; one that no ``phase`` closes is open."""
    unmeasured: list[tuple[int, str]] = field(default_factory=list)
    signs: dict[str, list[int]] = field(default_factory=dict)
    """When a training phase was told, by attempt name (empty: none was named): a sign of training."""

    def add(self, event: Phase | PhaseStart) -> int | None:
        """Take one phase; gives the earliest time that it changes, None if it changes nothing."""
        name = event.name
        if name not in TRAINING_PHASES and name not in RESTART_PHASES:
            return None
        t_us = microseconds(event.t)
        if isinstance(event, PhaseStart):
            return self._begin(name, t_us)
        signed = self._sign(event.attempt, t_us) if name in TRAINING_PHASES else False
        if event.dur is None:
            start_us = self._begun(name, t_us)
            changed = _insert(self.unmeasured, (t_us, name))
            self.inferred.setdefault(name, Cover()).add(start_us, t_us)
        else:
            start_us = max(0, t_us - microseconds(event.dur))
            changed = self.covers.setdefault(name, Cover()).add(start_us, t_us)
        if changed:
            return start_us
        return t_us if signed else None

    def _sign(self, attempt: int | str | None, t_us: int) -> bool:
        return _insert(self.signs.setdefault("" if attempt is None else str(attempt), []), t_us)

    def _begun(self, name: str, end_us: int) -> int:
        """When a phase without ``dur`` began that ended at ``end_us``; then, if no start before it is known."""
        for place in range(bisect_left(self.starts, (end_us, "")) - 1, -1, -1):
            if self.starts[place][1] == name:
                return self.starts[place][0]
        return end_us

    def _begin(self, name: str, t_us: int) -> int | None:
        """Take a start; gives the earliest time that it changes. Ends without ``dur`` may have arrived before it."""
        if not _insert(self.starts, (t_us, name)):
            return None
        changed_us = t_us
        ends = [end_us for end_us, other in self.unmeasured if other == name]
        if any(end_us >= t_us for end_us in ends):
            # Ends after it may have begun with it, and not with the start before.
            changed_us = self._begun(name, t_us - 1)
            self.inferred[name] = Cover()
            for end_us in ends:
                self.inferred[name].add(self._begun(name, end_us), end_us)
        return min(changed_us, t_us)

    def next_training(self, t_us: int) -> int:
        """Where the first training phase that ends after ``t_us`` begins; far away if there is none."""
        begins = [begin for _, cover in self._of(TRAINING_PHASES) if (begin := cover.next_after(t_us)) is not None]
        return min(begins, default=1 << 62)

    def training_in(self, start_us: int, end_us: int) -> list[Interval]:
        """Training phases inside [start, end), clipped, disjoint and in order; ``eval`` wins over ``data_wait``."""
        return self._in(TRAINING_PHASES, start_us, end_us)

    def restart_in(self, start_us: int, end_us: int) -> list[Interval]:
        """Restart phases inside [start, end), clipped, disjoint and in order; of two at once the later begun counts."""
        return self._in(RESTART_PHASES, start_us, end_us)

    def _of(self, names: frozenset[str]) -> Iterator[tuple[str, Cover]]:
        for covers in (self.covers, self.inferred):
            yield from ((name, cover) for name, cover in covers.items() if name in names)

    def _in(self, names: frozenset[str], start_us: int, end_us: int) -> list[Interval]:
        found = [
            Interval(low, high, name)
            for name, cover in self._of(names)
            for low, high in cover.overlapping(start_us, end_us)
        ]
        return _disjoint(sorted(found), start_us, end_us)

    def open_since(self, t_us: int, name: str) -> int | None:
        """When a phase of that name began, at or after ``t_us``, that nothing has closed; ends come before starts."""
        ends = [cover.last_end for _, cover in self._of(frozenset({name}))]
        closed_us = max((end_us for end_us in ends if end_us is not None), default=-1)
        low = bisect_left(self.starts, (t_us, ""))
        return min((t for t, n in self.starts[low:] if n == name and t >= closed_us), default=None)

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


def _insert(known: list[Any], item: Any) -> bool:
    """Insert in order unless it is there."""
    place = bisect_left(known, item)
    if place < len(known) and known[place] == item:
        return False
    known.insert(place, item)
    return True


def _disjoint(intervals: list[Interval], start_us: int, end_us: int) -> list[Interval]:
    """Clip sorted intervals to [start, end) and resolve overlaps: ``eval`` first, then the one that began later."""
    if not intervals:
        return []
    edges = sorted({start_us, end_us, *(e for i in intervals for e in (i.start_us, i.end_us) if start_us < e < end_us)})
    result: list[Interval] = []
    here: list[Interval] = []
    next_one = 0
    for low, high in pairwise(edges):
        while next_one < len(intervals) and intervals[next_one].start_us <= low:
            here.append(intervals[next_one])
            next_one += 1
        here = [interval for interval in here if interval.end_us >= high]
        if not here:
            continue
        name = max(here, key=lambda i: (i.name == "eval", i.start_us, i.name)).name
        if result and result[-1].end_us == low and result[-1].name == name:
            result[-1] = Interval(result[-1].start_us, high, name)
        else:
            result.append(Interval(low, high, name))
    return result
