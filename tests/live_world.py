"""Collectors over one database, on a clock that a test sets: what is stored, folded and found there.

Nothing sleeps: ``at`` sets the clock, ``settle`` lets every keeper work until none has anything to do at that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from sqlalchemy import Connection, Table, select
from tachograph_agent.events import AnyEvent
from tachograph_collector.ledger import Books, Ledger, Minute
from tachograph_collector.live.keeper import Keeper
from tachograph_collector.live.pace import Pace
from tachograph_collector.store.database import Database
from tachograph_collector.store.folded_reader import (
    FoldedKey,
    StoredBooks,
    read_attempts,
    read_books,
    read_checkpoints,
    read_minutes,
    read_restarts,
    read_segments,
)
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.reader import events_after
from tachograph_collector.store.runs import find_run
from tachograph_collector.store.schema import nodes, revisions
from tachograph_collector.store.writer import Batch, store

SECOND = 1_000_000
MINUTE = 60 * SECOND
TENANT = 1

PACE = Pace()


class Clock:
    """The database's clock, and everybody's."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us


class ClockedDatabase(Database):
    """A database whose clock a test sets."""

    clock: Clock

    def now_us(self, connection: Connection) -> int:
        return self.clock.now_us


class World:
    """One database, its clock, and the keepers that work on it."""

    def __init__(self, url: str, start_us: int, pace: Pace = PACE) -> None:
        self.database = ClockedDatabase(url)
        self.clock = self.database.clock = Clock(start_us)
        self.pace = pace
        self.keepers: list[Keeper] = []
        self.add_keeper()
        self._num_batches = 0

    def close(self) -> None:
        self.database.close()

    # -- what happens ------------------------------------------------------------------------------------------------

    def add_keeper(self) -> Keeper:
        """One more collector."""
        keeper = Keeper(self.database, f"replica-{len(self.keepers)}", self.pace, lambda: self.clock.now_us)
        self.keepers.append(keeper)
        return keeper

    def crash(self, keeper: Keeper | None = None) -> None:
        """A collector dies without a word, and another starts: all that it knew is gone but what is stored."""
        self.keepers.remove(keeper or self.keepers[0])
        self.add_keeper()

    def receive(self, events: Sequence[AnyEvent], origin: str | None = None) -> None:
        """Store events as one batch, at the clock's time."""
        self._num_batches += 1
        store(self.database, [Batch(TENANT, f"batch-{self._num_batches}", "n1/1", origin, list(events), [])])

    def at(self, now_us: int) -> None:
        """Set the clock; it never goes back."""
        self.clock.now_us = max(self.clock.now_us, now_us)

    def settle(self) -> None:
        """Let the keepers work until none has anything to do now."""
        for _ in range(200):
            if all(keeper.round() > 0 for keeper in list(self.keepers)):
                return
        raise AssertionError("the keepers find no end")

    def wait(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time pass, and the keepers work all the while."""
        until_us = self.clock.now_us + round(seconds * SECOND)
        while self.clock.now_us < until_us:
            self.at(min(until_us, self.clock.now_us + round(step_s * SECOND)))
            self.settle()

    def take_over(self) -> None:
        """Wait until leases of the dead have run out, and whoever lives has taken their runs."""
        self.wait(14, step_s=3.5)

    # -- what is found -----------------------------------------------------------------------------------------------

    def run(self, name: str) -> RunKey:
        with self.database.read() as connection:
            found = find_run(connection, TENANT, name)
        assert found is not None
        return found.key

    def books(self, name: str) -> StoredBooks:
        with self.database.read() as connection:
            found = read_books(connection, TENANT, name)
        assert found is not None, f"nothing is booked of {name}"
        return found

    def minutes(self, name: str) -> list[Minute]:
        """The minutes as they are booked, with their stored revisions."""
        key = self.books(name).key
        with self.database.read() as connection:
            return read_minutes(connection, key).records()

    def first_booked(self, name: str) -> dict[int, tuple[int, ...]]:
        """Minutes by start, as they were first booked."""
        with self.database.read() as connection:
            found = read_minutes(connection, self.books(name).key)
        return dict(zip(found.start_us.tolist(), map(tuple, found.first_amounts_us.T.tolist()), strict=True))

    def rows(self, table: Table, name: str) -> list[dict[str, object]]:
        """Rows of a table of this run, in the order of their keys."""
        run = self.run(name)
        query = select(table).where(table.c.tenant_id == run.tenant_id, table.c.run_id == run.run_id)
        with self.database.read() as connection:
            return [row._asdict() for row in connection.execute(query.order_by(*table.primary_key.columns))]

    def revisions(self, name: str) -> list[dict[str, object]]:
        return self.rows(revisions, name)

    def nodes(self, name: str) -> dict[object, object]:
        return {row["node"]: row["state"] for row in self.rows(nodes, name)}

    def events(self, name: str) -> list[AnyEvent]:
        """All events stored of this run."""
        run, found, seq = self.run(name), [], 0
        with self.database.read() as connection:
            while rows := events_after(connection, run, seq):
                seq = rows[-1].seq
                found += [event for row in rows for event in row.events]
        return found

    def check(self, name: str, *, live: bool = True) -> None:
        """The books in the tables are the pure ledger's of the same events, in every row."""
        ledger = Ledger()
        ledger.add(self.events(name))
        stored = self.books(name)
        now_us = stored.now_us if live else None
        for run in ledger.runs(now_us):
            self.check_generation(ledger, run, now_us)
        with self.database.read() as connection:
            assert read_books(connection, TENANT, f"{name}#{len(ledger.runs(now_us)) + 1}") is None

    def check_generation(self, ledger: Ledger, run: str, now_us: int | None) -> None:
        stored = self.books(run)
        books, details = ledger.books(run, now_us), ledger.details(run, now_us)
        assert differing(stored.books, books) == {}
        assert stored.anomalies == details.anomalies
        key: FoldedKey = stored.key
        with self.database.read() as connection:
            assert read_segments(connection, key) == details.segments
            assert list(read_attempts(connection, key).values()) == details.attempts
            assert list(read_restarts(connection, key).values()) == details.interruptions
            assert list(read_checkpoints(connection, key).values()) == details.checkpoints
            found = read_minutes(connection, key).records()
        expected = [minute for minute in details.minutes if self.is_due(books, minute, now_us)]
        assert [msgspec.structs.replace(minute, revision=1) for minute in found] == [
            msgspec.structs.replace(minute, revision=1) for minute in expected
        ]

    @staticmethod
    def is_due(books: Books, minute: Minute, now_us: int | None) -> bool:
        """A running run's minutes are booked when they have ended."""
        return books.status != "running" or now_us is None or minute.start_us + MINUTE <= now_us


def differing(ours: Books, theirs: Books) -> dict[str, tuple[object, object]]:
    """Fields that differ."""
    return {
        name: (getattr(ours, name), getattr(theirs, name))
        for name in ours.__struct_fields__
        if getattr(ours, name) != getattr(theirs, name)
    }


def hurried(**changes: object) -> Pace:
    """The usual pace but for some figures."""
    return replace(PACE, **changes)  # type: ignore[arg-type]  # named as they are
