"""Stores batches: all that wait in one transaction, each batch once, each run's rows numbered without a gap.

What makes a sequence number safe to read after: it is taken from ``runs.last_seq`` under that row's lock, and the lock
is held until the commit. So who sees a number of a run sees all lower ones, and a reader that goes on from the last
number it has seen passes nothing over. A run's ``received_us`` never falls with its numbers either, whatever the
database's clock does.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from msgspec import UNSET
from sqlalchemy import Connection, Table, bindparam, insert, select, text, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError
from tachograph_agent.events import AnyEvent, Step

from tachograph_collector.store import schema
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.retry import retrying
from tachograph_collector.store.rows import (
    ORIGINS,
    RunRows,
    Sorted,
    column_text,
    rows_by_run,
    sort_in,
    why_no_run,
    why_unstorable,
)

MAX_REASONS: Final = 5
"""Reasons that are answered, of the first rejected lines; all are kept in the table."""
MAX_LINE_BYTES: Final = 4096

_AT_ONCE: Final = 400
"""Keys in one question: SQLite takes some 32,000 parameters, and a plan should stay short."""
_COPY_FROM: Final = 4
"""Rows from which on COPY is faster than INSERT."""
_MAX_BATCH_ID: Final = 200

_BATCH_COLUMNS: Final = {
    "tenant_id": "bigint",
    "batch_id": "text",
    "received_us": "bigint",
    "num_accepted": "bigint",
    "num_rejected": "bigint",
}
_INSERT_BATCHES: Final = text(
    f"INSERT INTO batches ({', '.join(_BATCH_COLUMNS)}) SELECT * FROM unnest("  # noqa: S608 - names of our own
    + ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in _BATCH_COLUMNS.items())
    + ") ON CONFLICT DO NOTHING RETURNING tenant_id, batch_id"
)
"""One statement for any number of batches; one of as many VALUES would be parsed anew each time."""


@dataclass(slots=True)
class RejectedLine:
    """A line that was no event or may not be stored, with its 1-based number; 0 where that is no longer known."""

    line_number: int
    reason: str
    line: bytes


@dataclass(slots=True)
class Batch:
    """What one request carried, decoded. ``origin`` (live, replay, rehearsal) is that of the request; None: not told.

    ``num_rejected`` counts also the rejected lines that are not kept in ``rejected``; None: all are.
    """

    tenant_id: int
    batch_id: str
    agent: str | None
    origin: str | None
    events: list[AnyEvent]
    rejected: list[RejectedLine]
    num_rejected: int | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a batch. A duplicate tells what was accepted and rejected when it was stored."""

    accepted: int
    rejected: int
    duplicate: bool
    reasons: list[str]


@dataclass(slots=True)
class Stored:
    """What became of the batches, in their order, and the runs that have new rows."""

    outcomes: list[Outcome]
    touched: set[RunKey] = field(default_factory=set)


@dataclass(slots=True)
class _Checked:
    """A batch with what can't be stored taken out of its events and put beside its rejected lines."""

    batch: Batch
    key: tuple[int, str]
    events: list[AnyEvent]
    rejected: list[RejectedLine]
    num_rejected: int


def store(database: Database, batches: Sequence[Batch]) -> Stored:
    """Store all of ``batches`` in one transaction; when it returns, they are durable.

    A batch that is there already, from before or from another collector at this moment, is told as a duplicate.
    Raises ``StoreUnavailableError``; then nothing of them is stored, or, if the connection was lost during the commit,
    all of it: sent again, each batch is stored once either way.
    """
    checked = [_checked(batch) for batch in batches]
    stored: Stored = retrying()(_store, database, checked)
    return stored


def batch_key(batch_id: str) -> str:
    """A batch's name as it is stored: itself, or its hash where no column would hold it."""
    stored = column_text(batch_id, _MAX_BATCH_ID)
    if stored == batch_id:
        return batch_id
    return "sha256:" + hashlib.sha256(batch_id.encode("utf-8", "surrogatepass")).hexdigest()


def _checked(batch: Batch) -> _Checked:
    reasons = {run: why_no_run(run) for run in {event.run for event in batch.events}}
    refused = {run: reason for run, reason in reasons.items() if reason}
    kept, rejected = batch.events, batch.rejected
    # Most are steps without an unknown field, of which there is nothing to be said.
    doubtful = [event for event in kept if not isinstance(event, Step) or event.unknown_fields is not UNSET]
    if refused or any(map(why_unstorable, doubtful)):
        kept, rejected = [], [*rejected]
        for event in batch.events:
            reason = refused.get(event.run) or why_unstorable(event)
            if reason is None:
                kept.append(event)
            else:
                rejected.append(RejectedLine(0, reason, repr(event)[:MAX_LINE_BYTES].encode("utf-8", "replace")))
    told = len(batch.rejected) if batch.num_rejected is None else batch.num_rejected
    num_rejected = told + len(batch.events) - len(kept)
    return _Checked(batch, (batch.tenant_id, batch_key(batch.batch_id)), kept, rejected, num_rejected)


def _store(database: Database, checked: Sequence[_Checked]) -> Stored:
    with database.write() as connection:
        now_us = database.now_us(connection)
        new = _insert_batches(connection, database.dialect, checked, now_us)
        outcomes, fresh = _outcomes(connection, checked, new)
        touched: set[RunKey] = set()
        rows = _rows(fresh)
        if rows:
            touched = _insert_rows(connection, database.dialect, rows, now_us)
        lines = [
            {
                "tenant_id": each.batch.tenant_id,
                "rejected_id": secrets.randbits(63),
                "received_us": now_us,
                "batch_id": each.key[1],
                "agent": column_text(each.batch.agent),
                "line_number": line.line_number,
                "reason": column_text(line.reason, 1000),
                "line": line.line[:MAX_LINE_BYTES],
            }
            for each in fresh
            for line in each.rejected
        ]
        if lines:
            connection.execute(insert(schema.rejected), lines)
    return Stored(outcomes, touched)


def _insert_batches(
    connection: Connection, dialect: str, checked: Sequence[_Checked], now_us: int
) -> set[tuple[int, str]]:
    """Put the batches' names down; gives those that were not there. Who else puts one down waits for our commit."""
    first = {each.key: each for each in reversed(checked)}
    rows = [
        {
            "tenant_id": each.key[0],
            "batch_id": each.key[1],
            "received_us": now_us,
            "num_accepted": len(each.events),
            "num_rejected": each.num_rejected,
        }
        for _, each in sorted(first.items())
    ]
    if dialect == "postgresql":
        columns = {name: [row[name] for row in rows] for name in _BATCH_COLUMNS}
        return {(row[0], row[1]) for row in connection.execute(_INSERT_BATCHES, columns)}
    table = schema.batches
    statement = insert_new(table, dialect).returning(table.c.tenant_id, table.c.batch_id)
    return {(row[0], row[1]) for row in connection.execute(statement, rows)}


def _outcomes(
    connection: Connection, checked: Sequence[_Checked], new: set[tuple[int, str]]
) -> tuple[list[Outcome], list[_Checked]]:
    """What to answer, and the batches that are new, each once."""
    known = _counts(connection, sorted({each.key for each in checked} - new))
    outcomes, fresh, seen = [], [], set()
    for each in checked:
        reasons = [
            f"line {line.line_number}: {line.reason}" if line.line_number else line.reason
            for line in each.rejected[:MAX_REASONS]
        ]
        if each.key in new and each.key not in seen:
            seen.add(each.key)
            fresh.append(each)
            outcomes.append(Outcome(len(each.events), each.num_rejected, duplicate=False, reasons=reasons))
        else:
            counts = known.get(each.key, (len(each.events), each.num_rejected))
            outcomes.append(Outcome(*counts, duplicate=True, reasons=reasons))
    return outcomes, fresh


def _counts(connection: Connection, keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], tuple[int, int]]:
    c = schema.batches.c
    found = {}
    for some in _chunks(keys):
        query = select(c.tenant_id, c.batch_id, c.num_accepted, c.num_rejected).where(
            tuple_(c.tenant_id, c.batch_id).in_(some)
        )
        for tenant_id, batch_id, accepted, rejected in connection.execute(query):
            found[tenant_id, batch_id] = (accepted, rejected)
    return found


def _rows(fresh: Sequence[_Checked]) -> dict[tuple[int, str], RunRows]:
    """The rows of each run by tenant and name; steps of one place are packed together across the batches."""
    rows: dict[tuple[int, str], RunRows] = {}
    for tenant_id in sorted({each.batch.tenant_id for each in fresh}):
        found = Sorted()
        origins: dict[str, str | None] = {}
        for each in fresh:
            if each.batch.tenant_id != tenant_id:
                continue
            sort_in(found, each.events)
            if each.batch.origin in ORIGINS and each.batch.origin != "live":
                origins.update({event.run: each.batch.origin for event in each.events})
        rows.update({(tenant_id, run): of_run for run, of_run in rows_by_run(found, origins).items()})
    return rows


def _insert_rows(
    connection: Connection, dialect: str, rows: dict[tuple[int, str], RunRows], now_us: int
) -> set[RunKey]:
    held = _lock_runs(connection, dialect, sorted(rows), now_us)
    updates, events, samples = [], [], []
    for key, of_run in rows.items():
        run = held[key]
        received_us = max(now_us, run.last_received_us)
        common = {"tenant_id": key[0], "run_id": run.run_id, "received_us": received_us}
        seq = run.last_seq
        for event in of_run.events:
            seq += 1
            events.append(event | common | {"seq": seq})
        for piece in of_run.samples:
            seq += 1
            samples.append(piece | common | {"seq": seq, "first_seq": seq})
        origin = of_run.origin if run.origin == "live" and of_run.origin is not None else run.origin
        updates.append(
            {
                "the_tenant_id": key[0],
                "the_run_id": run.run_id,
                "last_seq": seq,
                "last_received_us": received_us,
                "delay_us": received_us - of_run.latest_us,
                "origin": origin,
            }
        )
    c = schema.runs.c
    where = (c.tenant_id == bindparam("the_tenant_id")) & (c.run_id == bindparam("the_run_id"))
    connection.execute(update(schema.runs).where(where), updates)
    _insert(connection, dialect, schema.events, events)
    _insert(connection, dialect, schema.samples, samples)
    return {RunKey(key[0], held[key].run_id) for key in rows}


def _insert(connection: Connection, dialect: str, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Many rows, all with the same columns, by the fastest way that the database has."""
    if not rows:
        return
    if dialect != "postgresql" or len(rows) < _COPY_FROM:
        connection.execute(insert(table), rows)
        return
    names = list(rows[0])
    cursor = connection.connection.cursor()
    try:
        with cursor.copy(f"COPY {table.name} ({', '.join(names)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row([row[name] for name in names])
    except psycopg.OperationalError as error:
        raise OperationalError("COPY", None, error) from error
    except psycopg.Error as error:
        raise DBAPIError("COPY", None, error) from error
    finally:
        cursor.close()


@dataclass(slots=True)
class _Held:
    run_id: int
    last_seq: int
    last_received_us: int
    origin: str


def _lock_runs(
    connection: Connection, dialect: str, keys: Sequence[tuple[int, str]], now_us: int
) -> dict[tuple[int, str], _Held]:
    """Lock the runs, in one order for all writers; those that nobody has stored yet are made."""
    held = _select_locked(connection, keys)
    missing = [key for key in keys if key not in held]
    if missing:
        for _ in range(5):  # a random id that is taken is drawn again; once would be once in an aeon
            new = [
                {
                    "tenant_id": tenant_id,
                    "run_id": secrets.randbits(63),
                    "name": name,
                    "origin": "live",
                    "first_received_us": now_us,
                    "last_received_us": now_us,
                    "last_seq": 0,
                    "delay_us": None,
                }
                for tenant_id, name in missing
            ]
            connection.execute(insert_new(schema.runs, dialect), new)
            held |= _select_locked(connection, missing)
            missing = [key for key in missing if key not in held]
            if not missing:
                break
    return held


def _select_locked(connection: Connection, keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], _Held]:
    c = schema.runs.c
    found = {}
    for some in _chunks(keys):
        query = (
            select(c.tenant_id, c.name, c.run_id, c.last_seq, c.last_received_us, c.origin)
            .where(tuple_(c.tenant_id, c.name).in_(some))
            .order_by(c.tenant_id, c.name)
            .with_for_update()
        )
        for tenant_id, name, *rest in connection.execute(query):
            found[tenant_id, name] = _Held(*rest)
    return found


def insert_new(table: Any, dialect: str) -> Any:
    """An INSERT that leaves a row alone whose key is there."""
    make = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return make(table).on_conflict_do_nothing()


def _chunks(keys: Sequence[tuple[int, str]]) -> Iterator[Sequence[tuple[int, str]]]:
    for start in range(0, len(keys), _AT_ONCE):
        yield keys[start : start + _AT_ONCE]
