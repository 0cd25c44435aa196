"""A run as a trace: the run, its attempts, restarts and saves as spans, so that it opens in any tracing tool.

Only what is settled becomes a span: an attempt that has ended, a restart after which training went on, a save that
landed, failed or was given up, and the run when it is over. IDs are made from what a span is of, so that it has the
same one whoever exports it, and however often; one whose times were restated comes again under its ID.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from tachograph_collector.ledger.books import AttemptRecord, Books, CheckpointRecord, Interruption
from tachograph_collector.store.folded_reader import FoldedKey, read_attempts, read_checkpoints, read_restarts

Value = str | int | float | bool
_US = 1_000_000


@dataclass(frozen=True, slots=True)
class RunSpan:
    """One span. Times are microseconds since 1970; ``parent_id`` is None for the run itself."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    start_us: int
    end_us: int
    attributes: Mapping[str, Value]
    error: str | None = None
    """What went wrong, if the span ended by a failure."""


def trace_id(key: FoldedKey) -> int:
    """The run's trace, 128 bits, never 0."""
    return _number(16, key.run.tenant_id, key.run.run_id, key.generation)


def span_id(key: FoldedKey, kind: str, index: int) -> int:
    """One span of the run, 64 bits, never 0."""
    return _number(8, key.run.tenant_id, key.run.run_id, key.generation, kind, index)


def _number(size: int, *parts: int | str) -> int:
    told = "/".join(str(part) for part in parts).encode()
    return int.from_bytes(hashlib.sha256(told).digest()[:size], "big") or 1


def settled_spans(connection: Connection, key: FoldedKey, books: Books, since_version: int = 0) -> Iterator[RunSpan]:
    """Spans of what is settled and was written after that version of the books; the run's own last."""
    for index, attempt in sorted(read_attempts(connection, key, since_version).items()):
        yield from _attempt(key, books, index, attempt)
    for index, restart in sorted(read_restarts(connection, key, since_version).items()):
        yield from _restart(key, books, index, restart)
    for index, save in sorted(read_checkpoints(connection, key, since_version).items()):
        yield from _save(key, books, index, save)
    if books.status != "running":
        yield _run(key, books)


def _span(
    key: FoldedKey,
    books: Books,
    kind: str,
    index: int,
    times_us: tuple[int, int],
    attributes: Mapping[str, Value | None],
    *,
    parent: int | None,
    error: str | None = None,
) -> RunSpan:
    start_us, end_us = times_us
    known = {f"tachograph.{name}": value for name, value in attributes.items() if value is not None}
    return RunSpan(
        trace_id=trace_id(key),
        span_id=span_id(key, kind, index),
        parent_id=parent,
        name=kind,
        start_us=start_us,
        end_us=max(start_us, end_us),
        attributes={"tachograph.run": books.run, **known},
        error=error,
    )


def _run(key: FoldedKey, books: Books) -> RunSpan:
    goodput = books.goodput
    told: dict[str, Value | None] = {
        "status": books.status,
        "goodput": goodput,
        "attempts": books.num_attempts,
        "failures": books.num_failures,
        "last_step": books.steps,
        "world_size": books.world_size,
    }
    told |= {f"{account}_s": us / _US for account, us in books.accounts_us.items()}
    error = "failed" if books.status == "failed" else None
    return _span(key, books, "run", 0, (books.start_us, books.end_us), told, parent=None, error=error)


def _attempt(key: FoldedKey, books: Books, index: int, attempt: AttemptRecord) -> Iterator[RunSpan]:
    if attempt.how == "running":
        return
    told: dict[str, Value | None] = {
        "attempt": attempt.name,
        "attempt_index": index,
        "how": attempt.how,
        "category": attempt.category,
        "world_size": attempt.world_size,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "kept_s": attempt.kept_us / _US,
        "lost_s": attempt.lost_us / _US,
    }
    error = (attempt.category or "failure") if attempt.how in {"failure", "failed", "unexplained"} else None
    times_us = attempt.start_us, attempt.end_us
    yield _span(key, books, "attempt", index, times_us, told, parent=span_id(key, "run", 0), error=error)


def _restart(key: FoldedKey, books: Books, index: int, restart: Interruption) -> Iterator[RunSpan]:
    if restart.resumed_at_us is None:
        return  # training has not gone on: how long it takes is not known
    told: dict[str, Value | None] = {
        "attempt_index": restart.attempt,
        "how": restart.how,
        "category": restart.category,
        "node": restart.node,
        "rank": restart.rank,
        "resume_step": restart.resume_step,
        "last_step": restart.last_step,
        "lost_s": restart.lost_us / _US,
        "restart_s": restart.restart_us / _US,
        "inferred": restart.inferred,
    }
    told |= {f"phase.{name}_s": us / _US for name, us in restart.phases_us.items()}
    error = (restart.category or restart.how) if restart.how in {"failure", "unexplained"} else None
    times_us = restart.at_us, restart.resumed_at_us
    yield _span(key, books, "restart", index, times_us, told, parent=span_id(key, "run", 0), error=error)


def _save(key: FoldedKey, books: Books, index: int, save: CheckpointRecord) -> Iterator[RunSpan]:
    known = [us for us in (save.start_us, save.end_us, save.landed_us) if us is not None]
    if save.state == "pending" or not known:
        return
    told: dict[str, Value | None] = {
        "attempt_index": save.attempt,
        "step": save.step,
        "mode": save.mode,
        "state": save.state,
        "blocking_s": save.blocking_us / _US,
        "persist_s": None if save.persist_us is None else save.persist_us / _US,
        "bytes": save.bytes,
        "tiers": ",".join(save.tiers) or None,
    }
    times_us = min(known), max(known)
    parent = span_id(key, "attempt", save.attempt)
    error = "the save failed" if save.state == "failed" else None
    yield _span(key, books, "checkpoint", index, times_us, told, parent=parent, error=error)
