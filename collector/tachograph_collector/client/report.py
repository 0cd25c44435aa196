"""A run's answers back into the ledger's books, so that it is reported here exactly as ``replay`` reports it.

Seconds in the answers are exact to the microsecond, and so are the books that are made from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from tachograph_collector.client import records
from tachograph_collector.ledger import books as ledger
from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS
from tachograph_collector.report.model import RunReport

_HOUR_US: Final = 3_600_000_000


def report_of(
    summary: records.RunSummary,
    segments: Sequence[records.Segment],
    minutes: Sequence[records.Minute],
    *,
    price: float | None = None,
) -> RunReport:
    """What the reports are made from. ``price`` goes before the one that the run told."""
    details = summary.details
    return RunReport(
        books=books_of(summary),
        details=ledger.Details(
            attempts=[_attempt(each) for each in details.attempts_detail],
            interruptions=[_interruption(each) for each in details.interruptions],
            checkpoints=[_checkpoint(each) for each in details.checkpoints_detail],
            anomalies=[ledger.Anomaly(each.kind, _us(each.at), each.detail) for each in details.anomalies],
            minutes=[_minute(each) for each in minutes],
            segments=[_segment(each) for each in segments],
        ),
        notes=details.notes,
        price_per_gpu_hour=price,
    )


def books_of(summary: records.RunSummary) -> ledger.Books:
    """The books that the summary was made from."""
    details = summary.details
    hours = details.gpu_hours
    return ledger.Books(
        run=summary.run,
        status=cast("ledger.Status", summary.status),
        start_us=us(summary.start),
        end_us=us(summary.end),
        spans=[
            ledger.RunSpan(us(span.start), us(span.end), cast("ledger.Status", span.status)) for span in details.spans
        ],
        wall_us=us(summary.wall_s),
        accounts_us={account: us(getattr(summary, f"{account}_s")) for account in ACCOUNTS},
        subs_us={name: us(length_s) for name, length_s in details.sub_accounts.items()},
        lost_by_cause_us={cause: us(length_s) for cause, length_s in details.lost_by_cause.items()},
        at_risk_us=_us(summary.at_risk_s),
        num_attempts=summary.attempts,
        num_failures=summary.failures,
        num_planned_stops=summary.planned_stops,
        num_unexplained_stops=summary.unexplained_stops,
        num_rollbacks=details.rollbacks,
        steps=summary.steps or 0,
        num_minutes={account: summary.minutes.get(account, 0) for account in ACCOUNTS},
        gpu=None
        if hours is None
        else ledger.GpuHours(**{name: round(hours[name] * _HOUR_US) for name in ("held", *ACCOUNTS, "idle")}),
        price_per_gpu_hour=details.price_per_gpu_hour,
        origin=details.origin,
        checkpoints_seen=details.checkpoints_seen,
        planned_mtbf_s=details.planned_mtbf_s,
        planned_interval_s=details.planned_interval_s,
        world_size=details.world_size,
        labels=details.labels,
    )


def us(seconds: float) -> int:
    """Whole microseconds of seconds that are exact to them."""
    return round(seconds * 1e6)


def _us(seconds: float | None) -> int | None:
    return None if seconds is None else us(seconds)


def _attempt(told: records.Attempt) -> ledger.AttemptRecord:
    return ledger.AttemptRecord(
        index=told.index,
        name=told.name,
        start_us=us(told.start),
        end_us=us(told.end),
        how=cast("ledger.How", told.how),
        world_size=told.world_size,
        resume_step=told.resume_step,
        told_resume_step=told.told_resume_step,
        first_step=told.first_step,
        last_step=told.last_step,
        category=told.category,
        kept_us=us(told.kept_s),
        lost_us=us(told.lost_s),
    )


def _interruption(told: records.Restart) -> ledger.Interruption:
    order = (*SUB_ACCOUNTS["restart"], *sorted(told.phases))
    return ledger.Interruption(
        attempt=told.attempt,
        how=told.how,  # type: ignore[arg-type] # the collector's own words
        at_us=us(told.at),
        category=told.category,
        node=told.node,
        rank=told.rank,
        detail=told.detail,
        resumed_at_us=_us(told.resumed_at),
        resume_step=told.resume_step,
        last_step=told.last_step,
        lost_us=us(told.lost_s),
        restart_us=us(told.restart_s),
        phases_us={name: us(told.phases[name]) for name in dict.fromkeys(order) if name in told.phases},
        inferred=told.inferred,
    )


def _checkpoint(told: records.Checkpoint) -> ledger.CheckpointRecord:
    return ledger.CheckpointRecord(
        attempt=told.attempt,
        step=told.step,
        mode=told.mode,  # type: ignore[arg-type] # the collector's own words
        start_us=_us(told.start),
        end_us=_us(told.end),
        blocking_us=us(told.blocking_s),
        landed_us=_us(told.landed_at),
        persist_us=_us(told.persist_s),
        bytes=told.bytes,
        state=told.state,  # type: ignore[arg-type] # the collector's own words
        tiers=tuple(told.tiers),
    )


def _minute(told: records.Minute) -> ledger.Minute:
    return ledger.Minute(
        start_us=us(told.start),
        kept_us=us(told.kept_s),
        checkpoint_us=us(told.checkpoint_s),
        lost_us=us(told.lost_s),
        restart_us=us(told.restart_s),
        label=cast("ledger.Account", told.label),
        revision=told.revision,
        incomplete=told.incomplete,
    )


def _segment(told: records.Segment) -> ledger.Segment:
    return ledger.Segment(
        start_us=us(told.start),
        end_us=us(told.end),
        account=cast("ledger.Account", told.account),
        sub=told.sub,
        attempt=told.attempt,
        cause=told.cause,
        by=None if told.by_attempt is None else (told.by_attempt, told.by_rollback or 0),
    )
