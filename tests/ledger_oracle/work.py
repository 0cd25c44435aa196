"""Rules 3 and 6: what records and saves own, and the tail of an attempt."""

from __future__ import annotations

from itertools import pairwise

from tachograph_agent.events import Phase, PhaseStart, Step

from ledger_oracle.attempts import Attempt
from ledger_oracle.order import at_us, begun_us, dur_us, one_us
from ledger_oracle.spans import Stretches, first, intersect, last, length, subtract, union, within
from ledger_oracle.story import STALL_US, Claim, Piece, Place, Resume, Run


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
    """The attempt's phases of these names; one that has begun since the last step of a running attempt still lasts."""
    found: Stretches = []
    open_since: dict[str, int] = {}
    for event in attempt.events:
        if isinstance(event, PhaseStart) and event.name in names:
            open_since[event.name] = at_us(event)
        elif isinstance(event, Phase) and event.name in names:
            since = open_since.pop(event.name, at_us(event))
            found.append((since if event.dur is None else begun_us(event), at_us(event)))
    if attempt.how == "running":
        last = max((at_us(record) for record in attempt.records), default=0)
        found += [(since, attempt.end) for since in open_since.values() if since >= last]
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
            # the fields come by name, which the checker can't see
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
        if i == 0 and following and one_us(record) > 2 * one_us(following[0]):
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
