"""What one attempt name has told besides steps, in the log's order: starts, rollbacks, saves; and the run's own ends.

These are few, and each is an interruption of the steps. What is taken here answers from when on pieces may be others
than before; ``track`` folds anew from there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TypeAlias

from tachograph_agent.events import AttemptStart, Rollback, RunEnd, RunStart, microseconds

from tachograph_collector.ledger.legs import FAR
from tachograph_collector.ledger.saves import Save, SaveEvent, SaveLog
from tachograph_collector.ledger.state import TrackState, unpack_events

Other: TypeAlias = tuple[int, int, Save | AttemptStart | Rollback | RunEnd | RunStart]
"""What is no step: its time (a save's beginning), its place among events of one time, and itself."""


class Lifecycle:
    """The lifecycle of one attempt name. Not thread-safe; its track owns it.

    ``fences`` are the starts and ends of the whole run, shared by all of its attempts.
    """

    def __init__(self, fences: list[Other]) -> None:
        self.starts: list[Other] = []
        self.rollbacks: list[Other] = []
        self.save_logs: dict[int, SaveLog] = {}
        self.saves: list[Save] = []
        self._fences = fences

    def restore(self, state: TrackState) -> None:
        """Take up a saved state."""
        for event in unpack_events(state.starts):
            self.starts.append((microseconds(event.t), 8, event))  # type: ignore[arg-type]  # starts were packed
        for event in unpack_events(state.rollbacks):
            self.rollbacks.append((microseconds(event.t), 4, event))  # type: ignore[arg-type]  # likewise
        for log in state.save_logs:
            self.save_logs[log.step] = log
            for save in log.known:
                insort(self.saves, save, key=_save_key)

    # -- arrivals: each gives from when on pieces may be others, ``FAR`` for none of them, None if nothing is new ----

    def add_start(self, event: AttemptStart) -> int | None:
        """Take one ``attempt.start``."""
        return _add(self.starts, (microseconds(event.t), 8, event))

    def add_rollback(self, event: Rollback) -> int | None:
        """Take one ``rollback``."""
        return _add(self.rollbacks, (microseconds(event.t), 4, event))

    def add_save(self, event: SaveEvent) -> int | None:
        """Take one report of a save."""
        log = self.save_logs.get(event.step)
        if log is None:
            log = self.save_logs[event.step] = SaveLog(event.step)
        if not log.add(event):
            return None
        changed_us = FAR
        before, after = log.known, log.saves()
        timed = [(save.begin_us, save.end_us, save.outcome) for save in before if save.timed]
        if timed != [(save.begin_us, save.end_us, save.outcome) for save in after if save.timed]:
            changed_us = min(save.begin_us for save in (*before, *after) if save.timed)
        for save in before:
            place = bisect_left(self.saves, _save_key(save), key=_save_key)
            if place < len(self.saves) and _save_key(self.saves[place]) == _save_key(save):
                del self.saves[place]
        for save in after:
            insort(self.saves, save, key=_save_key)
        return changed_us

    def held_rollback(self, event: Rollback) -> Rollback:
        """The rollback equal to ``event`` that is held here; itself if there is none."""
        for _, _, held in self.rollbacks:
            if isinstance(held, Rollback) and held == event:
                return held
        return event

    def drop_rollback(self, event: Rollback) -> None:
        """Give up a rollback that belongs to another attempt after all."""
        self.rollbacks = [other for other in self.rollbacks if other[2] is not event]

    # -- answers -----------------------------------------------------------------------------------------------------

    @property
    def first_us(self) -> int:
        """When the first of them was; ``FAR`` if there is none."""
        begins = [others[0][0] for others in (self.starts, self.rollbacks) if others]
        begins += [self.saves[0].begin_us] if self.saves else []
        return min(begins, default=FAR)

    @property
    def last_us(self) -> int:
        """When the last of them ended; -1 if there is none."""
        ends = [others[-1][0] for others in (self.starts, self.rollbacks) if others]
        ends += [self.saves[-1].end_us or self.saves[-1].begin_us] if self.saves else []
        return max(ends, default=-1)

    def opens_between(self, after_us: int, before_us: int, lead: int | None) -> bool:
        """Whether something in [after, before) opens another leg: a start of the lead, a rollback, a run's end."""
        for others in (self.starts, self.rollbacks, self._fences):
            low = bisect_left(others, after_us, key=_time)
            for _, _, event in others[low : bisect_left(others, before_us, key=_time)]:
                rank = getattr(event, "rank", None)
                if isinstance(event, AttemptStart) and not (rank is None or lead is None or rank <= lead):
                    continue
                if not isinstance(event, RunStart):
                    return True
        return False

    def between(self, from_us: int, before_us: int, first_us: int, last_us: int) -> list[Other]:
        """All in [from, before), in the log's order; of the run's ends and starts those that matter.

        ``first_us``, ``last_us``: when the first record of the attempt was, steps and all, and when its last one ended.
        ``FAR`` for the first if records before what is folded now are not held.
        """
        found: list[Other] = []
        for others in (self.starts, self.rollbacks):
            low = bisect_left(others, from_us, key=_time)
            found.extend(others[low : bisect_left(others, before_us, key=_time)])
        found.extend(self._fences_in(from_us, before_us, first_us, last_us))
        low = bisect_left(self.saves, from_us, key=_begin)
        high = bisect_left(self.saves, before_us, key=_begin)
        found.extend((save.begin_us, 3, save) for save in self.saves[low:high] if save.timed)
        found.sort(key=_order)
        return found

    def _fences_in(self, from_us: int, before_us: int, first_us: int, last_us: int) -> list[Other]:
        """Ends and starts of the run in [from, before) that can matter: from the last end before our first record."""
        fences = self._fences
        low = bisect_left(fences, from_us, key=_time)
        if first_us < FAR:
            before = bisect_left(fences, first_us, key=_time) - 1
            while before > low and not isinstance(fences[before][2], RunEnd):
                before -= 1
            low = max(low, before)
        high = bisect_left(fences, before_us, key=_time)
        return fences[low : min(high, bisect_right(fences, last_us, key=_time))]


def _add(others: list[Other], other: Other) -> int | None:
    place = bisect_left(others, other[0], key=_time)
    identity = _identity(other)
    while place < len(others) and others[place][0] == other[0]:
        if _identity(others[place]) == identity:
            return None
        place += 1
    insort(others, other, key=_order)
    return other[0]


def _identity(other: Other) -> tuple[object, ...]:
    event = other[2]
    return (other[0], getattr(event, "node", None), getattr(event, "rank", None), getattr(event, "attempt", None))


def _time(other: Other) -> int:
    return other[0]


def _order(other: Other) -> tuple[int, int]:
    return (other[0], other[1])


def _begin(save: Save) -> int:
    return save.begin_us


def _save_key(save: Save) -> tuple[int, int]:
    return (save.begin_us, save.step)
