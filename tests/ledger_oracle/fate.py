"""Rule 7: what becomes of work."""

from __future__ import annotations

from itertools import pairwise

from ledger_oracle.spans import Stretches, first, intersect, length, subtract, within
from ledger_oracle.story import FOREVER, Claim, Piece, Resume, Run
from ledger_oracle.work import cause_of, phases_of


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
        loses = newest is not final and final.told is None
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
