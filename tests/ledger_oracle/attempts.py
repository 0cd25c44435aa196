"""Rules 1 and 2: the run's segments, and the attempts in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tachograph_agent.events import (
    TRAINING_PHASES,
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
    Phase,
    Rollback,
    RunEnd,
    RunStart,
    Step,
)

from ledger_oracle.order import SECOND, at_us, attempt_name, begun_us, one_us, rank_of

MINUTE: Final = 60 * SECOND
NOTICE_US: Final = 15 * MINUTE
ABANDONED_AFTER_US: Final = 6 * 60 * MINUTE
GRACE_US: Final = 60 * SECOND
SURVIVED_US: Final = 5 * SECOND


@dataclass
class Span:
    """One segment of the run's time."""

    start: int = 0
    end: int = 0
    status: str = "running"
    closed: bool = False
    floor: int = 0
    events: list[AnyEvent] = field(default_factory=list)
    late: list[AnyEvent] = field(default_factory=list)
    before: list[AnyEvent] = field(default_factory=list)
    """What came before the event that opened it: inside, if the segment turns out to have begun before."""
    attempts: list[Attempt] = field(default_factory=list)


@dataclass
class Save:
    """One save: the stretch in which training stood still, and whether it landed."""

    attempt: Attempt
    part: int
    step: int
    begin: int
    end: int | None
    mode: str
    ended_by: str
    saved_at: int | None = None
    landed_at: int | None = None
    failed: bool = False
    tier: str | None = None


@dataclass
class Attempt:
    """One incarnation of the run's processes."""

    name: str
    span: Span
    events: list[AnyEvent]
    opened_at: int | None = None
    index: int = -1
    begin: int = 0
    end: int = 0
    records: list[Step] = field(default_factory=list)
    rollbacks: list[Rollback] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    ender: AnyEvent | None = None
    how: str = "running"
    category: str | None = None
    told: int | None = None
    world_size: int | None = None
    lead: int | None = None
    resume: int | None = None
    last_step: int | None = None

    def part_at(self, t: int) -> int:
        """How many rollbacks came before ``t``."""
        return sum(at_us(rollback) < t for rollback in self.rollbacks)

    def start_event_us(self) -> int | None:
        """When its first ``attempt.start`` came."""
        return min((at_us(e) for e in self.events if isinstance(e, AttemptStart)), default=None)


OPENING: Final = (Step, AttemptStart, CheckpointStart, CheckpointSaved)


# ---- rule 1


def segments(
    events: list[AnyEvent], now_us: int | None, abandoned_after_us: int = ABANDONED_AFTER_US
) -> tuple[list[Span], list[AnyEvent]]:
    """Rule 1: the segments with their events, and the events outside all of them."""
    spans: list[Span] = []
    outside: list[AnyEvent] = []
    since: list[AnyEvent] = []
    current: Span | None = None
    starts: dict[tuple[object, ...], int] = {}
    leads: dict[str | None, int] = {}
    for event in events:
        if isinstance(event, Step):
            name = attempt_name(event)
            leads[name] = min(rank_of(event), leads.get(name, rank_of(event)))
    furthest: dict[str | None, int] = {}
    for event in events:
        begin = _begin_of_work(event, starts)
        if isinstance(event, Step):
            # what another rank than the lead reports is for the detectors, unless it goes on where the lead is silent
            name = attempt_name(event)
            if rank_of(event) != leads[name] and event.step <= furthest.get(name, -1):
                begin = None
            else:
                furthest[name] = event.step
        if current is None:
            ended = spans[-1].end if spans else None
            opens = isinstance(event, RunStart) or (begin is not None and (ended is None or begin > ended + GRACE_US))
            if not opens:
                outside.append(event)
                since.append(event)
                if spans and isinstance(event, (CheckpointSaved, CheckpointPersisted, CheckpointFailed)):
                    spans[-1].late.append(event)
                continue
            current = Span(start=at_us(event), floor=ended or 0, before=since)
            since = []
            spans.append(current)
        current.events.append(event)
        if isinstance(event, RunEnd):
            current.end, current.status, current.closed = at_us(event), event.status, True
            current = None
    if current is not None:
        latest = max(at_us(event) for event in events)
        current.end = max(current.start, latest if now_us is None else now_us)
        if now_us is not None and now_us - latest >= abandoned_after_us and not holds_allocation(events):
            current.end, current.status, current.closed = latest, "abandoned", True
    return spans, outside


def _begin_of_work(event: AnyEvent, starts: dict[tuple[object, ...], int]) -> int | None:
    """When a step, save or attempt.start began; None for other kinds."""
    if not isinstance(event, OPENING):
        return None
    if isinstance(event, (CheckpointStart, CheckpointSaved)):
        key = attempt_name(event), event.step, event.rank
        if isinstance(event, CheckpointStart):
            starts[key] = at_us(event)
        elif event.dur is None:
            return starts.get(key, at_us(event))
    return begun_us(event)


def holds_allocation(events: list[AnyEvent]) -> bool:
    """Whether the last that was heard of allocations is that one is held."""
    held = 0
    for event in events:
        if isinstance(event, AllocationStart):
            held += 1
        elif isinstance(event, AllocationEnd):
            held = 0 if event.gpus is None else max(0, held - 1)
    return held > 0


# ---- rule 2


def attempts_of(span: Span) -> list[Attempt]:
    """Rule 2: the attempts of a segment, in the order in which they began, with the events that belong to each."""
    by_name: dict[str, list[AnyEvent]] = {}
    unnamed: list[AnyEvent] = []
    newest: str | None = None
    for event in span.events:
        name = attempt_name(event)
        if isinstance(event, OPENING):
            newest = name
        if name is None and isinstance(event, Rollback):
            name = newest
        if name is None:
            unnamed.append(event)
        else:
            by_name.setdefault(name, []).append(event)
    attempts: list[Attempt] = []
    for name, events in by_name.items():
        if any(isinstance(e, (*OPENING, Rollback)) for e in events):
            late = [e for e in span.late if attempt_name(e) == name]
            attempts += incarnations(name, span, events + late)
    for attempt in attempts:
        attempt.begin = begin_of(attempt)
    attempts.sort(key=lambda a: (a.begin, a.name))
    told = [at_us(e) for e in span.events if isinstance(e, RunStart)]
    span.start = min([*told, *[a.begin for a in attempts]], default=span.start)
    inside = [e for e in span.before if at_us(e) >= span.start > span.floor]
    if inside:
        span.before, span.events = [], inside + span.events
        return attempts_of(span)
    for event in unnamed:
        running = [a for a in attempts if a.begin < at_us(event)]
        if running:
            running[-1].events.append(event)
    for attempt in attempts:
        attempt.events.sort(key=at_us)  # stable: what was in order stays so
    return attempts


def lead_of(events: list[AnyEvent]) -> int | None:
    """Rule 2: the lowest rank that reports steps."""
    return min((rank_of(e) for e in events if isinstance(e, Step)), default=None)


def is_own(event: AnyEvent, lead: int | None) -> bool:
    """Whether an event is the lead's own, or of no rank, or no rank is known to lead."""
    return rank_of(event) in (-1, lead) or lead in (-1, None)


def incarnations(name: str, span: Span, events: list[AnyEvent]) -> list[Attempt]:
    """Rule 2: a new one opens at an attempt.start once the lead has stepped, and where its step does not rise."""
    found: list[Attempt] = []
    opened_at: int | None = None
    rest = events
    while rest:
        lead = lead_of(rest)
        last: int | None = None
        rolled_back = False
        cut: tuple[int, int | None] | None = None
        for i, event in enumerate(rest):
            mine = is_own(event, lead)
            if isinstance(event, AttemptStart) and mine and last is not None:
                cut = i, None
                break
            if isinstance(event, Rollback) and mine:
                rolled_back = True
            if isinstance(event, Step) and rank_of(event) == lead:
                if last is not None and event.step <= last and not rolled_back:
                    cut = i, at_us(event) - one_us(event)
                    break
                last, rolled_back = event.step, False
        if cut is None:
            cut = where_a_higher_rank_goes_back(rest)
        if cut is None:
            found.append(Attempt(name, span, rest, opened_at, lead=lead))
            break
        i, boundary = cut
        head, tail = rest[:i], rest[i:]
        if boundary is not None:
            # what other events came after the new one began belong to it
            moved = [e for e in head if at_us(e) > boundary and not (isinstance(e, Step) and rank_of(e) == lead)]
            head = [e for e in head if e not in moved]
            tail = moved + tail
        # a save belongs to where it started
        starts = {(rank_of(e), e.step) for e in head if isinstance(e, CheckpointStart)}
        starts -= {(rank_of(e), e.step) for e in head if isinstance(e, (CheckpointSaved, CheckpointFailed))}
        for event in list(tail):
            if isinstance(event, (CheckpointStart, CheckpointSaved, CheckpointFailed)):
                key = rank_of(event), event.step
                if key in starts and not isinstance(event, CheckpointStart):
                    head.append(event)
                    tail.remove(event)
                starts.discard(key)
        found.append(Attempt(name, span, head, opened_at, lead=lead))
        opened_at, rest = boundary, tail
    return found


def where_a_higher_rank_goes_back(events: list[AnyEvent]) -> tuple[int, int] | None:
    """Rule 2: a higher rank that continued where the lead fell silent leads, so that its going back counts."""
    steps = [e for e in events if isinstance(e, Step)]
    chain = chain_of(steps)
    if not chain or rank_of(chain[-1]) == lead_of(events):
        return None
    rank = rank_of(chain[-1])
    joined = next(r for r in chain if rank_of(r) == rank)
    before: Step | None = None
    for i, event in enumerate(events):
        if isinstance(event, Rollback) and is_own(event, rank):
            before = None
        if not isinstance(event, Step) or rank_of(event) != rank or at_us(event) < at_us(joined):
            continue
        if before is not None and event.step <= before.step:
            return i, at_us(event) - one_us(event)
        before = event
    return None


def begin_of(attempt: Attempt) -> int:
    """Rule 2: with the earliest of its attempt.start, steps' and saves' beginnings (or where a step went back)."""
    if attempt.opened_at is not None:
        return attempt.opened_at
    begins = [at_us(e) for e in attempt.events if isinstance(e, AttemptStart)]
    saves = [e for e in attempt.events if isinstance(e, (CheckpointStart, CheckpointSaved))]
    lowest = {step: min(rank_of(e) for e in saves if e.step == step) for step in {e.step for e in saves}}
    begins += [begun_us(e) for e in saves if rank_of(e) == lowest[e.step]]
    begins += [begun_us(record) for record in records_of(attempt)]
    if not begins:
        begins = [at_us(e) for e in attempt.events if isinstance(e, Rollback)]
    return max(attempt.span.floor, min(begins))


def records_of(attempt: Attempt) -> list[Step]:
    """Rule 2: the lead's own records; where it falls silent, those of a higher rank that goes on."""
    return chain_of([e for e in attempt.events if isinstance(e, Step)])


def chain_of(steps: list[Step]) -> list[Step]:
    """Rule 2: of all ranks' records those that tell the attempt's story, in order."""
    by_rank: dict[int, list[Step]] = {}
    for event in steps:
        by_rank.setdefault(rank_of(event), []).append(event)
    if not by_rank:
        return []
    rank = min(by_rank)
    records = list(by_rank[rank])
    while True:
        last = records[-1]
        for higher in sorted(r for r in by_rank if r > rank):
            more = [e for e in by_rank[higher] if at_us(e) > at_us(last) and e.step > last.step]
            if more:
                rank = higher
                for record in more:
                    if record.step > records[-1].step and at_us(record) > at_us(records[-1]):
                        records.append(record)
                break
        else:
            return records


def survived(event: AnyEvent, records: list[Step]) -> bool:
    """Rule 2: a later step *began* at least the larger of 5 s and ``one`` after."""
    return any(at_us(r) - one >= at_us(event) + max(SURVIVED_US, one) for r, one in paced(records))


def paced(records: list[Step]) -> Iterator[tuple[Step, int]]:
    """Each record with its ``one``; where it tells no ``dur``, with the time of a step since the record before it."""
    before: Step | None = None
    for record in records:
        if record.dur is not None:
            yield record, one_us(record)
        elif before is not None and record.step > before.step:
            yield record, (at_us(record) - at_us(before)) // (record.step - before.step)
        before = record


def ender_of(attempt: Attempt) -> AnyEvent | None:
    """Rule 2: its first failure or attempt.end that it did not survive."""
    for event in attempt.events:
        if isinstance(event, (Failure, AttemptEnd)) and not survived(event, attempt.records):
            return event
    return None


def end_of(attempt: Attempt, following: Attempt | None) -> int:
    """Rule 2: when it ends; never before its last step and last save, never in the next attempt."""
    work = [at_us(r) for r in attempt.records] + [s.begin if s.end is None else s.end for s in attempt.saves]
    work += [at_us(r) for r in attempt.rollbacks]  # the time up to a rollback is its own
    if attempt.ender is not None:
        end = max([at_us(attempt.ender), *work])
    elif following is not None:
        phases = [at_us(e) for e in attempt.events if isinstance(e, Phase) and e.name in TRAINING_PHASES]
        end = max([attempt.begin, *work, *phases])
    else:
        end = attempt.span.end
    end = min(end, attempt.span.end)
    if following is not None:
        end = min(end, following.begin)
    return max(end, attempt.begin)


def planned(attempt: Attempt) -> bool:
    """Rule 2: a planned attempt.end at most 15 min before its failure or end, and not after that failure."""
    reference = attempt.end if attempt.ender is None else at_us(attempt.ender)
    return any(
        isinstance(e, AttemptEnd) and e.planned and reference - NOTICE_US <= at_us(e) <= reference
        for e in attempt.events
    )


def how_it_ended(attempt: Attempt, later: list[Attempt], status: str) -> str:
    """Rule 2, **How**. ``later`` are the run's attempts after it, ``status`` is its segment's."""
    if planned(attempt):
        return "planned"
    if attempt.ender is not None:
        return "failure"
    followed_in_segment = any(a.span is attempt.span for a in later)
    if not followed_in_segment:
        if status in ("failed", "abandoned"):
            return "failure"
        return "continued" if later else status
    if not attempt.records:
        return "failure"
    stepped = [a for a in later if a.records]
    if stepped and stepped[0].resume is not None and stepped[0].resume < (attempt.last_step or 0):
        return "failure"
    return "unexplained"
