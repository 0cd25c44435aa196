"""The ledger's rules once more, as a batch over the whole log: clarity over speed, for tests only.

``books_of(events, now_us)`` gives one ``OracleBooks`` for each run. It shares no code with the real ledger, so that a
difference between the two shows where one of them misreads the rules of ``docs/ledger.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tachograph_agent.events import (
    AllocationEnd,
    AllocationStart,
    AnyEvent,
    AttemptEnd,
    AttemptStart,
    Failure,
    Gap,
    Heartbeat,
    Phase,
    PhaseStart,
    RunStart,
    Step,
)

from ledger_oracle.attempts import (
    ABANDONED_AFTER_US,
    MINUTE,
    Attempt,
    Span,
    attempts_of,
    end_of,
    ender_of,
    how_it_ended,
    is_own,
    records_of,
    segments,
)
from ledger_oracle.order import (
    SECOND,
    at_us,
    begun_us,
    dur_us,
    in_order,
    one_us,
    rank_of,
    without_broken_clocks,
    without_repeats,
)
from ledger_oracle.saves import close_open_saves, land, saves_of
from ledger_oracle.spans import Stretches, first, intersect, last, length, subtract, union, within

ACCOUNTS: Final = ("kept", "checkpoint", "lost", "restart")
PRIORITY: Final = {"checkpoint": 3, "lost": 2, "kept": 1, "restart": 0}
"""Where messy events would book a moment twice: checkpoint before work, lost before kept, work before restart."""
TIES: Final = ("lost", "restart", "checkpoint", "kept")
STALL_US: Final = 30 * SECOND
FOREVER: Final = (1 << 60, 0)

Place = tuple[int, int]
"""Where in the run something was executed: (attempt, number of rollbacks before it in that attempt)."""


@dataclass
class Piece:
    """Executed steps ``low + 1 .. high`` and the time that they own, stalls taken out."""

    place: Place
    low: int
    high: int
    owned: Stretches
    at_risk_always: bool = False


@dataclass
class Claim:
    """A stretch of time and the account that it is claimed for."""

    start: int
    end: int
    account: str
    sub: str
    attempt: int
    cause: str | None = None
    at_risk: bool = False
    weight: int = 0


@dataclass
class Resume:
    """From ``place`` on the run works on from step ``r``."""

    place: Place
    r: int
    cause: str | None


@dataclass
class OracleMinute:
    """One UTC minute."""

    start_us: int
    us: dict[str, int]
    label: str
    incomplete: bool


@dataclass
class OracleBooks:
    """What one run's events come to."""

    run: str
    status: str
    spans: list[tuple[int, int, str]]
    wall_us: int
    accounts_us: dict[str, int]
    subs_us: dict[str, int]
    lost_by_cause_us: dict[str, int]
    at_risk_us: int | None
    attempts: list[tuple[str, int, int, str]]
    num_attempts: int
    num_failures: int
    num_planned_stops: int
    num_unexplained_stops: int
    num_rollbacks: int
    steps: int
    segments: list[Claim]
    minutes: list[OracleMinute]
    num_minutes: dict[str, int]
    gpu_us: dict[str, int] | None


@dataclass
class Run:
    """One run's segments, after a name was divided into ``name``, ``name#2`` and so on."""

    name: str
    spans: list[Span]
    events: list[AnyEvent]
    claims: list[Claim] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, in order."""
        return [a for s in self.spans for a in s.attempts]

    @property
    def status(self) -> str:
        """The status of the last segment."""
        return self.spans[-1].status

    @property
    def unseen(self) -> bool:
        """Whether the source can't show saves."""
        return any(isinstance(e, RunStart) and e.checkpoints == "unseen" for s in self.spans for e in s.events)


def books_of(
    events: Iterable[AnyEvent], now_us: int | None = None, abandoned_after_us: int = ABANDONED_AFTER_US
) -> dict[str, OracleBooks]:
    """The books of every run in the log, by name."""
    by_name: dict[str, list[AnyEvent]] = {}
    for event in events:
        if now_us is None or at_us(event) <= now_us:
            by_name.setdefault(event.run, []).append(event)
    books: dict[str, OracleBooks] = {}
    for name in sorted(by_name):
        ordered, _aside = without_broken_clocks(without_repeats(in_order(by_name[name])))
        for run in runs_of(name, ordered, now_us, abandoned_after_us):
            books[run.name] = book(run)
    return books


def runs_of(name: str, events: list[AnyEvent], now_us: int | None, abandoned_after_us: int) -> list[Run]:
    """Rule 1: a start from step 0 after ``completed`` is a new run of that name; anything else continues the run."""
    spans, _outside = segments(events, now_us, abandoned_after_us)
    for span in spans:
        span.attempts = attempts_of(span)
        prepare(span)
    everything = [a for s in spans for a in s.attempts]
    for attempt in everything:
        attempt.resume = resumed_from(attempt)
        part = len(attempt.rollbacks)
        done = [r.step for r in attempt.records if attempt.part_at(at_us(r)) == part]
        done += [s.step for s in attempt.saves if s.part == part]
        attempt.last_step = max(done, default=None)
    land(everything, events)
    runs: list[Run] = []
    for span in spans:
        if runs and not (runs[-1].status == "completed" and starts_from_zero(span)):
            runs[-1].spans.append(span)
        else:
            suffix = f"#{len(runs) + 1}" if runs else ""
            runs.append(Run(name + suffix, [span], events))
    for run in runs:
        for i, attempt in enumerate(run.attempts):
            attempt.index = i
        for i, attempt in enumerate(run.attempts):
            attempt.how = how_it_ended(attempt, run.attempts[i + 1 :], attempt.span.status)
            ended_by_failure = attempt.how == "failure" and isinstance(attempt.ender, Failure)
            attempt.category = attempt.ender.category if ended_by_failure else None  # type: ignore[union-attr]
    return runs


def prepare(span: Span) -> None:
    """Rule 2: records, saves and ends of a segment's attempts."""
    following: list[Attempt | None] = [*span.attempts[1:], None]
    for attempt, after in zip(span.attempts, following, strict=False):
        attempt.records = records_of(attempt)
        attempt.rollbacks = [e for e in attempt.events if is_own(e, attempt.lead) and e.kind == "rollback"]  # type: ignore[misc]
        starts = [e for e in attempt.events if isinstance(e, AttemptStart)]
        starts.sort(key=lambda e: rank_of(e) not in (-1, attempt.lead))
        attempt.told = next((e.resume_step for e in starts if e.resume_step is not None), None)
        attempt.world_size = next((e.world_size for e in starts if e.world_size is not None), None)
        attempt.saves = saves_of(attempt)
        attempt.ender = ender_of(attempt)
        attempt.end = end_of(attempt, after)
        close_open_saves(attempt)


def starts_from_zero(span: Span) -> bool:
    """Whether the first that is known of a segment is a start from step 0."""
    stepped = [a for a in span.attempts if a.records]
    if stepped:
        return stepped[0].resume == 0
    return bool(span.attempts) and span.attempts[0].told == 0


# ---- rule 3


def paces(records: list[Step], i: int) -> tuple[int, int]:
    """Rule 3: a first record's own ``one``, and the smaller of it and the next record's."""
    own = one_us(records[i])
    following = [r for r in records[i + 1 : i + 2] if r.dur is not None]
    if not following:
        return own, own
    return own, min(own, one_us(following[0])) if records[i].dur is not None else one_us(following[0])


def need_us(records: list[Step], i: int, steps: int) -> int:
    """Rule 3: ``dur``, and for each step beyond ``count`` the smaller of ``one`` and the next record's ``one``."""
    record = records[i]
    _own, pace = paces(records, i)
    return (dur_us(record) or 0) + max(0, steps - record.count) * pace


def resume_point(attempt: Attempt, i: int, told: int | None, begin: int) -> int:
    """Rule 3: the step after which the first record (number ``i``) of an attempt, or after a rollback, works on."""
    record = attempt.records[i]
    if told is not None:
        fits = need_us(attempt.records, i, record.step - told) <= at_us(record) - begin
        return told if told < record.step and fits else max(0, record.step - record.count)
    before = [s for s in attempt.saves if s.begin < at_us(record) and s.step < record.step]
    before.sort(key=lambda s: s.begin)
    return before[-1].step if before else max(0, record.step - record.count)


def resumed_from(attempt: Attempt) -> int | None:
    """Rule 3: what the attempt's first record says about where it resumed; None if it never stepped."""
    if not attempt.records:
        return None
    return resume_point(attempt, 0, attempt.told, attempt.begin)


def phases_of(attempt: Attempt, names: tuple[str, ...]) -> Stretches:
    """The attempt's phases of these names; one that has only begun lasts to the next step, or as the attempt does."""
    found: Stretches = []
    open_since: dict[str, int] = {}
    for event in attempt.events:
        if isinstance(event, PhaseStart) and event.name in names:
            open_since[event.name] = at_us(event)
        elif isinstance(event, Phase) and event.name in names:
            since = open_since.pop(event.name, at_us(event))
            found.append((since if event.dur is None else begun_us(event), at_us(event)))
    for since in open_since.values():
        nexts = [max(since, begun_us(r)) for r in attempt.records if at_us(r) > since]
        found.append((since, nexts[0] if nexts else attempt.end))
    return within(union(found), attempt.begin, attempt.end)


def stall_us(owned_us: int, one: int, steps: int) -> int:
    """Rule 3: the excess over the expected time, if it is over all three limits; else 0."""
    expected = one * steps
    excess = owned_us - expected
    return excess if excess > STALL_US and excess > 5 * one and 2 * excess > expected else 0


class AttemptBooker:
    """Rules 3, 4, 6 and 7 for one attempt: its pieces of work, and what of its time is claimed otherwise."""

    def __init__(self, run: Run, attempt: Attempt) -> None:
        self.run = run
        self.attempt = attempt
        a = attempt
        self.standing = union((max(s.begin, a.begin), min(s.end or s.begin, a.end)) for s in a.saves)
        self.evals = phases_of(a, ("eval",))
        self.waits = phases_of(a, ("data_wait",))
        self.others = phases_of(a, ("detect", "replace", "reload", "warmup", "compile"))

    def claim(self, stretches: Stretches, account: str, sub: str, cause: str | None = None, **more: int) -> None:
        """Claim time of the attempt for an account."""
        for start, end in within(stretches, self.attempt.begin, self.attempt.end):
            self.run.claims.append(Claim(start, end, account, sub, self.attempt.index, cause, **more))  # type: ignore[arg-type]

    def work(self, start: int, end: int) -> Stretches:
        """The time between, less saves, not before the attempt began; what reaches into the next is cut off later."""
        return subtract(within([(start, end)], self.attempt.begin, max(start, end)), self.standing)

    def book(self) -> None:
        """All of the attempt's time that is not plain restart."""
        a = self.attempt
        for save in a.saves:
            aborted = save.ended_by == "failed" or (save.failed and save.saved_at is None)
            aborted = aborted or (save.ended_by == "attempt" and a.how != "running")
            stretch = within([(save.begin, save.end or save.begin)], a.begin, a.end)
            self.claim(stretch, "checkpoint", "aborted" if aborted else "save")
        edges = [a.begin, *[at_us(r) for r in a.rollbacks], a.end]
        for part, (begin, end) in enumerate(pairwise(edges)):
            told = a.told if part == 0 else a.rollbacks[part - 1].to_step
            self.book_part(part, begin, end, told)

    def book_part(self, part: int, begin: int, end: int, told: int | None) -> None:
        """Rule 3: between two rollbacks, what each record and each save that proves steps owns; then the tail."""
        a = self.attempt
        place = a.index, part
        marks: list[tuple[int, int, int, Step | None]] = [
            (at_us(r), 0, r.step, r) for r in a.records if a.part_at(at_us(r)) == part
        ]
        marks += [(s.begin, 1, s.step, None) for s in a.saves if s.part == part and s.ended_by != "persisted"]
        marks.sort(key=lambda m: m[:3])
        known: int | None = None
        at = begin
        one = 0
        open_piece: tuple[Piece, int, int, bool] | None = None  # piece, one, steps, may it stall
        if part:
            self.run.resumes.append(Resume(place, told or 0, a.rollbacks[part - 1].reason or "unknown"))
        for t, _kind, step, record in marks:
            if record is None:
                if known is None or open_piece is None or step < known:
                    continue
                window = self.work(at, t)
                at = t
                if step == known:  # the time between a step and the save that proves it belongs to that step
                    open_piece[0].owned += window
                    continue
                self.close(open_piece)
                open_piece = Piece(place, known, step, window), one, step - known, one > 0
                known = step
                continue
            if known is None:
                i = next(n for n, r in enumerate(a.records) if r is record)
                if part:
                    known = resume_point(a, i, told, begin)
                    self.run.resumes[-1].r = known
                else:
                    known = a.resume or 0
                    self.run.resumes.append(Resume(place, known, None))
                owned = self.first_owns(i, begin, step - known)
                open_piece = Piece(place, known, step, owned), one_us(record), step - known, False
                known = step
            else:
                if open_piece is not None:
                    self.close(open_piece)
                window = self.work(at, t)
                steps = max(0, step - known)
                open_piece = (
                    Piece(place, known, max(known, step), window),
                    one_us(record),
                    steps,
                    record.dur is not None,
                )
                known = max(known, step)
            if record.dur is not None:
                one = one_us(record)
            at = t
        if open_piece is not None:
            self.close(open_piece)
        last_part = part == len(a.rollbacks)
        if known is not None:
            self.tail(place, subtract(within([(at, end)], a.begin, a.end), self.standing), one, known, last_part)

    def first_owns(self, i: int, begin: int, steps: int) -> Stretches:
        """Rule 3: what the first record owns, back from its end and skipping saves; ``warmup`` taken out."""
        record = self.attempt.records[i]
        if record.dur is None:
            return []
        available = self.work(begin, at_us(record))
        owned = last(available, need_us(self.attempt.records, i, steps))
        following = [r for r in self.attempt.records[i + 1 : i + 2] if r.dur is not None]
        if following and one_us(record) > 2 * one_us(following[0]):
            warm = first(last(available, dur_us(record) or 0), (one_us(record) - one_us(following[0])) * record.count)
            self.claim(warm, "restart", "warmup", weight=1)
            owned = subtract(owned, warm)
        return owned

    def close(self, opened: tuple[Piece, int, int, bool]) -> None:
        """Rule 3: take a stall out of what a record owns: it comes first in that time, evaluations keep theirs."""
        piece, one, steps, may_stall = opened
        piece.owned = union(piece.owned)
        if may_stall:
            idle = subtract(piece.owned, self.evals)
            stalled = first(idle, stall_us(length(idle), one, steps))
            self.claim(stalled, "restart", "stall", weight=1)
            piece.owned = subtract(piece.owned, stalled)
        self.run.pieces.append(piece)

    # ---- rule 6

    def tail(self, place: Place, tail: Stretches, one: int, known: int, last_part: bool) -> None:
        """Rule 6: the time after the last step or save of an attempt, or before a rollback."""
        a = self.attempt
        training = union([*self.evals, *self.waits])
        if last_part and a.how == "running":
            beyond = subtract(tail, self.evals)
            if stall_us(length(beyond), one, 1) and one:
                kept = first(beyond, one)
                self.claim(subtract(beyond, kept), "restart", "stall", weight=1)
                tail = union([*kept, *intersect(tail, self.evals)])
            self.run.pieces.append(Piece(place, known, known, tail, at_risk_always=True))
            return
        outside = subtract(subtract(tail, training), self.others)
        if last_part:
            resumed = next((b.resume for b in self.run.attempts[a.index + 1 :] if b.resume is not None), None)
            if resumed is not None and resumed > known:
                done = first(outside, one * (resumed - known))
                self.run.pieces.append(Piece(place, known, resumed, done))
                outside = subtract(outside, done)
            if a.how in ("planned", "completed"):
                self.run.pieces.append(Piece(place, known, known, intersect(tail, training)))
                return
            # a segment that was completed and taken up again
            if a.how == "continued" and a.span.status == "completed":
                self.run.pieces.append(Piece(place, known, known, intersect(tail, training)))
                return
            cause = cause_of(a)
        else:
            cause = a.rollbacks[place[1]].reason or "unknown"
        self.claim(first(outside, one), "lost", "in_flight", cause)
        self.claim(intersect(tail, training), "lost", "in_flight", cause)


def cause_of(attempt: Attempt) -> str:
    """What made lost what an attempt's end lost: the failure's category, else how it ended."""
    if attempt.how == "failure":
        return attempt.category or "unknown"
    if attempt.how == "continued":
        return attempt.span.status
    return attempt.how


# ---- rule 7


def newest_landed(run: Run) -> int:
    """Rule 7: the newest step that a landed checkpoint of this branch, or a resume from it, covers."""
    covered = [(r.place, r.r) for r in run.resumes]
    covered += [((s.attempt.index, s.part), s.step) for a in run.attempts for s in a.saves if s.landed_at is not None]
    # a resume proves its own step, and abandons what was saved before it beyond that step
    return max((step for place, step in covered if all(r.r >= step for r in run.resumes if r.place > place)), default=0)


def decide_resumes(run: Run) -> None:
    """Rule 7: name the cause of each resume, and let an attempt without a step decide only at a run's end."""
    attempts = run.attempts
    for resume in run.resumes:
        if resume.place[1] == 0:
            before = [a for a in attempts[: resume.place[0]] if a.records]
            resume.cause = cause_of(before[-1]) if before else None
    stepped = [a for a in attempts if a.records]
    if not stepped:
        return
    newest = stepped[-1]
    ended = run.spans[-1].closed
    final = attempts[-1]
    over = (
        newest is not final
        or newest.how not in ("running", "completed", "cancelled")
        or newest.span is not run.spans[-1]
    )
    if ended and final is not newest and final.told is not None:
        run.resumes.append(Resume((final.index, 0), final.told, cause_of(newest)))
    status = run.status
    loses = status in ("failed", "cancelled", "abandoned")
    if status == "running":
        loses = over
    elif status == "completed":
        loses = (newest is final and newest.how == "failure") or (newest is not final and final.told is None)
    if loses and not run.unseen:
        cause = cause_of(newest)
        if newest.how in ("completed", "cancelled") and newest is final:
            cause = status
        run.resumes.append(Resume(FOREVER, newest_landed(run), cause))


def cut_piece(run: Run, piece: Piece, covered: int | None) -> list[tuple[Stretches, str | None, bool]]:
    """Rule 7: (time, cause if lost, at risk) of a piece; what straddles a resume is split in proportion."""
    later = [r for r in run.resumes if r.place > piece.place]
    cuts = {r.r for r in later} | ({covered} if covered is not None else set())
    edges = [piece.low, *sorted(c for c in cuts if piece.low < c < piece.high), piece.high]
    total = length(piece.owned)
    steps = piece.high - piece.low
    parts: list[tuple[Stretches, str | None, bool]] = []
    rest = piece.owned
    for low, high in pairwise(edges):
        upto = total if high == piece.high else total * (high - piece.low) // steps
        share = first(rest, upto - (total - length(rest)))
        rest = subtract(rest, share)
        against = next((r for r in later if r.r < high), None)
        risky = covered is not None and (high > covered or piece.at_risk_always)
        parts.append((share, None if against is None else against.cause or "unknown", risky))
        del low
    return parts


def book_pieces(run: Run) -> None:
    """Rules 7 and 9: claim each piece for kept or lost, kept time under what was done in it."""
    covered = newest_landed(run) if run.status == "running" and not run.unseen else None
    phases = {a.index: (phases_of(a, ("eval",)), phases_of(a, ("data_wait",))) for a in run.attempts}
    for piece in run.pieces:
        index = piece.place[0]
        evals, waits = phases[index]
        a = run.attempts[index]
        for whole, cause, risky in cut_piece(run, piece, covered):
            share = within(whole, a.begin, a.end)
            if cause is not None:
                run.claims += [Claim(s, e, "lost", "rollback", index, cause) for s, e in share]
                continue
            rest = subtract(share, evals)
            for sub, time in (
                ("eval", intersect(share, evals)),
                ("data_wait", intersect(rest, waits)),
                ("train", subtract(rest, waits)),
            ):
                run.claims += [Claim(s, e, "kept", sub, index, None, risky) for s, e in time]


# ---- rule 5


def claim_restart(run: Run, booked: Stretches) -> None:
    """Rule 5 and 9: the sub-accounts of whatever time nothing else claims."""

    def claim(start: int, end: int, sub: str, attempt: int, weight: int) -> None:
        if start < end:
            run.claims.append(Claim(start, end, "restart", sub, attempt, None, weight=weight))

    for span in run.spans:
        for i, a in enumerate(span.attempts):
            work = within(booked, a.begin, a.end)
            after = span.attempts[i + 1] if i + 1 < len(span.attempts) else None
            before = span.attempts[i - 1] if i else None
            edge = after.begin if after is not None else span.end
            start = a.begin if before is not None else span.start
            # until its first work
            if work:
                claim(start, work[0][0], way_back(before), a.index, 0)
                claim(work[0][0], work[-1][1], "other", a.index, -1)
            quiet = work[-1][1] if work else start
            if not work and before is not None:
                claim(start, a.end, way_back(before), a.index, 0)
                quiet = a.end
            told_at = a.end if a.ender is None else at_us(a.ender)
            told_at = max(quiet, min(told_at, edge))
            up = edge
            if after is not None:
                up = max(told_at, min(edge, after.start_event_us() or edge))
            if a.how == "planned":
                if not work and before is None and after is None:
                    claim(start, edge, "startup", a.index, 0)
                claim(quiet, edge, "planned" if after is not None else "shutdown", a.index, -1)
            elif a.how == "failure":
                if not work and before is None:
                    claim(start, told_at, "startup", a.index, 0)
                else:
                    claim(quiet, told_at, "detect", a.index, 0)
                claim(told_at, up, "replace" if after is not None or not span.closed else "shutdown", a.index, 0)
            elif a.how == "unexplained":
                claim(quiet, edge, "other", a.index, 0)
            elif a.how == "running":
                claim(quiet, edge, "startup" if not work else "other", a.index, 0)
            else:
                claim(quiet, edge, "shutdown" if work else "startup", a.index, 0)
            for rollback in a.rollbacks:
                ended = [e for _s, e in work if e <= at_us(rollback)]
                claim(ended[-1] if ended else at_us(rollback), at_us(rollback), "detect", a.index, 1)
                begins = [s for s, _e in work if s >= at_us(rollback)]
                claim(at_us(rollback), begins[0] if begins else a.end, "reload", a.index, 1)
            for name in ("detect", "replace", "reload", "warmup", "compile"):
                for s, e in phases_of_span(span, name):
                    claim(s, e, "warmup" if name == "compile" else name, a.index, 2)
        if not span.attempts:
            claim(span.start, span.end, "startup", 0, 0)
        for s, e in queued(run.events):
            for x, y in within([(s, e)], span.start, span.end):
                claim(x, y, "queued", 0, 3)


def way_back(before: Attempt | None) -> str:
    """Rule 5: what the time between attempt.start and the first step is called."""
    return "startup" if before is None else "reload"


def phases_of_span(span: Span, name: str) -> Stretches:
    """Phases of a name that are no training, as told: they split restart wherever it is."""
    found: Stretches = []
    open_since: int | None = None
    for event in span.events:
        if isinstance(event, PhaseStart) and event.name == name:
            open_since = at_us(event)
        elif isinstance(event, Phase) and event.name == name:
            since = at_us(event) if open_since is None else open_since
            found.append((since if event.dur is None else begun_us(event), at_us(event)))
            open_since = None
        elif isinstance(event, Step) and open_since is not None:
            found.append((open_since, begun_us(event)))
            open_since = None
    if open_since is not None:
        found.append((open_since, span.end))
    return within(union(found), span.start, span.end)


def queued(events: list[AnyEvent]) -> Stretches:
    """Rule 5: before an allocation: the times without one that an allocation.start ends."""
    found: Stretches = []
    held = 0
    free_since = 0
    for event in events:
        if isinstance(event, AllocationStart):
            if not held:
                found.append((free_since, at_us(event)))
            held += 1
        elif isinstance(event, AllocationEnd):
            held = 0 if event.gpus is None else max(0, held - 1)
            if not held:
                free_since = at_us(event)
    return union(found)


# ---- painting


def paint(run: Run) -> list[Claim]:
    """One claim for each moment of the run: by account, then weight; sorted, disjoint, filling the segments."""
    claims = [c for c in run.claims if c.start < c.end]
    order = {id(c): (PRIORITY[c.account], c.weight, -c.attempt, -n) for n, c in enumerate(claims)}
    edges = sorted({t for c in claims for t in (c.start, c.end)} | {t for s in run.spans for t in (s.start, s.end)})
    starts: dict[int, list[Claim]] = {}
    for c in claims:
        starts.setdefault(c.start, []).append(c)
    active: list[Claim] = []
    painted: list[Claim] = []
    for start, end in pairwise(edges):
        active = [c for c in active if c.end > start] + starts.get(start, [])
        inside = any(s.start <= start < s.end for s in run.spans)
        if not inside:
            continue
        top = max(active, key=lambda c: order[id(c)], default=Claim(start, end, "restart", "other", 0))
        previous = painted[-1] if painted else None
        same = (
            previous is not None
            and previous.end == start
            and (
                (previous.account, previous.sub, previous.attempt, previous.cause, previous.at_risk)
                == (top.account, top.sub, top.attempt, top.cause, top.at_risk)
            )
        )
        if same and previous is not None:
            previous.end = end
        else:
            painted.append(Claim(start, end, top.account, top.sub, top.attempt, top.cause, top.at_risk))
    return painted


# ---- rule 8


def minutes_of(run: Run, painted: list[Claim]) -> list[OracleMinute]:
    """Rule 8: UTC minutes with their seconds in each account, a label, and whether something is missing."""
    minutes: dict[int, dict[str, int]] = {}
    for c in painted:
        start = c.start
        while start < c.end:
            minute = start // MINUTE * MINUTE
            end = min(c.end, minute + MINUTE)
            us = minutes.setdefault(minute, dict.fromkeys(ACCOUNTS, 0))
            us[c.account] += end - start
            start = end
    gaps: set[int] = set()
    for event in run.events:
        if isinstance(event, Gap):
            since = at_us(event) if event.since is None else min(round(event.since * SECOND), at_us(event))
            gaps |= set(range(since // MINUTE * MINUTE, at_us(event) + 1, MINUTE))
    agents = any(isinstance(e, Heartbeat) for e in run.events)
    heard = {at_us(e) // MINUTE * MINUTE for e in run.events}
    return [
        OracleMinute(
            minute,
            us,
            max(TIES, key=lambda account: us[account]),  # the first of equals
            minute in gaps or (agents and minute not in heard),
        )
        for minute, us in sorted(minutes.items())
    ]


# ---- rule 10


def gpu_microseconds(run: Run, painted: list[Claim]) -> dict[str, int] | None:
    """Rule 10: GPU time by account and ``idle``, in GPU-microseconds; None where nobody says how many."""
    start = next((e for s in run.spans for e in s.events if isinstance(e, RunStart)), None)
    default = None
    if start is not None:
        default = start.world_size if start.world_size is not None else start.gpus
    allocations = [e for e in run.events if isinstance(e, (AllocationStart, AllocationEnd))]
    edges = sorted({at_us(e) for e in allocations} | {a.begin for a in run.attempts})
    total = dict.fromkeys([*ACCOUNTS, "idle", "held"], 0)
    if not painted:
        return None
    for c in painted:
        inner = [c.start, *[t for t in edges if c.start < t < c.end], c.end]
        for s, e in pairwise(inner):
            world = world_at(run, s, default)
            held = held_at(allocations, s, world) if allocations else world
            if held is None:
                return None
            used = held if world is None else min(world, held)
            total[c.account] += used * (e - s)
            total["idle"] += (held - used) * (e - s)
            total["held"] += held * (e - s)
    return total


def world_at(run: Run, t: int, default: int | None) -> int | None:
    """Rule 10: the world of the attempt at ``t``: the one that began last, the first one before any."""
    begun = [a.world_size for a in run.attempts if a.begin <= t]
    ahead = [a.world_size for a in run.attempts if a.begin > t]
    if default is not None and begun and begun[-1] is None:
        return default
    return next((w for w in [*reversed(begun), *ahead] if w is not None), default)


def held_at(allocations: Sequence[AnyEvent], t: int, world: int | None) -> int | None:
    """Rule 10: how many GPUs the allocations held at ``t`` have; one of no number counts as the attempt's world."""
    held: list[int | None] = []
    for event in allocations:
        if at_us(event) > t:
            break
        if isinstance(event, AllocationStart):
            held.append(event.gpus)
        elif isinstance(event, AllocationEnd):
            if event.gpus is None or event.gpus not in held:
                held.clear()
            else:
                held.remove(event.gpus)
    if any(g is None for g in held):
        return world
    return sum(g for g in held if g is not None)


# ---- all together


def steps_done(run: Run) -> int:
    """The last step that the run as it now stands has done."""
    done = 0
    for a in run.attempts:
        for part in range(len(a.rollbacks) + 1 if a.records else 0):
            steps = [r.step for r in a.records if a.part_at(at_us(r)) == part]
            steps += [s.step for s in a.saves if s.part == part] if steps or done else []
            resumes = [r.r for r in run.resumes if r.place == (a.index, part)]
            done = max([*resumes, *steps]) if resumes or steps else done
    for resume in run.resumes:
        if resume.place == FOREVER or (resume.place[0] < FOREVER[0] and not run.attempts[resume.place[0]].records):
            done = min(done, resume.r)
    return done


def book(run: Run) -> OracleBooks:
    """All rules for one run."""
    for attempt in run.attempts:
        AttemptBooker(run, attempt).book()
    run.resumes.sort(key=lambda r: r.place)
    decide_resumes(run)
    run.resumes.sort(key=lambda r: r.place)
    book_pieces(run)
    booked = union((c.start, c.end) for c in run.claims if c.account != "restart")
    claim_restart(run, booked)
    painted = paint(run)
    accounts = dict.fromkeys(ACCOUNTS, 0)
    subs: dict[str, int] = {}
    causes: dict[str, int] = {}
    for c in painted:
        accounts[c.account] += c.end - c.start
        key = f"{c.account}/{c.sub}"
        subs[key] = subs.get(key, 0) + c.end - c.start
        if c.account == "lost":
            causes[c.cause or "unknown"] = causes.get(c.cause or "unknown", 0) + c.end - c.start
    at_risk: int | None = sum(c.end - c.start for c in painted if c.at_risk and c.account == "kept")
    minutes = minutes_of(run, painted)
    hows = [a.how for a in run.attempts]
    return OracleBooks(
        run=run.name,
        status=run.status,
        spans=[(s.start, s.end, s.status) for s in run.spans],
        wall_us=sum(s.end - s.start for s in run.spans),
        accounts_us=accounts,
        subs_us=subs,
        lost_by_cause_us=causes,
        at_risk_us=None if run.unseen and run.status == "running" else at_risk,
        attempts=[(a.name, a.begin, a.end, a.how) for a in run.attempts],
        num_attempts=len(hows),
        num_failures=hows.count("failure"),
        num_planned_stops=hows.count("planned"),
        num_unexplained_stops=hows.count("unexplained"),
        num_rollbacks=sum(len(a.rollbacks) for a in run.attempts),
        steps=steps_done(run),
        segments=painted,
        minutes=minutes,
        num_minutes={account: sum(m.label == account for m in minutes) for account in ACCOUNTS},
        gpu_us=gpu_microseconds(run, painted),
    )


_ = AttemptEnd  # part of the vocabulary that rule 2 reads, see attempts.py
