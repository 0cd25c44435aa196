"""Rule 5: what the time is called that nothing else claims."""

from __future__ import annotations

from tachograph_agent.events import AllocationEnd, AllocationStart, AnyEvent, Phase, PhaseStart, Step

from ledger_oracle.attempts import Attempt, Span
from ledger_oracle.order import at_us, begun_us
from ledger_oracle.spans import Stretches, union, within
from ledger_oracle.story import Claim, Run


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
