"""The report as JSON, schema 1: what scripts and dashboards read. ``docs/replay-json.md`` describes every key.

Seconds are floats exact to the microsecond, instants Unix seconds (UTC), unknown is ``null``. Minutes are not in it
(``--minutes`` writes them): a month has 43,200.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tachograph_collector.ledger.books import ACCOUNTS, AttemptRecord, CheckpointRecord, Interruption
from tachograph_collector.report.incident_lines import incident_objects
from tachograph_collector.report.judge_view import MISSING, is_available, judged, model_object
from tachograph_collector.report.model import RunReport, cost_us
from tachograph_collector.report.text import seconds, seconds_or_none
from tachograph_collector.report.verdict import headline

SCHEMA: Final = 1


def to_json(runs: Sequence[RunReport], *, with_model: bool = False) -> bytes:
    """``{"schema": 1, "runs": [...]}`` and a newline, as UTF-8; ``with_model`` holds each run against the model."""
    return msgspec.json.encode({"schema": SCHEMA, "runs": [run_object(run, with_model) for run in runs]}) + b"\n"


def run_object(run: RunReport, with_model: bool = False) -> dict[str, Any]:
    """One run as plain JSON values."""
    books = run.books
    told = judged(run) if with_model else None
    return {
        "run": _text(books.run),
        "start": seconds(books.start_us),
        "end": seconds(books.end_us),
        "status": books.status,
        "wall_s": seconds(books.wall_us),
        **{f"{account}_s": seconds(books.accounts_us[account]) for account in ACCOUNTS},
        "at_risk_s": seconds_or_none(books.at_risk_us),
        "goodput": books.goodput,
        "goodput_low": books.goodput_low,
        "attempts": books.num_attempts,
        "failures": books.num_failures,
        "planned_stops": books.num_planned_stops,
        "unexplained_stops": books.num_unexplained_stops,
        "steps": run.steps,
        "minutes": {account: books.num_minutes[account] for account in ACCOUNTS},
        "skipped_lines": run.skipped_lines,
        "model": None if told is None else model_object(told),
        "details": _details(run, [MISSING] if with_model and not is_available() else []),
        **({} if run.incidents is None else {"incidents": incident_objects(run)}),
    }


def _details(run: RunReport, further_notes: Sequence[str]) -> dict[str, Any]:
    books, details = run.books, run.details
    window = run.window
    return {
        "verdict": headline(run),
        "format": run.format,
        "clock": run.clock,
        "origin": books.origin,
        "window": None
        if window is None
        else {"since": seconds_or_none(window.since_us), "until": seconds_or_none(window.until_us)},
        "spans": [
            {"start": seconds(span.start_us), "end": seconds(span.end_us), "status": span.status}
            for span in books.spans
        ],
        "labels": {_text(name): _text(value) for name, value in books.labels.items()},
        "world_size": books.world_size,
        "rollbacks": books.num_rollbacks,
        "checkpoints_seen": books.checkpoints_seen,
        "planned_mtbf_s": books.planned_mtbf_s,
        "planned_interval_s": books.planned_interval_s,
        "gpu_hours": run.gpu_hours(),
        "gpu_goodput": books.gpu_goodput,
        "price_per_gpu_hour": run.price,
        "money": run.money(),
        "sub_accounts": {name: seconds(us) for name, us in books.subs_us.items()},
        "lost_by_cause": {_text(cause): seconds(us) for cause, us in books.lost_by_cause_us.items()},
        "incomplete_minutes": sum(minute.incomplete for minute in details.minutes),
        "attempts_detail": [attempt_object(attempt) for attempt in details.attempts],
        "interruptions": [interruption_object(interruption) for interruption in details.interruptions],
        "checkpoints_detail": [checkpoint_object(checkpoint) for checkpoint in details.checkpoints],
        "anomalies": [
            {"kind": anomaly.kind, "at": seconds_or_none(anomaly.at_us), "detail": _text(anomaly.detail)}
            for anomaly in details.anomalies
        ],
        "notes": [*(_text(note) for note in run.notes), *further_notes],
        "skips": [
            {"file": _text(skip.file), "line_number": skip.line_number, "reason": _text(skip.reason)}
            for skip in run.skips
        ],
    }


def attempt_object(attempt: AttemptRecord) -> dict[str, Any]:
    """One of ``attempts_detail``."""
    return {
        "index": attempt.index,
        "name": _text(attempt.name),
        "start": seconds(attempt.start_us),
        "end": seconds(attempt.end_us),
        "how": attempt.how,
        "category": _text_or_none(attempt.category),
        "world_size": attempt.world_size,
        "resume_step": attempt.resume_step,
        "told_resume_step": attempt.told_resume_step,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "kept_s": seconds(attempt.kept_us),
        "lost_s": seconds(attempt.lost_us),
    }


def interruption_object(interruption: Interruption) -> dict[str, Any]:
    """One of ``interruptions``."""
    return {
        "attempt": interruption.attempt,
        "how": interruption.how,
        "at": seconds(interruption.at_us),
        "resumed_at": seconds_or_none(interruption.resumed_at_us),
        "category": _text_or_none(interruption.category),
        "inferred": interruption.inferred,
        "node": _text_or_none(interruption.node),
        "rank": interruption.rank,
        "detail": _text_or_none(interruption.detail),
        "last_step": interruption.last_step,
        "resume_step": interruption.resume_step,
        "cost_s": seconds(cost_us(interruption)),
        "lost_s": seconds(interruption.lost_us),
        "restart_s": seconds(interruption.restart_us),
        "phases": {name: seconds(us) for name, us in interruption.phases_us.items()},
    }


def checkpoint_object(checkpoint: CheckpointRecord) -> dict[str, Any]:
    """One of ``checkpoints_detail``."""
    return {
        "attempt": checkpoint.attempt,
        "step": checkpoint.step,
        "mode": checkpoint.mode,
        "state": checkpoint.state,
        "start": seconds_or_none(checkpoint.start_us),
        "end": seconds_or_none(checkpoint.end_us),
        "blocking_s": seconds(checkpoint.blocking_us),
        "landed_at": seconds_or_none(checkpoint.landed_us),
        "persist_s": seconds_or_none(checkpoint.persist_us),
        "bytes": checkpoint.bytes,
        "tiers": [_text(tier) for tier in checkpoint.tiers],
    }


def _text(value: str) -> str:
    """The string with lone surrogates, which UTF-8 can't write, as escapes; JSON itself escapes the rest."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _text_or_none(value: str | None) -> str | None:
    return None if value is None else _text(value)
