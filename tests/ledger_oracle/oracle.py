"""The ledger's rules once more, as a batch over the whole log: clarity over speed, for tests only.

``books_of(events, now_us)`` gives one ``OracleBooks`` for each run. It shares no code with the real ledger, so that a
difference between the two shows where one of them misreads the rules of ``docs/ledger.md``.
"""

from __future__ import annotations

from collections.abc import Iterable

from tachograph_agent.events import AnyEvent, AttemptStart, Failure

from ledger_oracle.attempts import (
    ABANDONED_AFTER_US,
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
from ledger_oracle.fate import book_pieces, decide_resumes
from ledger_oracle.order import at_us, in_order, rank_of, without_broken_clocks, without_repeats
from ledger_oracle.restart import claim_restart
from ledger_oracle.saves import close_open_saves, land, saves_of
from ledger_oracle.spans import union
from ledger_oracle.story import ACCOUNTS, FOREVER, OracleBooks, Run
from ledger_oracle.sums import gpu_microseconds, minutes_of, paint
from ledger_oracle.work import AttemptBooker, resumed_from


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
            # its kind is known, which the checker can't see
            attempt.category = attempt.ender.category if ended_by_failure else None  # type: ignore[union-attr]
    return runs


def prepare(span: Span) -> None:
    """Rule 2: records, saves and ends of a segment's attempts."""
    following: list[Attempt | None] = [*span.attempts[1:], None]
    for attempt, after in zip(span.attempts, following, strict=False):
        attempt.records = records_of(attempt)
        # its kind is known, which the checker can't see
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
