"""Reads back what was received: in the order of its sequence numbers for who folds it, by time for the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select, select
from tachograph_agent.events import AnyEvent, Step, microseconds

from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import StepColumns, step_columns, unpack_steps
from tachograph_collector.store.prunings import pruned_before
from tachograph_collector.store.rows import STEP, event_of, samples_of
from tachograph_collector.store.schema import events, samples

_ROWS_AT_ONCE: Final = 500


class PrunedError(StoreError):
    """What is asked for was pruned; what is still there would give another answer than it once gave."""


@dataclass(frozen=True, slots=True)
class Received:
    """One row: an event, or the steps or heartbeats of one place that came together."""

    seq: int
    received_us: int
    events: list[AnyEvent]


def events_after(
    connection: Connection, run: RunKey, seq: int, limit_rows: int = _ROWS_AT_ONCE, received_since_us: int | None = None
) -> list[Received]:
    """The next rows of the run after number ``seq``, in the order of their numbers, at most ``limit_rows``.

    Go on after the last one's ``seq``; a run's numbers and times of arrival rise together, so ``received_since_us``,
    that of the row of ``seq``, spares PostgreSQL the partitions before it. A row that was packed together later holds
    what it was made of, so something before ``seq`` may be told again, and nothing after it is passed over.
    """
    rows: list[tuple[int, int, str | None, Any]] = []
    for table, columns in ((events, (events.c.body,)), (samples, (samples.c.kind, samples.c.data))):
        query: Select[Any] = (
            select(table.c.seq, table.c.received_us, *columns)
            .where(table.c.tenant_id == run.tenant_id, table.c.run_id == run.run_id, table.c.seq > seq)
            .order_by(table.c.seq)
            .limit(limit_rows)
        )
        if received_since_us is not None:
            query = query.where(table.c.received_us >= received_since_us)
        rows += [(row[0], row[1], row[2] if len(row) == 4 else None, row[-1]) for row in connection.execute(query)]
    rows.sort(key=lambda row: row[0])
    return [_received(*row) for row in rows[:limit_rows]]


def steps_since(connection: Connection, run: RunKey, since_us: int, until_seq: int | None = None) -> Iterator[Step]:
    """Every step of the run whose ``t`` is at or after ``since_us``, in no order; up to number ``until_seq``."""
    c = samples.c
    query: Select[Any] = select(c.data, c.start_us).where(
        c.tenant_id == run.tenant_id, c.run_id == run.run_id, c.kind == STEP, c.end_us >= since_us
    )
    if until_seq is not None:
        query = query.where(c.first_seq <= until_seq)
    for data, start_us in _streamed(connection, query):
        steps = unpack_steps(data)
        yield from steps if start_us >= since_us else (each for each in steps if microseconds(each.t) >= since_us)


def step_columns_of(
    connection: Connection,
    run: RunKey,
    since_us: int | None = None,
    until_us: int | None = None,
    *,
    node: str | None = None,
    attempt: str | None = None,
) -> Iterator[tuple[str | None, str | None, StepColumns]]:
    """Attempt, node and columns of each piece that holds steps from ``since_us`` to before ``until_us``, by time.

    A piece that only overlaps the window is given whole.
    """
    c = samples.c
    query: Select[Any] = (
        select(c.attempt, c.node, c.data)
        .where(c.tenant_id == run.tenant_id, c.run_id == run.run_id, c.kind == STEP)
        .order_by(c.end_us, c.seq)
    )
    if since_us is not None:
        query = query.where(c.end_us >= since_us)
    if until_us is not None:
        query = query.where(c.start_us < until_us)
    if node is not None:
        query = query.where(c.node == node)
    if attempt is not None:
        query = query.where(c.attempt == attempt)
    for its_attempt, its_node, data in _streamed(connection, query):
        yield its_attempt, its_node, step_columns(data)


class StoredSteps:
    """The ledger's ``StepSource`` for one run: re-reads its steps up to ``until_seq``; all else the ledger keeps.

    Set ``until_seq`` to the number that the ledger was fed to before it is fed or asked; None: all that is stored.
    """

    def __init__(self, database: Database, run: RunKey, until_seq: int | None = None) -> None:
        self._database = database
        self._run = run
        self.until_seq = until_seq

    def read(self, run: str, since_us: int) -> Iterator[Step]:
        """Every step of the run at or after ``since_us``; ``run``, the ledger's name for it, is not looked at.

        Raises ``PrunedError`` where steps of that time were pruned, ``StoreUnavailableError``.
        """
        with self._database.read() as connection:
            before_us = pruned_before(connection, self._run, STEP)
            if before_us is not None and since_us < before_us:
                raise PrunedError(
                    f"run {run!r}: steps received before {before_us} µs since 1970 were pruned, and the ledger needs "
                    f"those from {since_us} on; what is booked of that time stands"
                )
            yield from steps_since(connection, self._run, since_us, self.until_seq)


def _received(seq: int, received_us: int, kind: str | None, data: Any) -> Received:
    found: list[AnyEvent] = [event_of(data)] if kind is None else list(samples_of(kind, data))
    return Received(seq, received_us, found)


def _streamed(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    """The rows, a few hundred at a time in memory."""
    return iter(connection.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)))
