"""One generation's books: keeps what was booked, finds what has changed since, and answers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from msgspec import Struct, field
from tachograph_agent.events import RunEnd, RunStart

from tachograph_collector.ledger.booking import Booking
from tachograph_collector.ledger.books import (
    ACCOUNTS,
    SUB_ACCOUNTS,
    Books,
    Details,
    GpuHours,
    Restated,
    RunSpan,
    Segment,
    Status,
)
from tachograph_collector.ledger.gpus import Allocations
from tachograph_collector.ledger.legs import FAR, WORK
from tachograph_collector.ledger.outline import Generation, Outing, Verdict, decide, extend, settle_ends
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.records import anomalies, attempts, checkpoints, interruptions
from tachograph_collector.ledger.state import MinutesState
from tachograph_collector.ledger.timeline import Timeline, beyond_step, cut_us


class RunFacts(Struct):
    """What the run's starts told of it, and what holds for all its generations."""

    allocations: Allocations
    phases: PhaseBook
    world_size: int | None = None
    gpus: int | None = None
    price_per_gpu_hour: float | None = None
    origin: str | None = None
    saves_seen: bool = True
    planned_mtbf_s: float | None = None
    planned_interval_s: float | None = None
    labels: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, boundaries: Sequence[RunStart | RunEnd], allocations: Allocations, phases: PhaseBook) -> RunFacts:
        """Of several starts, the first that tells a thing is believed; labels add up."""
        facts = cls(allocations, phases)
        for event in boundaries:
            if not isinstance(event, RunStart):
                continue
            for name in (
                "world_size",
                "gpus",
                "price_per_gpu_hour",
                "origin",
                "planned_mtbf_s",
                "planned_interval_s",
            ):
                if getattr(facts, name) is None:
                    setattr(facts, name, getattr(event, name))
            if event.checkpoints == "unseen":
                facts.saves_seen = False
            for label, value in (event.labels or {}).items():
                facts.labels.setdefault(label, str(value))
        return facts


class Signature(NamedTuple):
    """What the booking of an attempt depends on. Where nothing of it has changed, what was booked stands."""

    begin_us: int
    end_us: int
    tail_us: int
    """Where its tail begins."""
    place: tuple[object, ...]
    losses: tuple[tuple[int, int] | None, ...]
    """What became of the work of each of its legs: the lowest limit and the key of its losses."""
    tail: tuple[object, ...]


class GenerationBooks:
    """The books of one run. ``update`` rebooks from the first moment that has changed, and no earlier."""

    def __init__(self, run: str) -> None:
        self.booking = Booking(run)
        self._generation = Generation(run, [], [])
        self._verdict = Verdict([], 0, over=False, done_step=0)
        self._facts = RunFacts(Allocations(), PhaseBook())
        self._signatures: list[Signature] = []
        self._worlds: list[int | None] = []
        self._span_signature: tuple[tuple[int, int, str], ...] = ()
        self._losses: dict[int, list[tuple[int, int] | None]] = {}

    @property
    def status(self) -> Status:
        """How the run stands."""
        return self._generation.spans[-1].status if self._generation.spans else "running"

    @property
    def running_attempt(self) -> str | None:
        """The name of the attempt that runs now; None if none does."""
        last = self.last_outing
        return last.name if last is not None and last.how == "running" else None

    def update(self, generation: Generation, facts: RunFacts, dirty_us: int | None, horizon_us: int) -> None:
        """Book what has changed, as of ``horizon_us``."""
        old_gpus = self._gpus_of(self._worlds, self._facts)
        self._generation, self._facts = generation, facts
        self.booking.run = generation.name
        settle_ends(generation, facts.phases)
        self._verdict = decide(generation, self.status, saves_seen=facts.saves_seen)
        self._losses = {}
        for lineage in self._verdict.lineages:
            losses = lineage.losses
            known = None if losses is None else (losses.lowest, losses.key)
            self._losses.setdefault(lineage.outing, []).append(known)
        since_us = self._changed_since(dirty_us)
        self._worlds = self._world_sizes()
        timeline = Timeline(generation, self._verdict, facts.phases, facts.allocations)
        self.booking.rebook(
            since_us,
            timeline.segments(since_us),
            self._gpus_of(self._worlds, facts),
            old_gpus,
            min(horizon_us, generation.spans[-1].end_us),
        )

    def extend(self, outing: Outing, spans: list[RunSpan], dirty_us: int | None, horizon_us: int) -> bool:
        """As ``update``, where only the last attempt, which runs, has gone on; False, and nothing done, if more has."""
        before = self._generation
        if not before.outings:
            return False
        last = before.outings[-1]
        outing.span, outing.ends = last.span, last.ends
        generation = Generation(before.name, spans, [*before.outings[:-1], outing])
        number = len(before.outings) - 1
        settle_ends(generation, self._facts.phases, number)
        verdict = extend(before, self._verdict, outing)
        if verdict is None:
            return False
        self._generation, self._verdict = generation, verdict
        since_us = self._changed_since(dirty_us, number)
        gpus = self._gpus_of(self._worlds, self._facts)
        timeline = Timeline(generation, verdict, self._facts.phases, self._facts.allocations)
        until_us = min(horizon_us, spans[-1].end_us)
        self.booking.rebook(since_us, timeline.segments(since_us), gpus, gpus, until_us)
        return True

    @property
    def last_outing(self) -> Outing | None:
        """The last attempt."""
        return self._generation.outings[-1] if self._generation.outings else None

    @property
    def spans(self) -> list[RunSpan]:
        """The stretches of the run's time."""
        return self._generation.spans

    def withdraw(self) -> list[Restated]:
        """Take back everything that was booked: no such run has any time of its own. Gives what that restates."""
        gpus = self._gpus_of(self._worlds, self._facts)
        self.booking.rebook(0, (), gpus, gpus, 0)
        return self.booking.take_restated()

    def minutes_state(self) -> MinutesState:
        """Up to where minutes were booked, and the revisions of those that were booked differently."""
        revisions = {minute: row.revision for minute, row in self.booking.rows.items() if row.revision > 1}
        return MinutesState(self.booking.closed_us, revisions, list(self.booking.restated))

    def restore_minutes(self, state: MinutesState) -> None:
        """Take up what ``minutes_state`` told."""
        self.booking.closed_us = state.closed_us
        self.booking.restated = list(state.restated)
        for minute, revision in state.revisions.items():
            if minute in self.booking.rows:
                self.booking.rows[minute].revision = revision

    # -- what has changed --------------------------------------------------------------------------------------------

    def _changed_since(self, dirty_us: int | None, first: int = 0) -> int:
        """The first moment that may be booked differently from last time; attempts before ``first`` stand."""
        spans = self._generation.spans
        span_signature = tuple((span.start_us, span.end_us, span.status) for span in spans)
        since = FAR if dirty_us is None else dirty_us
        for old_span, new_span in zip_longest(self._span_signature, span_signature):
            if old_span == new_span:
                continue
            if old_span is None or new_span is None or old_span[0] != new_span[0]:
                since = min([since, *(span[0] for span in (old_span, new_span) if span is not None)])
            else:
                since = min(since, old_span[1], new_span[1])
            break
        before = self._signatures
        signatures = before[:first]
        signatures += [self._signature(number) for number in range(first, len(self._generation.outings))]
        for number, (old, new) in enumerate(zip_longest(before[first:], signatures[first:]), start=first):
            if old != new:
                since = min(since, self._affected(number, old, new, before, signatures))
        self._signatures, self._span_signature = signatures, span_signature
        return max(0, since) if since < FAR else spans[-1].end_us

    def _affected(
        self,
        number: int,
        old: Signature | None,
        new: Signature | None,
        before: Sequence[Signature],
        after: Sequence[Signature],
    ) -> int:
        """The earliest moment that differs because of attempt ``number``."""
        if old is None or new is None or old.place != new.place:
            if number == 0:
                return 0
            # Attempts may overlap: the one before reported work after this one had begun.
            return min(
                [signature.begin_us for signature in (old, new) if signature is not None]
                + [known[number - 1].tail_us for known in (before, after) if number <= len(known)]
            )
        since = FAR
        if old.tail != new.tail or old.losses != new.losses:
            since = min(old.tail_us, new.tail_us, old.end_us, new.end_us)
        if old.losses != new.losses:
            outing = self._generation.outings[number]
            lowest = min((loss[0] for loss in (*old.losses, *new.losses) if loss is not None), default=0)
            for leg, high in outing.leg_ends():
                first = beyond_step(leg, outing.track.pieces, high, lowest)
                if first < high:
                    since = min(since, outing.track.pieces[first][0])
        return since

    def _signature(self, number: int) -> Signature:
        outings = self._generation.outings
        outing = outings[number]
        span = self._generation.spans[outing.span]
        last_of_span = number + 1 == len(outings) or outings[number + 1].span != outing.span
        facts = self._facts
        return Signature(
            outing.begin_us,
            outing.end_us,
            outing.tail_us,
            (
                id(outing.track),
                outing.first_piece,
                outing.begin_us,
                outing.start_us,
                span.start_us,
                outing.world_size,
                (facts.world_size, facts.gpus, facts.allocations.known),
                tuple(leg.begin_us for leg in outing.legs),
            ),
            tuple(self._losses.get(number, ())),
            (
                outing.own_last_us,
                outing.end_us,
                outing.how,
                outing.missing,
                outing.cause.t if outing.cause is not None else None,
                outing.last_step,
                # Only the last attempt of a span depends on the span's end.
                (span.end_us, span.status, number + 1 < len(outings)) if last_of_span else None,
            ),
        )

    # -- GPUs --------------------------------------------------------------------------------------------------------

    def _world_sizes(self) -> list[int | None]:
        """GPUs of each attempt: its own word, else the run's, else that of the one before; None where nobody says."""
        sizes: list[int | None] = []
        for outing in self._generation.outings:
            size = outing.world_size
            if size is None:
                size = self._facts.world_size if self._facts.world_size is not None else self._facts.gpus
            if size is None and sizes:
                size = sizes[-1]
            sizes.append(size)
        return sizes

    def _gpus_of(
        self, worlds: list[int | None], facts: RunFacts
    ) -> Callable[[Segment], Iterator[tuple[int, int | None, int | None]]]:
        fallback = facts.world_size if facts.world_size is not None else facts.gpus

        def gpus(segment: Segment) -> Iterator[tuple[int, int | None, int | None]]:
            world = worlds[segment.attempt] if segment.attempt < len(worlds) else fallback
            if not facts.allocations.known:
                yield segment.end_us - segment.start_us, world, world
                return
            edges = [
                segment.start_us,
                *facts.allocations.changes(segment.start_us, segment.end_us),
                segment.end_us,
            ]
            for low, high in pairwise(edges):
                held = facts.allocations.held(low)
                yield high - low, world if held is None else held, world

        return gpus

    # -- answers -----------------------------------------------------------------------------------------------------

    def books(self) -> Books:
        """The run's books as they stand."""
        booking, facts, spans = self.booking, self._facts, self._generation.spans
        accounts = dict.fromkeys(ACCOUNTS, 0)
        subs: dict[str, int] = {}
        for account in ACCOUNTS:
            for sub in SUB_ACCOUNTS[account]:
                amount = booking.subs_us[f"{account}/{sub}"]
                subs[f"{account}/{sub}"] = amount
                accounts[account] += amount
        outings = self._generation.outings
        hows = [outing.how for outing in outings]
        gpu = booking.gpu_us
        world = next((size for size in reversed(self._worlds) if size is not None), facts.world_size or facts.gpus)
        return Books(
            run=booking.run,
            status=self.status,
            start_us=spans[0].start_us,
            end_us=spans[-1].end_us,
            spans=list(spans),
            wall_us=sum(span.end_us - span.start_us for span in spans),
            accounts_us=accounts,
            subs_us=subs,
            lost_by_cause_us={cause: us for cause, us in sorted(booking.causes_us.items()) if us},
            at_risk_us=self._at_risk_us(),
            num_attempts=len(outings),
            num_failures=hows.count("failure"),
            num_planned_stops=hows.count("planned"),
            num_unexplained_stops=hows.count("unexplained"),
            num_rollbacks=sum(len(outing.legs) - 1 for outing in outings),
            steps=self._verdict.done_step,
            num_minutes={account: booking.labels[account] for account in ACCOUNTS},
            gpu=None
            if gpu["unknown"] or not gpu["held"]
            else GpuHours(gpu["held"], gpu["kept"], gpu["checkpoint"], gpu["lost"], gpu["restart"], gpu["idle"]),
            price_per_gpu_hour=facts.price_per_gpu_hour,
            origin=facts.origin,
            checkpoints_seen=facts.saves_seen,
            planned_mtbf_s=facts.planned_mtbf_s,
            planned_interval_s=facts.planned_interval_s,
            world_size=world,
            labels=facts.labels,
        )

    def _at_risk_us(self) -> int | None:
        """Kept time that no landed checkpoint covers yet."""
        if not self._facts.saves_seen:
            return None
        if self.status != "running" or not self._generation.outings:
            return 0
        covered = self._verdict.covered_step
        last = len(self._generation.outings) - 1
        risk = 0
        for number in range(last, -1, -1):
            outing = self._generation.outings[number]
            if outing.last_step < covered and outing.stepped:
                break
            risk += self._at_risk_in(outing, covered)
            if outing.resume is not None and outing.resume <= covered:
                break
        return risk

    def _at_risk_in(self, outing: Outing, covered: int) -> int:
        """Kept time of one attempt beyond the covered step, its running tail included."""
        pieces = outing.track.pieces
        stretches: list[tuple[int, int]] = []
        for leg, high in outing.leg_ends():
            stretches.extend(
                (cut_us(outing.track, piece, covered), min(piece[1], outing.end_us))
                for piece in pieces[beyond_step(leg, pieces, high, covered) : high]
                if piece[2] in WORK and piece[4] > covered and piece[1] <= leg.mark_us
            )
        mark_us = outing.last_leg.mark_us
        if outing.how == "running" and mark_us < outing.end_us and outing.last_leg.stepped:
            # Whatever is kept after the last record is in flight, and saved by nothing.
            stretches.append((mark_us, outing.end_us))
        return sum(self._kept_between(low, high) for low, high in stretches)

    def _kept_between(self, low: int, high: int) -> int:
        segments = self.booking.segments
        place = bisect_left(segments, low + 1, key=lambda segment: segment.end_us)
        kept = 0
        while place < len(segments) and segments[place].start_us < high:
            segment = segments[place]
            if segment.account == "kept":
                kept += min(high, segment.end_us) - max(low, segment.start_us)
            place += 1
        return kept

    def details(self, incomplete: Callable[[int], bool]) -> Details:
        """The records behind the books."""
        generation, booking = self._generation, self.booking
        return Details(
            attempts=attempts(generation, booking),
            interruptions=interruptions(generation, booking),
            checkpoints=checkpoints(generation, self._verdict),
            anomalies=anomalies(generation),
            minutes=booking.minutes(incomplete),
            segments=list(booking.segments),
        )
