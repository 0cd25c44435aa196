"""Runs as a collector has them: booked by the pure ledger from made-up events, and put into a database as it does it.

So what a route answers can be held to what ``tachograph replay`` says of the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update
from tachograph_agent.events import AnyEvent, Step, microseconds
from tachograph_collector.ledger import Books, Details, Ledger
from tachograph_collector.report.model import RunReport
from tachograph_collector.store import folded
from tachograph_collector.store.database import Database
from tachograph_collector.store.folded import BooksHead, Stamp
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import pack_steps
from tachograph_collector.store.schema import attempts, checkpoints, restarts, runs, samples, segments, tenants


class Fed:
    """What was fed to a ledger, for it to read again."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self.events = events

    def read(self, run: str, since_us: int) -> Iterator[AnyEvent]:
        return (event for event in self.events if event.run == run and microseconds(event.t) >= since_us)


@dataclass(frozen=True)
class Booked:
    """One run, booked."""

    books: Books
    details: Details

    @property
    def report(self) -> RunReport:
        return RunReport(self.books, self.details)


def booked(events: Sequence[AnyEvent], now_us: int | None = None) -> list[Booked]:
    """The runs of a log, in its order."""
    ledger = Ledger(source=Fed(events))
    ledger.add(events)
    return [Booked(ledger.books(run, now_us), ledger.details(run, now_us)) for run in ledger.runs(now_us)]


def add_run(connection: Connection, name: str, *, run_id: int, tenant_id: int = 1, origin: str = "live") -> RunKey:
    """A run of which something has been received."""
    if connection.execute(select(tenants).where(tenants.c.tenant_id == tenant_id)).first() is None:
        connection.execute(insert(tenants).values(tenant_id=tenant_id, name=f"tenant {tenant_id}"))
    connection.execute(
        insert(runs).values(
            tenant_id=tenant_id, run_id=run_id, name=name, origin=origin, first_received_us=1_000_000,
            last_received_us=2_000_000, last_seq=10,
        )
    )  # fmt: skip
    return RunKey(tenant_id, run_id)


def write(
    connection: Connection, run: RunKey, name: str, one: Booked, *, generation: int = 1, version: int = 1,
    origin: str = "live", gone: Iterable[int] = (),
) -> None:  # fmt: skip
    """Make what is stored of a run what ``one`` says."""
    stamp = Stamp(run, generation, folded_seq=10, version=version, at_us=one.books.end_us + 1_500_000)
    folded.write_minutes(connection, stamp, one.details.minutes, gone)
    for table, rows in (
        (segments, folded.segment_rows(one.details.segments)),
        (attempts, folded.attempt_rows(one.details.attempts)),
        (restarts, folded.restart_rows(one.details.interruptions)),
        (checkpoints, folded.checkpoint_rows(one.details.checkpoints)),
    ):
        folded.write_rows(connection, table, stamp, rows, folded.stored_rows(connection, table, run, generation))
    head = BooksHead(version, 1, None, None, origin, folded.as_json(one.books), folded.as_json(one.details.anomalies))
    folded.write_books(connection, stamp, name, one.books.end_us, head, one.books)


def store(
    database: Database, events: Sequence[AnyEvent], *, run_id: int = 7, tenant_id: int = 1,
    origin: str = "live", now_us: int | None = None,
) -> list[Booked]:  # fmt: skip
    """Put the run of these events into the database, its generations and its step samples; what was booked of it."""
    name = events[0].run
    ones = booked(events, now_us)
    with database.write() as connection:
        run = add_run(connection, name, run_id=run_id, tenant_id=tenant_id, origin=origin)
        for generation, one in enumerate(ones, start=1):
            write(connection, run, name, one, generation=generation, origin=origin)
        steps = [event for event in events if isinstance(event, Step)]
        for place in range(0, len(steps), 50):
            add_steps(connection, run, place + 50, steps[place : place + 50])
    return ones


def add_steps(connection: Connection, run: RunKey, seq: int, steps: Sequence[Step]) -> None:
    """One packed piece of steps, of one attempt and node."""
    times = [microseconds(step.t) for step in steps]
    connection.execute(
        insert(samples).values(
            tenant_id=run.tenant_id, run_id=run.run_id, seq=seq, first_seq=seq, received_us=max(times), kind="step",
            attempt=None if steps[0].attempt is None else str(steps[0].attempt), node=steps[0].node,
            start_us=min(times), end_us=max(times), min_step=min(step.step for step in steps),
            max_step=max(step.step for step in steps), num=len(steps), data=pack_steps(steps),
        )
    )  # fmt: skip


def heard(connection: Connection, run: RunKey, at_us: int) -> None:
    """Something of the run came in at this time."""
    connection.execute(
        update(runs)
        .where(runs.c.tenant_id == run.tenant_id, runs.c.run_id == run.run_id)
        .values(last_received_us=at_us)
    )
