"""One run's ledger: keeps the books of each run of that name current with what has come."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

from msgspec.structs import replace
from tachograph_agent.events import AnyEvent, encode, microseconds

from tachograph_collector.ledger.answer import GenerationBooks, RunFacts
from tachograph_collector.ledger.arrivals import Arrivals
from tachograph_collector.ledger.booking import MINUTE_US, Booking
from tachograph_collector.ledger.books import Books, Changes, Details, Minute, Restated, RunSpan
from tachograph_collector.ledger.ends import EndEvent
from tachograph_collector.ledger.outline import (
    Generation,
    Outing,
    generations_of,
    outings_of,
    place_ends,
    spans_of,
)
from tachograph_collector.ledger.source import StepSource
from tachograph_collector.ledger.state import RunState, pack_events, ranges
from tachograph_collector.ledger.track import Track

ABANDONED_US: Final = 6 * 3600 * 1_000_000


class RunLedger:
    """The ledger of one run name. Not thread-safe.

    ``source`` re-reads steps (see ``StepSource``); without one every step is held. ``abandoned_us``: a live run that is
    silent for so long and holds no allocation counts as failed.
    """

    def __init__(self, run: str, source: StepSource | None = None, abandoned_us: int = ABANDONED_US) -> None:
        self.run = run
        self.num_set_aside: Counter[str] = Counter()
        self.taken: Container[str] = ()
        """Names that other runs have, and none of this run's generations may take."""
        self._abandoned_us = abandoned_us
        self._arrivals = Arrivals(run, source)
        self._generations: list[GenerationBooks] = []
        self._withdrawn: list[Restated] = []
        """Minutes of runs that are none any more: their time belongs to another, or to nobody."""
        self._given_up: dict[int, set[int]] = {}
        """The same minutes by generation, for who asks what has changed."""
        self._settled_for: int | None = None
        self._stale = True
        self._has_unplaced = False

    # -- arrivals ----------------------------------------------------------------------------------------------------

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take events of this run, in any order."""
        if events:
            self._stale = True
        self._arrivals.add(events)

    # -- state -------------------------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """What is needed to go on from here."""
        self.settle(self._settled_for)
        came = self._arrivals
        return RunState(
            run=self.run,
            latest_us=came.latest_us,
            islands=[
                (island.low_us, island.high_us, encode(island.lone) if island.lone is not None else None)
                for island in came.islands.islands
            ],
            tracks=[track.state() for track in came.tracks.values()],
            phases=came.phases,
            allocations=came.allocations.events,
            boundaries=pack_events(came.boundaries),
            ends=came.ends.state(),
            unnamed=[(encode(event), owner.name if owner is not None else None) for event, owner in came.unnamed],
            gaps=came.hearing.gaps,
            heard=ranges(came.hearing.heard),
            expected_us=came.hearing.expected_us,
            settled_for=self._settled_for,
            minutes=[generation.minutes_state() for generation in self._generations],
            withdrawn=self._withdrawn,
        )

    @classmethod
    def restored(cls, state: RunState, source: StepSource | None = None, abandoned_us: int = ABANDONED_US) -> RunLedger:
        """The ledger that goes on from ``state``."""
        ledger = cls(state.run, source, abandoned_us)
        ledger._arrivals = Arrivals.restored(state, source)
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
            self._arrivals.is_reshaped = True
            return self._generations
        if self._extend(now_us):
            return self._generations
        outings, spans, end_us = self._outline(now_us)
        self.num_set_aside.clear()
        unplaced = place_ends(outings, self._arrivals.ends.standing(), spans)
        self._count_set_aside(list(self._arrivals.tracks.values()), unplaced)
        generations = generations_of(self.run, spans, outings, self.taken) if spans else []
        self._book(generations, end_us)
        self._has_unplaced = bool(unplaced)
        self._arrivals.forget_changes()
        self._stale, self._settled_for = False, now_us
        return self._generations

    def _extend(self, now_us: int | None) -> bool:
        """Settle a run of which only the last attempt has gone on: at the cost of that, however many were before."""
        if self._arrivals.is_reshaped or self._has_unplaced or self._arrivals.unnamed or not self._generations:
            return False
        if any(f"{self.run}#{number}" in self.taken for number in range(2, len(self._generations) + 1)):
            return False
        current = self._generations[-1]
        last = current.last_outing
        if last is None or last.how != "running" or current.spans[-1].status != "running":
            return False
        if self._arrivals.phases_since_us is not None and self._arrivals.phases_since_us <= last.begin_us:
            return False
        track = last.track
        if any(other.is_stale for other in self._arrivals.tracks.values() if other is not track):
            return False
        if now_us is not None and now_us - self._arrivals.latest_us >= self._abandoned_us:
            return False
        known = outings_of([track])
        track.settle()
        outings = outings_of([track])
        if len(known) != len(outings) or known[:-1] != outings[:-1] or outings[-1].begin_us != last.begin_us:
            return False
        end_us = self._arrivals.latest_us if now_us is None else max(now_us, self._arrivals.latest_us)
        spans = current.spans
        spans = [*spans[:-1], RunSpan(spans[-1].start_us, max(end_us, spans[-1].start_us), "running")]
        dirty_us = min((us for us in (track.dirty_us, self._arrivals.dirty_us) if us is not None), default=None)
        if not current.extend(outings[-1], spans, dirty_us, end_us):
            return False
        track.dirty_us = self._arrivals.dirty_us = None
        self.num_set_aside.clear()
        self._count_set_aside(list(self._arrivals.tracks.values()), [])
        self._arrivals.forget_changes()
        self._stale, self._settled_for = False, now_us
        return True

    def spans(self, now_us: int | None = None) -> list[RunSpan]:
        """The stretches of the run's time, told without booking a minute of them."""
        alone = self._alone()
        return self._outline(now_us)[1] if alone is None else alone.spans(now_us)

    @property
    def reach_us(self) -> tuple[int, int] | None:
        """The times of the first and last event that was believed; None if there is none."""
        return self._arrivals.reach_us

    def _outline(self, now_us: int | None) -> tuple[list[Outing], list[RunSpan], int]:
        """The attempts, the stretches of the run's time, and when the reading of them ends."""
        came = self._arrivals
        tracks = list(came.tracks.values())
        self._settle_tracks(tracks)
        outings = outings_of(tracks)
        end_us = came.latest_us if now_us is None else max(now_us, came.latest_us)
        spans, is_open = spans_of(came.boundaries, outings, end_us)
        silent = now_us is not None and now_us - came.latest_us >= self._abandoned_us
        if is_open and silent and not came.allocations.any_held_last:
            spans[-1] = RunSpan(spans[-1].start_us, max(came.latest_us, spans[-1].start_us), "abandoned")
        return outings, spans, end_us

    def _alone(self) -> RunLedger | None:
        """The ledger of a log of one event: it is believed as long as there is no other that it could be a day from."""
        held = self._arrivals.islands.held_back
        if self._arrivals.hearing.heard or len(held) != 1:
            return None
        alone = RunLedger(self.run, None, self._abandoned_us)
        alone._arrivals.take(held[0])
        return alone

    def _settle_tracks(self, tracks: list[Track]) -> None:
        for track in tracks:
            track.settle()
        for _ in range(len(self._arrivals.unnamed) + 1):
            if not self._assign_unnamed(tracks):
                break
            for track in tracks:
                track.settle()

    def _assign_unnamed(self, tracks: list[Track]) -> bool:
        """Give rollbacks that name no attempt to the one running then; True if any changed hands."""
        if not self._arrivals.unnamed:
            return False
        outings = outings_of(tracks)
        begins = [outing.begin_us for outing in outings]
        changed = False
        for number, (event, owner) in enumerate(self._arrivals.unnamed):
            place = bisect_left(begins, microseconds(event.t) + 1) - 1
            running = outings[place].track if place >= 0 else None
            if running is owner:
                continue
            if owner is not None:
                owner.drop_rollback(event)
            if running is not None:
                running.add_rollback(event)
            self._arrivals.unnamed[number] = (event, running)
            changed = True
        return changed

    def _count_set_aside(self, tracks: list[Track], unplaced: list[EndEvent]) -> None:
        outside = sum(track.num_set_aside for track in tracks)
        if outside:
            self.num_set_aside["outside the run's time"] = outside
        if unplaced:
            self.num_set_aside["failure or end of no attempt"] = len(unplaced)
        if self._arrivals.ends.num_void:
            self.num_set_aside["withdrawal of no inferred failure"] = self._arrivals.ends.num_void
        lone = len(self._arrivals.islands.held_back)
        if lone:
            self.num_set_aside["broken clock (more than a day from every other event)"] = lone

    def _book(self, generations: list[Generation], end_us: int) -> None:
        dirty = [track.dirty_us for track in self._arrivals.tracks.values() if track.dirty_us is not None]
        if self._arrivals.dirty_us is not None:
            dirty.append(self._arrivals.dirty_us)
        dirty_us = min(dirty, default=None)
        facts = RunFacts.of(self._arrivals.boundaries, self._arrivals.allocations, self._arrivals.phases)
        while len(self._generations) > len(generations):
            given_up = self._generations.pop()
            minutes = self._given_up.setdefault(len(self._generations), set())
            minutes.update(given_up.booking.rows, given_up.booking.changed_minutes)
            self._withdrawn.extend(given_up.withdraw())
        for number, generation in enumerate(generations):
            if number == len(self._generations):
                self._generations.append(GenerationBooks(generation.name))
            self._generations[number].update(generation, facts, dirty_us, end_us)
        for track in self._arrivals.tracks.values():
            track.dirty_us = None
        self._arrivals.dirty_us = None

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
            touched |= self._arrivals.hearing.changed(booking.rows)
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
        self._arrivals.hearing.forget_changes()
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
        return self._arrivals.hearing.is_incomplete(minute)
