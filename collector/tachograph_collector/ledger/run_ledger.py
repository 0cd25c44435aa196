"""One run's ledger: takes events as they come, and keeps the books of each run of that name current."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Sequence
from itertools import groupby
from operator import sub
from typing import Final

from msgspec.structs import replace
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
    encode,
    microseconds,
)

from tachograph_collector.ledger.answer import GenerationBooks, RunFacts
from tachograph_collector.ledger.booking import Booking
from tachograph_collector.ledger.books import Books, Changes, Details, Minute, Restated, RunSpan
from tachograph_collector.ledger.clock import DAY_US, Island, Islands
from tachograph_collector.ledger.ends import EndEvent, EndLog, insert, key
from tachograph_collector.ledger.fold import Other
from tachograph_collector.ledger.gpus import Allocations
from tachograph_collector.ledger.hearing import Hearing
from tachograph_collector.ledger.legs import NO_RANK, StepRow
from tachograph_collector.ledger.outline import (
    Generation,
    Outing,
    generations_of,
    outings_of,
    place_ends,
    spans_of,
)
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.source import StepSource
from tachograph_collector.ledger.state import RunState, allocations_of, pack_events, ranges, unpack_events
from tachograph_collector.ledger.stretch import plain_until
from tachograph_collector.ledger.track import Track, step_key

ABANDONED_US: Final = 6 * 3600 * 1_000_000
MINUTE_US: Final = 60_000_000


class RunLedger:
    """The ledger of one run name. Not thread-safe.

    ``source`` re-reads steps (see ``StepSource``); without one every step is held. ``abandoned_us``: a live run that is
    silent for so long and holds no allocation counts as failed.
    """

    def __init__(self, run: str, source: StepSource | None = None, abandoned_us: int = ABANDONED_US) -> None:
        self.run = run
        self.num_set_aside: Counter[str] = Counter()
        self.latest_us = 0
        self.taken: Container[str] = ()
        """Names that other runs have, and none of this run's generations may take."""
        self._source = source
        self._abandoned_us = abandoned_us
        self._islands = Islands()
        self._tracks: dict[str, Track] = {}
        self._phases = PhaseBook()
        self._allocations = Allocations()
        self._fences: list[Other] = []
        self._boundaries: list[RunStart | RunEnd] = []
        self._ends = EndLog()
        self._unnamed: list[tuple[Rollback, Track | None]] = []
        self._unnamed_keys: set[tuple[object, ...]] = set()
        self._hearing = Hearing()
        self._dirty_us: int | None = None
        self._generations: list[GenerationBooks] = []
        self._withdrawn: list[Restated] = []
        """Minutes of runs that are none any more: their time belongs to another, or to nobody."""
        self._given_up: dict[int, set[int]] = {}
        """The same minutes by generation, for who asks what has changed."""
        self._settled_for: int | None = None
        self._stale = True
        self._reshaped = True
        """Whether anything but steps and saves has come that the run's outline depends on."""
        self._has_unplaced = False
        self._hot: tuple[Track, int | str | None, int | None] | None = None
        """Whose records are likely next: the track, and what they call attempt and rank."""

    # -- arrivals ----------------------------------------------------------------------------------------------------

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take events of this run, in any order."""
        if events:
            self._stale = True
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
            for admitted in self._islands.admit(microseconds(event.t), event):
                self._take(admitted)
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
        island = self._islands.islands[-1]
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
        self._hearing.hear_in(minutes)
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
        if not self._islands.widen(min(times_us), max(times_us)):
            return self._take_one_by_one(steps)  # type: ignore[arg-type]  # steps are events
        self.latest_us = max(self.latest_us, *times_us)
        self._hearing.hear_in({t_us // MINUTE_US for t_us in times_us})
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

    def _take(self, event: AnyEvent) -> None:
        t_us = microseconds(event.t)
        self.latest_us = max(self.latest_us, t_us)
        self._hearing.hear(t_us)
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
                self._reshaped = True
                self._track(event.attempt).add_start(event)
            case Rollback():
                self._reshaped = True
                if event.attempt is not None:
                    self._track(event.attempt).add_rollback(event)
                elif key(event) not in self._unnamed_keys:
                    self._unnamed_keys.add(key(event))
                    self._unnamed.append((event, None))
            case Failure() | AttemptEnd() | FailureWithdrawn():
                self._reshaped = True
                self._ends.add(event)
            case RunStart() | RunEnd():
                self._reshaped = True
                if insert(self._boundaries, event):
                    self._fences[:] = _fences(self._boundaries)
                    # A start inside a segment changes nothing: only one after an end can.
                    if isinstance(event, RunEnd) or any(other[1] == 6 and other[0] <= t_us for other in self._fences):
                        self._touch(t_us)
            case Phase() | PhaseStart():
                changed_us = self._phases.add(event)
                if changed_us is not None:
                    self._take_phase(changed_us)
            case AllocationStart() | AllocationEnd():
                self._reshaped = True
                # What was booked by the old ones must be taken back by the old ones: they are left as they are.
                allocations = self._allocations.copy()
                changed_us = allocations.add(event)
                if changed_us is not None:
                    self._allocations = allocations
                    self._soil(changed_us)
            case Gap():
                since_us = t_us if event.since is None else microseconds(event.since)
                self._hearing.lose(min(since_us, t_us), t_us)
            case Heartbeat():
                self._hearing.expect(t_us)
            case _:
                pass

    def _track(self, attempt: int | str | None) -> Track:
        name = "0" if attempt is None else str(attempt)
        track = self._tracks.get(name)
        if track is None:
            reader = self._read_steps if self._source is not None else None
            track = self._tracks[name] = Track(name, self._phases, self._fences, reader)
            self._reshaped = True
        return track

    def _read_steps(self, name: str, rank: int, after_us: int, until_us: int) -> list[StepRow]:
        """One rank's records of one attempt in (after, until], read again from the source."""
        assert self._source is not None
        rows: dict[tuple[int, int], StepRow] = {}
        for event in self._source.read(self.run, max(after_us, 0)):
            if not isinstance(event, Step) or (NO_RANK if event.rank is None else event.rank) != rank:
                continue
            if ("0" if event.attempt is None else str(event.attempt)) != name:
                continue
            row = _row(event)
            if after_us < row[0] <= until_us:
                rows[row[:2]] = min(row, rows.get(row[:2], row), key=step_key)
        return sorted(rows.values(), key=step_key)

    def _touch(self, at_us: int) -> None:
        for track in self._tracks.values():
            track.touch(at_us)

    def _take_phase(self, changed_us: int) -> None:
        """Let a phase change what is booked from this time on; mostly that is of the running attempt alone."""
        for track in self._tracks.values():
            if track.reach_us >= changed_us:
                track.touch(changed_us)
        self._soil(changed_us)
        last = self._generations[-1].last_outing if self._generations else None
        if last is None or changed_us <= last.begin_us:
            self._reshaped = True

    def _soil(self, at_us: int) -> None:
        self._dirty_us = at_us if self._dirty_us is None else min(self._dirty_us, at_us)

    # -- state -------------------------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """What is needed to go on from here."""
        self.settle(self._settled_for)
        return RunState(
            run=self.run,
            latest_us=self.latest_us,
            islands=[
                (island.low_us, island.high_us, encode(island.lone) if island.lone is not None else None)
                for island in self._islands.islands
            ],
            tracks=[track.state() for track in self._tracks.values()],
            phases=self._phases,
            allocations=self._allocations.events,
            boundaries=pack_events(self._boundaries),
            ends=self._ends.state(),
            unnamed=[(encode(event), owner.name if owner is not None else None) for event, owner in self._unnamed],
            gaps=self._hearing.gaps,
            heard=ranges(self._hearing.heard),
            expected_us=self._hearing.expected_us,
            settled_for=self._settled_for,
            minutes=[generation.minutes_state() for generation in self._generations],
            withdrawn=self._withdrawn,
        )

    @classmethod
    def restored(cls, state: RunState, source: StepSource | None = None, abandoned_us: int = ABANDONED_US) -> RunLedger:
        """The ledger that goes on from ``state``."""
        ledger = cls(state.run, source, abandoned_us)
        ledger.latest_us = state.latest_us
        ledger._islands = Islands(
            [Island(low, high, decode(lone) if lone is not None else None) for low, high, lone in state.islands]
        )
        ledger._phases = state.phases
        ledger._allocations = allocations_of(state.allocations)
        for event in unpack_events(state.boundaries):
            assert isinstance(event, RunStart | RunEnd)
            ledger._boundaries.append(event)
        ledger._fences[:] = _fences(ledger._boundaries)
        ledger._ends = EndLog.restored(state.ends)
        for track in state.tracks:
            ledger._track(track.name).restore(track)
        for line, owner in state.unnamed:
            rollback = decode(line)
            assert isinstance(rollback, Rollback)
            ledger._unnamed_keys.add(key(rollback))
            held = ledger._tracks[owner].held_rollback(rollback) if owner is not None else rollback
            ledger._unnamed.append((held, ledger._tracks[owner] if owner is not None else None))
        ledger._hearing.gaps = state.gaps
        for low, high in state.heard:
            ledger._hearing.heard.update(range(low, high + 1))
        ledger._hearing.expected_us = state.expected_us
        ledger._withdrawn = state.withdrawn
        for generation, minutes in zip(ledger.settle(state.settled_for), state.minutes, strict=True):
            generation.restore_minutes(minutes)
        return ledger

    # -- answers -----------------------------------------------------------------------------------------------------

    def settle(self, now_us: int | None = None) -> list[GenerationBooks]:
        """Bring the books up to everything that has arrived, as of ``now_us`` (None: the latest event)."""
        if not self._stale and self._settled_for == now_us:
            return self._generations
        alone = self._alone()
        if alone is not None:
            self._generations = alone.settle(now_us)
            self._reshaped = True
            return self._generations
        if self._extend(now_us):
            return self._generations
        outings, spans, end_us = self._outline(now_us)
        self.num_set_aside.clear()
        unplaced = place_ends(outings, self._ends.standing(), spans)
        self._count_set_aside(list(self._tracks.values()), unplaced)
        generations = generations_of(self.run, spans, outings, self.taken) if spans else []
        self._book(generations, end_us)
        self._has_unplaced = bool(unplaced)
        self._stale, self._reshaped, self._settled_for = False, False, now_us
        return self._generations

    def _extend(self, now_us: int | None) -> bool:
        """Settle a run of which only the last attempt has gone on: at the cost of that, however many were before."""
        if self._reshaped or self._has_unplaced or self._unnamed or not self._generations:
            return False
        if any(f"{self.run}#{number}" in self.taken for number in range(2, len(self._generations) + 1)):
            return False
        current = self._generations[-1]
        last = current.last_outing
        if last is None or last.how != "running" or current.spans[-1].status != "running":
            return False
        track = last.track
        if any(other.is_stale for other in self._tracks.values() if other is not track):
            return False
        if now_us is not None and now_us - self.latest_us >= self._abandoned_us:
            return False
        known = outings_of([track])
        track.settle()
        outings = outings_of([track])
        if len(known) != len(outings) or known[:-1] != outings[:-1] or outings[-1].begin_us != last.begin_us:
            return False
        end_us = self.latest_us if now_us is None else max(now_us, self.latest_us)
        spans = current.spans
        spans = [*spans[:-1], RunSpan(spans[-1].start_us, max(end_us, spans[-1].start_us), "running")]
        dirty_us = min((us for us in (track.dirty_us, self._dirty_us) if us is not None), default=None)
        if not current.extend(outings[-1], spans, dirty_us, end_us):
            return False
        track.dirty_us = self._dirty_us = None
        self.num_set_aside.clear()
        self._count_set_aside(list(self._tracks.values()), [])
        self._stale, self._settled_for = False, now_us
        return True

    def spans(self, now_us: int | None = None) -> list[RunSpan]:
        """The stretches of the run's time, told without booking a minute of them."""
        alone = self._alone()
        return self._outline(now_us)[1] if alone is None else alone.spans(now_us)

    @property
    def reach_us(self) -> tuple[int, int] | None:
        """The times of the first and last event that was believed; None if there is none."""
        believed = [island for island in self._islands.islands if island.lone is None]
        return (believed[0].low_us, believed[-1].high_us) if believed else None

    def _outline(self, now_us: int | None) -> tuple[list[Outing], list[RunSpan], int]:
        """The attempts, the stretches of the run's time, and when the reading of them ends."""
        tracks = list(self._tracks.values())
        self._settle_tracks(tracks)
        outings = outings_of(tracks)
        end_us = self.latest_us if now_us is None else max(now_us, self.latest_us)
        spans, is_open = spans_of(self._boundaries, outings, end_us)
        silent = now_us is not None and now_us - self.latest_us >= self._abandoned_us
        if is_open and silent and not self._allocations.any_held_last:
            spans[-1] = RunSpan(spans[-1].start_us, max(self.latest_us, spans[-1].start_us), "abandoned")
        return outings, spans, end_us

    def _alone(self) -> RunLedger | None:
        """The ledger of a log of one event: it is believed as long as there is no other that it could be a day from."""
        held = self._islands.held_back
        if self._hearing.heard or len(held) != 1:
            return None
        alone = RunLedger(self.run, None, self._abandoned_us)
        alone._take(held[0])
        return alone

    def _settle_tracks(self, tracks: list[Track]) -> None:
        for track in tracks:
            track.settle()
        for _ in range(len(self._unnamed) + 1):
            if not self._assign_unnamed(tracks):
                break
            for track in tracks:
                track.settle()

    def _assign_unnamed(self, tracks: list[Track]) -> bool:
        """Give rollbacks that name no attempt to the one running then; True if any changed hands."""
        if not self._unnamed:
            return False
        outings = outings_of(tracks)
        begins = [outing.begin_us for outing in outings]
        changed = False
        for number, (event, owner) in enumerate(self._unnamed):
            place = bisect_left(begins, microseconds(event.t) + 1) - 1
            running = outings[place].track if place >= 0 else None
            if running is owner:
                continue
            if owner is not None:
                owner.drop_rollback(event)
            if running is not None:
                running.add_rollback(event)
            self._unnamed[number] = (event, running)
            changed = True
        return changed

    def _count_set_aside(self, tracks: list[Track], unplaced: list[EndEvent]) -> None:
        outside = sum(track.num_set_aside for track in tracks)
        if outside:
            self.num_set_aside["outside the run's time"] = outside
        if unplaced:
            self.num_set_aside["failure or end of no attempt"] = len(unplaced)
        if self._ends.num_void:
            self.num_set_aside["withdrawal of no inferred failure"] = self._ends.num_void
        lone = len(self._islands.held_back)
        if lone:
            self.num_set_aside["broken clock (more than a day from every other event)"] = lone

    def _book(self, generations: list[Generation], end_us: int) -> None:
        dirty = [track.dirty_us for track in self._tracks.values() if track.dirty_us is not None]
        if self._dirty_us is not None:
            dirty.append(self._dirty_us)
        dirty_us = min(dirty, default=None)
        facts = RunFacts.of(self._boundaries, self._allocations, self._phases)
        while len(self._generations) > len(generations):
            given_up = self._generations.pop()
            minutes = self._given_up.setdefault(len(self._generations), set())
            minutes.update(given_up.booking.rows, given_up.booking.changed_minutes)
            self._withdrawn.extend(given_up.withdraw())
        for number, generation in enumerate(generations):
            if number == len(self._generations):
                self._generations.append(GenerationBooks(generation.name))
            self._generations[number].update(generation, facts, dirty_us, end_us)
        for track in self._tracks.values():
            track.dirty_us = None
        self._dirty_us = None

    def books(self, now_us: int | None = None) -> list[Books]:
        """The books of each run of this name (``name``, ``name#2`` ...)."""
        return [generation.books() for generation in self.settle(now_us)]

    def details(self, now_us: int | None = None) -> list[Details]:
        """The records behind them."""
        return [generation.details(self.is_incomplete) for generation in self.settle(now_us)]

    def restated(self, now_us: int | None = None) -> list[Restated]:
        """Minutes booked before that are booked differently now, since the last call."""
        restated = [minute for generation in self.settle(now_us) for minute in generation.booking.take_restated()]
        withdrawn, self._withdrawn = self._withdrawn, []
        return [self._flagged(item) for item in withdrawn + restated]

    def changes(self, now_us: int | None = None) -> list[Changes]:
        """What differs from what stood at the last call (at first: everything), by generation."""
        generations = self.settle(now_us)
        found = []
        for number in range(max(len(generations), *(place + 1 for place in self._given_up), 0)):
            lost = self._given_up.get(number)
            booking = generations[number].booking if number < len(generations) else Booking(self.run)
            touched, since_us = booking.take_changes()
            touched |= self._hearing.changed(booking.rows)
            if lost is not None:
                touched, since_us = touched | lost, 0
            if not touched and since_us is None:
                continue
            minutes = {minute: self._minute_of(booking, minute) for minute in sorted(touched)}
            found.append(
                Changes(
                    booking.run,
                    number + 1,
                    [booked for booked in minutes.values() if booked is not None],
                    [minute * MINUTE_US for minute, booked in minutes.items() if booked is None],
                    since_us,
                    [] if since_us is None else booking.segments_since(since_us),
                )
            )
        self._given_up = {}
        self._hearing.forget_changes()
        return found

    def _minute_of(self, booking: Booking, minute: int) -> Minute | None:
        return booking.minute(minute, incomplete=self.is_incomplete(minute)) if minute in booking.rows else None

    def _flagged(self, item: Restated) -> Restated:
        """The same minute, marked where it is incomplete."""
        if not self.is_incomplete(item.start_us // MINUTE_US):
            return item
        was, now = (minute and replace(minute, incomplete=True) for minute in (item.was, item.now))
        assert was is not None
        return Restated(item.run, item.start_us, was, now)

    def is_incomplete(self, minute: int) -> bool:
        """Whether events of this minute are known, or must be feared, to be missing."""
        return self._hearing.is_incomplete(minute)


def _row(step: Step) -> StepRow:
    dur = step.dur
    return (round(step.t * 1e6), step.step, -1 if dur is None else round(dur * 1e6), step.count)


def _fences(boundaries: Sequence[RunStart | RunEnd]) -> list[Other]:
    """Starts and ends of the run as the fold of an attempt takes them: ends first at one time."""
    fences: list[Other] = [
        (microseconds(event.t), 6 if isinstance(event, RunEnd) else 7, event) for event in boundaries
    ]
    return sorted(fences, key=lambda other: other[:2])
