"""What has come of one run name, in any order: each event is sorted to its attempt or into the run's own records.

Nearly all events are steps in order. They are taken by whole columns; what else comes is looked at one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import sub

from tachograph_agent.events import (
    AllocationEnd,
    AllocationStart,
    AnyEvent,
    AttemptEnd,
    AttemptStart,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    FailureWithdrawn,
    Gap,
    Heartbeat,
    Phase,
    PhaseStart,
    Rollback,
    RunEnd,
    RunStart,
    Step,
    decode,
    microseconds,
)

from tachograph_collector.ledger.clock import DAY_US, Island, Islands
from tachograph_collector.ledger.ends import EndLog, insert, key
from tachograph_collector.ledger.gpus import Allocations
from tachograph_collector.ledger.hearing import MINUTE_US, Hearing
from tachograph_collector.ledger.legs import NO_RANK, StepRow
from tachograph_collector.ledger.lifecycle import Other
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.source import StepSource
from tachograph_collector.ledger.state import RunState, allocations_of, unpack_events
from tachograph_collector.ledger.stretch import plain_until
from tachograph_collector.ledger.track import Track, step_key


class Arrivals:
    """The records of one run name. Not thread-safe; one ledger owns them, and says when it has looked at the changes.

    ``source`` re-reads steps (see ``StepSource``); without one every step is held.
    """

    def __init__(self, run: str, source: StepSource | None) -> None:
        self.latest_us = 0
        self.islands = Islands()
        self.tracks: dict[str, Track] = {}
        self.phases = PhaseBook()
        self.allocations = Allocations()
        self.boundaries: list[RunStart | RunEnd] = []
        self.ends = EndLog()
        self.unnamed: list[tuple[Rollback, Track | None]] = []
        """Rollbacks that name no attempt, each with the one that it was given to."""
        self.hearing = Hearing()
        self.dirty_us: int | None = None
        """From when on something was changed that is no attempt's own."""
        self.is_reshaped = True
        """Whether anything but steps, saves and phases has come that the run's outline depends on."""
        self.phases_since_us: int | None = None
        """From when on phases have come: the outline depends on those that reach to before the running attempt."""
        self._run = run
        self._source = source
        self._fences: list[Other] = []
        self._unnamed_keys: set[tuple[object, ...]] = set()
        self._hot: tuple[Track, int | str | None, int | None] | None = None
        """Whose records are likely next: the track, and what they call attempt and rank."""

    @classmethod
    def restored(cls, state: RunState, source: StepSource | None) -> Arrivals:
        """Those that ``state`` was saved of."""
        arrivals = cls(state.run, source)
        arrivals.latest_us = state.latest_us
        arrivals.islands = Islands(
            [Island(low, high, decode(lone) if lone is not None else None) for low, high, lone in state.islands]
        )
        arrivals.phases = state.phases
        arrivals.allocations = allocations_of(state.allocations)
        for event in unpack_events(state.boundaries):
            assert isinstance(event, RunStart | RunEnd)
            arrivals.boundaries.append(event)
        arrivals._fences[:] = _fences(arrivals.boundaries)
        arrivals.ends = EndLog.restored(state.ends)
        for track in state.tracks:
            arrivals._track(track.name).restore(track)
        for line, owner in state.unnamed:
            rollback = decode(line)
            assert isinstance(rollback, Rollback)
            arrivals._unnamed_keys.add(key(rollback))
            held = arrivals.tracks[owner].lifecycle.held_rollback(rollback) if owner is not None else rollback
            arrivals.unnamed.append((held, arrivals.tracks[owner] if owner is not None else None))
        arrivals.hearing.gaps = state.gaps
        for low, high in state.heard:
            arrivals.hearing.heard.update(range(low, high + 1))
        arrivals.hearing.expected_us = state.expected_us
        return arrivals

    @property
    def reach_us(self) -> tuple[int, int] | None:
        """The times of the first and last event that was believed; None if there is none."""
        believed = [island for island in self.islands.islands if island.lone is None]
        return (believed[0].low_us, believed[-1].high_us) if believed else None

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take events of this run, in any order."""
        for kind, group in groupby(events, type):
            rest = list(group)
            while rest:
                if kind is not Step:
                    taken = self._take_one_by_one(rest)
                elif self._take_in_order(rest):  # type: ignore[arg-type]  # grouped by type
                    break
                else:
                    taken = self._take_of_many_ranks(rest)  # type: ignore[arg-type]  # likewise
                rest = rest[taken:]

    def _take_one_by_one(self, events: list[AnyEvent]) -> int:
        """Take events until one makes another attempt's lead the hot one; gives how many were taken."""
        hot, taken = self._hot, 0
        for event in events:
            taken += 1
            for admitted in self.islands.admit(microseconds(event.t), event):
                self.take(admitted)
            if self._hot is not hot:
                break
        return taken

    def _take_in_order(self, steps: list[Step]) -> bool:
        """Take a batch of the lead's records that follow all others in order, as nearly all do; False if they don't.

        The checks and conversions go over whole columns: of a million steps each costs what it costs here.
        """
        if self._hot is None:
            return False
        track, attempt, rank = self._hot
        if not track.steps or track.is_unsorted or track.lead != (NO_RANK if rank is None else rank):
            return False
        last = track.steps[-1][0]
        times_us = [round(step.t * 1e6) for step in steps]
        first_us, last_us = times_us[0], times_us[-1]
        island = self.islands.islands[-1]
        apart_us = list(map(sub, times_us[1:], times_us))
        in_order = (
            last < first_us
            and last_us - last < DAY_US
            and island.low_us <= last <= island.high_us
            and min(apart_us, default=1) > 0
            and {step.attempt for step in steps} == {attempt}
            and {step.rank for step in steps} == {rank}
        )
        if not in_order:
            return False
        if max(apart_us, default=0) < MINUTE_US:
            minutes = set(range(first_us // MINUTE_US, last_us // MINUTE_US + 1))
        else:
            minutes = {t_us // MINUTE_US for t_us in times_us}
        self.hearing.hear_in(minutes)
        island.high_us = max(island.high_us, last_us)
        self.latest_us = max(self.latest_us, last_us)
        durations = [step.dur for step in steps]
        durations_us = [-1 if dur is None else round(dur * 1e6) for dur in durations]
        numbers = [step.step for step in steps]
        counts = [step.count for step in steps]
        alive_us = plain_until(times_us, apart_us, numbers, durations_us, counts)
        track.append_steps(list(zip(times_us, numbers, durations_us, counts, strict=True)), alive_us)
        return True

    def _take_of_many_ranks(self, steps: list[Step]) -> int:
        """As ``_take_one_by_one``; most are of ranks that tell what the lead has told: they cost a look at the time."""
        times_us = [round(step.t * 1e6) for step in steps]
        if not self.islands.widen(min(times_us), max(times_us)):
            return self._take_one_by_one(steps)  # type: ignore[arg-type]  # steps are events
        self.latest_us = max(self.latest_us, *times_us)
        self.hearing.hear_in({t_us // MINUTE_US for t_us in times_us})
        hot, taken = self._hot, 0
        track: Track | None = None
        attempt: int | str | None = None
        for step, t_us in zip(steps, times_us, strict=True):
            taken += 1
            if track is None or step.attempt != attempt:
                track, attempt = self._track(step.attempt), step.attempt
            rank = NO_RANK if step.rank is None else step.rank
            if track.has_told(t_us, rank):
                continue
            track.add_step(_row(step), rank)
            if track.lead == rank and self._hot != (track, step.attempt, step.rank):
                self._hot = (track, step.attempt, step.rank)
                if self._hot is not hot:
                    break
        return taken

    def take(self, event: AnyEvent) -> None:
        """Take one event that is believed."""
        t_us = microseconds(event.t)
        self.latest_us = max(self.latest_us, t_us)
        self.hearing.hear(t_us)
        match event:
            case Step():
                track = self._track(event.attempt)
                rank = NO_RANK if event.rank is None else event.rank
                track.add_step(_row(event), rank)
                if track.lead == rank and self._hot != (track, event.attempt, event.rank):
                    self._hot = (track, event.attempt, event.rank)
            case CheckpointStart() | CheckpointSaved() | CheckpointPersisted() | CheckpointFailed():
                self._track(event.attempt).add_save(event)
            case AttemptStart():
                self.is_reshaped = True
                self._track(event.attempt).add_start(event)
            case Rollback():
                self.is_reshaped = True
                if event.attempt is not None:
                    self._track(event.attempt).add_rollback(event)
                elif key(event) not in self._unnamed_keys:
                    self._unnamed_keys.add(key(event))
                    self.unnamed.append((event, None))
            case Failure() | AttemptEnd() | FailureWithdrawn():
                self.is_reshaped = True
                self.ends.add(event)
            case RunStart() | RunEnd():
                self.is_reshaped = True
                if insert(self.boundaries, event):
                    self._fences[:] = _fences(self.boundaries)
                    # A start inside a segment changes nothing: only one after an end can.
                    if isinstance(event, RunEnd) or any(other[1] == 6 and other[0] <= t_us for other in self._fences):
                        self._touch(t_us)
            case Phase() | PhaseStart():
                changed_us = self.phases.add(event)
                if changed_us is not None:
                    self._take_phase(changed_us)
            case AllocationStart() | AllocationEnd():
                self.is_reshaped = True
                # What was booked by the old ones must be taken back by the old ones: they are left as they are.
                allocations = self.allocations.copy()
                changed_us = allocations.add(event)
                if changed_us is not None:
                    self.allocations = allocations
                    self._soil(changed_us)
            case Gap():
                since_us = t_us if event.since is None else microseconds(event.since)
                self.hearing.lose(min(since_us, t_us), t_us)
            case Heartbeat():
                self.hearing.expect(t_us)
            case _:
                pass

    def _track(self, attempt: int | str | None) -> Track:
        name = "0" if attempt is None else str(attempt)
        track = self.tracks.get(name)
        if track is None:
            reader = self._read_steps if self._source is not None else None
            track = self.tracks[name] = Track(name, self.phases, self._fences, reader)
            self.is_reshaped = True
        return track

    def _read_steps(self, name: str, rank: int, after_us: int, until_us: int) -> list[StepRow]:
        """One rank's records of one attempt in (after, until], read again from the source."""
        assert self._source is not None
        rows: dict[tuple[int, int], StepRow] = {}
        for event in self._source.read(self._run, max(after_us, 0)):
            if not isinstance(event, Step) or (NO_RANK if event.rank is None else event.rank) != rank:
                continue
            if ("0" if event.attempt is None else str(event.attempt)) != name:
                continue
            row = _row(event)
            if after_us < row[0] <= until_us:
                rows[row[:2]] = min(row, rows.get(row[:2], row), key=step_key)
        return sorted(rows.values(), key=step_key)

    def _touch(self, at_us: int) -> None:
        for track in self.tracks.values():
            track.touch(at_us)

    def _take_phase(self, changed_us: int) -> None:
        """Let a phase change what is booked from this time on; mostly that is of the running attempt alone."""
        for track in self.tracks.values():
            if track.reach_us >= changed_us:
                track.touch(changed_us)
        self._soil(changed_us)
        self.phases_since_us = changed_us if self.phases_since_us is None else min(self.phases_since_us, changed_us)

    def _soil(self, at_us: int) -> None:
        self.dirty_us = at_us if self.dirty_us is None else min(self.dirty_us, at_us)

    def forget_changes(self) -> None:
        """The run's outline follows from everything that has come."""
        self.is_reshaped, self.phases_since_us = False, None


def _row(step: Step) -> StepRow:
    dur = step.dur
    return (round(step.t * 1e6), step.step, -1 if dur is None else round(dur * 1e6), step.count)


def _fences(boundaries: Sequence[RunStart | RunEnd]) -> list[Other]:
    """Starts and ends of the run as the fold of an attempt takes them: ends first at one time."""
    fences: list[Other] = [
        (microseconds(event.t), 6 if isinstance(event, RunEnd) else 7, event) for event in boundaries
    ]
    return sorted(fences, key=lambda other: other[:2])
