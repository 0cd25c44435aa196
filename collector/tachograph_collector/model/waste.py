"""What was not kept, by what caused it: saving, each kind of failure, rollbacks, planned stops, start-up, stalls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tachograph_collector.ledger.books import Books, Details


@dataclass(frozen=True, slots=True)
class Waste:
    """Time that one cause took, in whole microseconds."""

    cause: str
    """A failure's category, ``loss_spike`` and the like, or one of saving, aborted saves, planned stops, start-up,
    stalls, shutdown and other."""
    lost_us: int
    other_us: int
    """Saving or restart."""

    @property
    def total_us(self) -> int:
        """All of it."""
        return self.lost_us + self.other_us


def waste_by_cause(books: Books, details: Details) -> list[Waste]:
    """Every cause, the costliest first; all together are the run's time less what was kept, to the microsecond."""
    lost = Counter(books.lost_by_cause_us)
    other: Counter[str] = Counter()
    other["saving"] = books.subs_us["checkpoint/save"]
    other["aborted saves"] = books.subs_us["checkpoint/aborted"]
    other["stalls"] = books.subs_us["restart/stall"]
    restarts = sorted(details.interruptions, key=lambda one: one.at_us)
    at, until = 0, 0
    cause = ""
    worked: set[int] = set()
    working = -1
    for segment in details.segments:
        if segment.account != "restart":
            if segment.attempt != working:  # a live judge has no time for what is known already
                working = segment.attempt
                worked.add(working)
            continue
        if segment.sub == "stall":
            continue
        while at < len(restarts) and restarts[at].at_us <= segment.start_us:
            one = restarts[at]
            until = details.segments[-1].end_us if one.resumed_at_us is None else one.resumed_at_us
            cause = _cause(one.how, one.category)
            at += 1
        other[_restart_cause(segment.sub, segment.start_us < until, segment.attempt in worked, cause)] += (
            segment.end_us - segment.start_us
        )
    found = [Waste(name, lost[name], other[name]) for name in lost | other]
    return sorted((one for one in found if one.total_us), key=lambda one: (-one.total_us, one.cause))


def _cause(how: str, category: str | None) -> str:
    if how == "planned":
        return "planned stops"
    return "unexplained stops" if how == "unexplained" else category or "unknown"


def _restart_cause(sub: str, is_interrupted: bool, has_worked: bool, cause: str) -> str:
    if sub == "queued":
        return "queueing"
    if is_interrupted:
        return cause
    if sub in {"planned", "shutdown"}:
        return "planned stops" if sub == "planned" else "shutdown"
    return "other" if has_worked else "start-up"
