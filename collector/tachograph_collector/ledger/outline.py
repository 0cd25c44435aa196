"""The run in outline: its spans, its attempts and how each ended, and from which step each goes on (rules 1, 2, 7)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import AttemptEnd, Failure, RunEnd, RunStart, microseconds

from tachograph_collector.ledger.books import How, RunSpan, Status
from tachograph_collector.ledger.ends import EndEvent
from tachograph_collector.ledger.legs import FAR, Leg
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.track import Track

NOTICE_US: Final = 15 * 60 * 1_000_000
"""A planned end explains a stop at most this long after it."""


class Outing(Struct):
    """One attempt as the run's outline sees it."""

    track: Track
    legs: list[Leg]
    first_piece: int
    last_piece: int
    name: str
    begin_us: int
    span: int = 0
    ends: list[EndEvent] = field(default_factory=list)
    end_us: int = 0
    how: How = "running"
    cause: EndEvent | None = None
    """The failure or end that ended it."""
    missing: int = 0
    """Steps after its last known one that the next attempt proves to have been done."""

    @property
    def stepped(self) -> bool:
        """Whether any step of it is known."""
        return any(leg.stepped for leg in self.legs)

    @property
    def last_leg(self) -> Leg:
        """The leg that it ended with."""
        return self.legs[-1]

    def leg_ends(self) -> Iterator[tuple[Leg, int]]:
        """Each leg with the place in the track's pieces where its own end."""
        for place, leg in enumerate(self.legs):
            yield leg, self.last_piece if place + 1 == len(self.legs) else self.legs[place + 1].first_piece

    @property
    def own_last_us(self) -> int:
        """The end of its last step or save; its beginning if it had none."""
        return max(leg.last_us for leg in self.legs)

    @property
    def tail_us(self) -> int:
        """Where its tail begins, which may hold saves of steps done before."""
        return min(self.last_leg.mark_us, self.own_last_us)

    @property
    def last_step(self) -> int:
        """The last step known to be done."""
        return self.last_leg.known_step or (self.last_leg.told or 0)

    @property
    def resume(self) -> int | None:
        """The step after which it works on, by the evidence; None if it never stepped."""
        return self.legs[0].resume

    @property
    def start_us(self) -> int | None:
        """When its start was told."""
        return self.legs[0].start_us

    @property
    def world_size(self) -> int | None:
        """Its number of ranks, if anyone told."""
        return self.legs[0].world_size

    @property
    def work_begin_us(self) -> int | None:
        """When its first work began; None if it never stepped."""
        first = next((leg for leg in self.legs if leg.stepped), None)
        return first.work_begin_us if first else None

    @property
    def alive_us(self) -> int:
        """Up to when it survived whatever happened."""
        return max(leg.alive_us for leg in self.legs)


class Generation(Struct):
    """One run: its spans and attempts. A start from step 0 after ``completed`` begins the next."""

    name: str
    spans: list[RunSpan]
    outings: list[Outing]


def outings_of(tracks: Sequence[Track]) -> list[Outing]:
    """All attempts of all tracks, in the order in which they began."""
    outings: list[Outing] = []
    for track in tracks:
        for leg in track.legs:
            if leg.rollback_reason is not None and outings and outings[-1].legs[-1].attempt == leg.attempt:
                outings[-1].legs.append(leg)
                continue
            if outings and outings[-1].track is track:
                outings[-1].last_piece = leg.first_piece
            outings.append(Outing(track, [leg], leg.first_piece, len(track.pieces), track.name, leg.begin_us))
    outings.sort(key=lambda outing: (outing.begin_us, outing.name))
    return outings


def spans_of(
    boundaries: Sequence[RunStart | RunEnd], outings: Sequence[Outing], end_us: int
) -> tuple[list[RunSpan], bool]:
    """The run's segments of time (rule 1), the last one open to ``end_us`` if no end closed it; and whether it is."""
    marks: list[tuple[int, int, RunStart | RunEnd | None]] = [
        (microseconds(event.t), 0 if isinstance(event, RunEnd) else 1, event) for event in boundaries
    ]
    marks += [(outing.begin_us, 2, None) for outing in outings]
    marks.sort(key=lambda mark: mark[:2])
    spans: list[RunSpan] = []
    opened: int | None = None
    for t_us, _, event in marks:
        if isinstance(event, RunEnd):
            if opened is not None:
                spans.append(RunSpan(opened, t_us, event.status))
                opened = None
        elif opened is None:
            opened = t_us
    if opened is not None:
        spans.append(RunSpan(opened, max(opened, end_us), "running"))
    return spans, opened is not None


def generations_of(
    name: str, spans: list[RunSpan], outings: list[Outing], taken: Container[str] = ()
) -> list[Generation]:
    """Split at each start from step 0 after ``completed``; others continue the run. No name in ``taken`` is used."""
    for outing in outings:
        outing.span = max(0, bisect_right(spans, outing.begin_us, key=lambda span: span.start_us) - 1)
    generations = [Generation(name, [], [])]
    for number, span in enumerate(spans):
        here = [outing for outing in outings if outing.span == number]
        current = generations[-1]
        if current.spans and current.spans[-1].status == "completed" and _from_scratch(here):
            further = f"{name}#{len(generations) + 1}"
            while further in taken:
                further += "'"
            current = Generation(further, [], [])
            generations.append(current)
        current.spans.append(span)
        for outing in here:
            outing.span = len(current.spans) - 1
        current.outings.extend(here)
    return generations


def _from_scratch(outings: Sequence[Outing]) -> bool:
    for outing in outings:
        resume = outing.resume
        if resume is not None:
            return resume == 0
    return any(outing.legs[0].told == 0 for outing in outings[:1])


def settle_ends(generation: Generation, phases: PhaseBook, first: int = 0) -> None:
    """Say when and how each attempt from number ``first`` on ended (rule 2)."""
    outings = generation.outings
    for place in range(first, len(outings)):
        outing = outings[place]
        following = outings[place + 1] if place + 1 < len(outings) else None
        span = generation.spans[outing.span]
        limit_us = span.end_us
        same_span = following is not None and following.span == outing.span
        if following is not None and same_span:
            limit_us = min(limit_us, following.begin_us)
        ended = next((event for event in outing.ends if microseconds(event.t) > outing.alive_us), None)
        if ended is not None:
            outing.end_us = max(microseconds(ended.t), outing.own_last_us, outing.begin_us)
        elif same_span:
            sign = phases.last_sign(outing.name, outing.begin_us, limit_us)
            outing.end_us = max(outing.own_last_us, sign)
        else:
            outing.end_us = limit_us
        outing.end_us = max(outing.begin_us, min(outing.end_us, limit_us))
        outing.cause = ended
    after: Outing | None = None
    decider: Outing | None = None
    for outing in reversed(outings[first:]):
        outing.how = _how(outing, after, decider, generation.spans[outing.span])
        if decider is not None and decider.resume is not None and outing.stepped:
            outing.missing = max(0, decider.resume - outing.last_step)
        after = outing
        decider = outing if outing.stepped else decider


def place_ends(outings: Sequence[Outing], ends: Sequence[EndEvent], spans: Sequence[RunSpan]) -> list[EndEvent]:
    """Give each failure and end to its attempt (rule 2); returns those that belong to none."""
    unplaced: list[EndEvent] = []
    by_name: dict[str, list[Outing]] = {}
    for outing in outings:
        by_name.setdefault(outing.name, []).append(outing)
    for event in ends:
        t_us = microseconds(event.t)
        span = bisect_right(spans, t_us, key=lambda span: span.start_us) - 1
        if span < 0 or t_us > spans[span].end_us:
            unplaced.append(event)
            continue
        named = event.attempt is not None
        among = by_name.get(str(event.attempt), []) if named else outings
        # At one time a failure comes before what begins: who begins then was not running.
        place = bisect_right(among, t_us, key=lambda outing: outing.begin_us) - 1
        if place > 0 and among[place].begin_us == t_us:
            place -= 1
        if place < 0 and (not named or not among):
            unplaced.append(event)
            continue
        among[max(place, 0)].ends.append(event)
    return unplaced


def _is_planned(event: EndEvent) -> bool:
    return isinstance(event, AttemptEnd) and event.planned


def _how(outing: Outing, following: Outing | None, decider: Outing | None, span: RunSpan) -> How:
    """How an attempt ended; ``decider`` is the next one that stepped."""
    by = outing.cause
    if by is not None and _is_planned(by):
        return "planned"
    at_us = microseconds(by.t) if by is not None else outing.end_us
    for event in outing.ends:
        if _is_planned(event) and at_us - NOTICE_US <= microseconds(event.t) <= at_us:
            return "planned"
    if by is not None:
        return "failure"
    followed = following is not None and following.span == outing.span
    if not followed and span.status in ("failed", "abandoned"):
        return "failure"
    if followed:
        if not outing.stepped:
            return "failure"
        if decider is not None and decider.resume is not None and decider.resume < outing.last_step:
            return "failure"
        return "unexplained"
    if span.status == "running":
        return "running"
    return "cancelled" if span.status == "cancelled" else "completed"


class Loss(Struct, frozen=True):
    """A decision to go on from ``limit``: of the work before it, the steps beyond were thrown away.

    ``lower`` is the next decision, in time, with a lower limit: a step is lost to the first whose limit is below it.
    """

    limit: int
    cause: str
    by: tuple[int, int]
    """The interruption behind it: (attempt, its leg) that was interrupted."""
    lower: Loss | None = None
    lowest: int = 0
    """The last limit of the chain: work up to it survives."""
    key: int = 0
    """Equal for equal chains; a comparison of whole chains would be as deep as they are long."""


def loss(limit: int, cause: str, by: tuple[int, int], later: Loss | None) -> Loss:
    """The decision before the ones in ``later``, of which only those with a lower limit count."""
    while later is not None and later.limit >= limit:
        later = later.lower
    lowest = limit if later is None else later.lowest
    return Loss(limit, cause, by, later, lowest, hash((limit, cause, by, None if later is None else later.key)))


class Lineage(Struct):
    """One leg in the order of the run, and what decides over its work."""

    outing: int
    leg: Leg
    number: int
    """Its place among the legs of its attempt."""
    losses: Loss | None = None

    @property
    def limit(self) -> int | None:
        """Work up to this step survives; None if nothing was thrown away."""
        return self.losses.lowest if self.losses is not None else None


def cause_of(outing: Outing) -> str:
    """In a word, what ended an attempt: a failure's category, else how it ended."""
    if isinstance(outing.cause, Failure) and outing.how == "failure":
        return outing.cause.category
    return "unknown" if outing.how == "failure" else outing.how


class Verdict(Struct):
    """What became of the run's work."""

    lineages: list[Lineage]
    covered_step: int
    """The newest step that a landed checkpoint of the lineage covers."""
    over: bool
    """Whether nothing runs now: the run has ended, or its last attempt has."""
    done_step: int
    """The last step of the run as it now stands."""
    first: int = 0
    """From which lineage on saves cover it: that of the last decision to go on from a step."""
    resumed: int = 0
    """The step of that decision."""


def decide(generation: Generation, status: Status, *, saves_seen: bool) -> Verdict:
    """Which work is kept and which lost, and to what (rule 7)."""
    outings = generation.outings
    lineages = [
        Lineage(index, leg, number) for index, outing in enumerate(outings) for number, leg in enumerate(outing.legs)
    ]
    decisions: list[tuple[int, int, str, tuple[int, int]]] = []
    done = 0
    last_stepped: Outing | None = None
    interrupted = (-1, -1)
    for place, lineage in enumerate(lineages):
        leg, outing = lineage.leg, outings[lineage.outing]
        ended_with_it = lineage.outing == len(outings) - 1 and status != "running" and leg is outing.last_leg
        resume = leg.resume
        if resume is None and (leg.rollback_reason is not None or ended_with_it):
            resume = leg.told
        if resume is not None:
            cause = leg.rollback_reason or (cause_of(last_stepped) if last_stepped else "unknown")
            decisions.append((place, resume, cause, interrupted))
            done = resume
        if leg.stepped:
            done = leg.last_step + (outing.missing if leg is outing.last_leg else 0)
            last_stepped = outing
            interrupted = (lineage.outing, lineage.number)
    first, resumed = decisions[-1][:2] if decisions else (0, 0)
    covered = _covered(lineages[first:], outings, resumed)
    over = _over(outings, status)
    losses: Loss | None = None
    if lineages and over and saves_seen and status != "completed":
        losses = loss(covered, cause_of(last_stepped) if last_stepped else "unknown", interrupted, None)
        done = min(done, covered)
    for place in range(len(lineages) - 1, -1, -1):
        lineages[place].losses = losses
        if decisions and decisions[-1][0] == place:
            _, resume, cause, by = decisions.pop()
            losses = loss(resume, cause, by, losses)
    return Verdict(lineages, covered, over, done, first, resumed)


def shape(outing: Outing) -> tuple[object, ...]:
    """What of an attempt the fate of all others, and of its own work, depends on."""
    return (
        outing.begin_us,
        outing.start_us,
        outing.how,
        outing.world_size,
        outing.missing,
        tuple((leg.begin_us, leg.told, leg.resume, leg.rollback_reason, leg.stepped) for leg in outing.legs),
    )


def extend(generation: Generation, verdict: Verdict, outing: Outing) -> Verdict | None:
    """The verdict once the last attempt, which runs, has gone on as ``outing``; None if it must be decided anew.

    ``generation`` holds the attempt as it was when ``verdict`` was given. Costs nothing of what was decided before.
    """
    last = generation.outings[-1]
    if verdict.over or outing.how != "running" or not outing.stepped or shape(outing) != shape(last):
        return None
    place = len(verdict.lineages) - len(outing.legs)
    lineages = verdict.lineages[:place]
    done = verdict.done_step
    for number, leg in enumerate(outing.legs):
        lineages.append(Lineage(len(generation.outings) - 1, leg, number, verdict.lineages[place + number].losses))
        resume = leg.resume if leg.resume is not None or leg.rollback_reason is None else leg.told
        if leg.stepped:
            done = leg.last_step
        elif resume is not None:
            done = resume
    outings = [*generation.outings[:-1], outing]
    covered = _covered(lineages[verdict.first :], outings, verdict.resumed)
    return Verdict(lineages, covered, over=False, done_step=done, first=verdict.first, resumed=verdict.resumed)


def _covered(lineages: Sequence[Lineage], outings: Sequence[Outing], covered: int) -> int:
    """The newest step that a landed checkpoint of these legs covers, beyond the one that the last resume proves."""
    for lineage in lineages:
        outing = outings[lineage.outing]
        saves = outing.track.lifecycle.saves
        until = leg_end(outing, lineage.leg)
        for place in range(bisect_left(saves, until, key=lambda save: save.begin_us) - 1, -1, -1):
            if saves[place].begin_us < lineage.leg.saves_from_us:
                break
            if saves[place].landed:
                covered = max(covered, saves[place].step)
                break
    return covered


def leg_end(outing: Outing, leg: Leg) -> int:
    """Where saves begin to belong to the next leg; a save may land, and be told, after its attempt's end."""
    legs = outing.track.legs
    return legs[leg.place + 1].saves_from_us if leg.place + 1 < len(legs) else FAR


def _over(outings: Sequence[Outing], status: Status) -> bool:
    if status != "running":
        return True
    if not outings:
        return False
    last = outings[-1]
    return last.how != "running" or (not last.stepped and any(outing.stepped for outing in outings))
