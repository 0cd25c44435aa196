"""A run as seen through a calendar window: ``--since`` and ``--until``.

Accounts are summed over the stretches of the run that lie within the window, so the denominator is the run's own time
within it: a run that ended before the window's end is not charged for the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tachograph_collector.ledger.books import (
    ACCOUNTS,
    SUB_ACCOUNTS,
    Account,
    AttemptRecord,
    Books,
    Details,
    GpuHours,
    Minute,
    RunSpan,
    Segment,
)
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.text import MINUTE

_TIES: Final[tuple[Account, ...]] = ("lost", "restart", "checkpoint", "kept")
_GPU_NOTE: Final = "GPU-hours of the window are unknown: they can't be told from the attempts' world sizes alone."


def clip(run: RunReport, window: Window) -> RunReport | None:
    """The run within the window; None if it has no time there.

    The status stays the run's own. Attempts are those that overlap the window; stops, interruptions, saves and
    anomalies are those that happened in it, each with its whole cost. At risk is what of it was worked in the window.
    """
    books, details = run.books, run.details
    since, until = _bounds(books, window)
    segments = [_cut(segment, since, until) for segment in details.segments if _overlaps(segment, since, until)]
    if not segments:
        return None
    accounts: Counter[Account] = Counter()
    subs: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for segment in segments:
        length = segment.end_us - segment.start_us
        accounts[segment.account] += length
        subs[f"{segment.account}/{segment.sub}"] += length
        if segment.account == "lost":
            causes[segment.cause or "unknown"] += length
    minutes = _minutes(details.minutes, segments, since, until)
    labels = Counter(minute.label for minute in minutes)
    incidents = run.incidents
    if incidents is not None:
        incidents = [one for one in incidents if one.opened_us < until and (one.cleared_us or until) > since]
    attempts = [a for a in details.attempts if a.start_us < until and max(a.end_us, a.start_us + 1) > since]
    ended = Counter(a.how for a in details.attempts if since <= a.end_us < until or a.end_us == until == books.end_us)
    interruptions = [it for it in details.interruptions if since <= it.at_us < until]
    gpu = _gpu(run, segments)
    clipped = replace(
        books,
        start_us=segments[0].start_us,
        end_us=segments[-1].end_us,
        spans=_spans(books.spans, since, until),
        wall_us=sum(accounts.values()),
        accounts_us={account: accounts[account] for account in ACCOUNTS},
        subs_us={f"{a}/{s}": subs[f"{a}/{s}"] for a in ACCOUNTS for s in SUB_ACCOUNTS[a]},
        lost_by_cause_us=dict(causes),
        at_risk_us=_at_risk(books, details.segments, since, until),
        num_attempts=len(attempts),
        num_failures=ended["failure"],
        num_planned_stops=ended["planned"],
        num_unexplained_stops=ended["unexplained"],
        num_rollbacks=sum(it.how == "rollback" for it in interruptions),
        num_minutes={account: labels[account] for account in ACCOUNTS},
        gpu=gpu,
    )
    within = Details(
        attempts=attempts,
        interruptions=interruptions,
        checkpoints=[
            c for c in details.checkpoints
            if (at := c.start_us if c.start_us is not None else c.end_us) is not None and since <= at < until
        ],
        anomalies=[a for a in details.anomalies if a.at_us is None or since <= a.at_us < until],
        minutes=minutes,
        segments=segments,
    )  # fmt: skip
    points = run.loss_points
    return RunReport(
        books=clipped,
        details=within,
        notes=[*run.notes, *([_GPU_NOTE] if books.gpu is not None and gpu is None else [])],
        skipped_lines=run.skipped_lines,
        skips=run.skips,
        format=run.format,
        has_clock=run.has_clock,
        loss_points=None if points is None else [p for p in points if since <= p[0] < until],
        incidents=incidents,
        window=window,
        price_per_gpu_hour=run.price_per_gpu_hour,
        last_step=run.books.steps if until >= books.end_us else None,
    )


def _bounds(books: Books, window: Window) -> tuple[int, int]:
    since = books.start_us if window.since_us is None else window.since_us
    until = max(books.end_us, since) if window.until_us is None else window.until_us
    return since, until


def _overlaps(segment: Segment, since: int, until: int) -> bool:
    return segment.start_us < until and segment.end_us > since


def _cut(segment: Segment, since: int, until: int) -> Segment:
    if segment.start_us >= since and segment.end_us <= until:
        return segment
    return replace(segment, start_us=max(segment.start_us, since), end_us=min(segment.end_us, until))


def _spans(spans: Sequence[RunSpan], since: int, until: int) -> list[RunSpan]:
    return [
        replace(span, start_us=max(span.start_us, since), end_us=min(span.end_us, until))
        for span in spans
        if span.start_us < until and span.end_us > since
    ]


def _minutes(minutes: Sequence[Minute], segments: Sequence[Segment], since: int, until: int) -> list[Minute]:
    """The minutes of the window; those that its edges cut are summed again from the stretches within it."""
    edges = {edge // MINUTE * MINUTE for edge in (since, until) if edge % MINUTE}
    cut: dict[int, Counter[Account]] = {edge: Counter() for edge in edges}
    for segment in segments:
        for edge, amounts in cut.items():
            length = min(segment.end_us, edge + MINUTE) - max(segment.start_us, edge)
            if length > 0:
                amounts[segment.account] += length
    within = []
    for minute in minutes:
        amounts = cut.get(minute.start_us, Counter())
        if amounts:
            within.append(
                replace(
                    minute,
                    **{f"{account}_us": amounts[account] for account in ACCOUNTS},
                    label=max(_TIES, key=lambda account: amounts[account]),
                )
            )
        elif since <= minute.start_us < until and minute.start_us not in edges:
            within.append(minute)
    return within


def _at_risk(books: Books, segments: Sequence[Segment], since: int, until: int) -> int | None:
    """What is at risk is the last kept work: as much of it as was done within the window."""
    left = books.at_risk_us
    if left is None:
        return None
    within = 0
    for segment in reversed(segments):
        if left <= 0:
            break
        if segment.account == "kept":
            start = max(segment.start_us, segment.end_us - left)
            within += max(0, min(segment.end_us, until) - max(start, since))
            left -= segment.end_us - start
    return within


def _gpu(run: RunReport, segments: Sequence[Segment]) -> GpuHours | None:
    """GPU time within the window by the attempts' world sizes, if those explain the whole run's exactly; else None.

    Where a scheduler's allocation counts, the books don't say when it held how many.
    """
    whole = run.books.gpu
    if whole is None or whole.idle or _by_world(run.details.segments, run.details.attempts) != whole:
        return None
    return _by_world(segments, run.details.attempts)


def _by_world(segments: Sequence[Segment], attempts: Sequence[AttemptRecord]) -> GpuHours | None:
    sums: Counter[Account] = Counter()
    sizes = {attempt.index: attempt.world_size for attempt in attempts}
    for segment in segments:
        size = sizes.get(segment.attempt)
        if size is None:
            return None
        sums[segment.account] += size * (segment.end_us - segment.start_us)
    return GpuHours(held=sum(sums.values()), idle=0, **{account: sums[account] for account in ACCOUNTS})
