"""The rows of one generation (``name``, or ``name#2``): what of them is still to be written, and the writing of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection, Table

from tachograph_collector.ledger import Books, Changes, Details, Minute
from tachograph_collector.live.digest import digest_of
from tachograph_collector.live.pace import SECOND
from tachograph_collector.store.folded import (
    Booked,
    BooksHead,
    Rows,
    Stamp,
    as_json,
    attempt_rows,
    checkpoint_rows,
    delete_generation,
    minutes_booked,
    restart_rows,
    segment_rows,
    stored_rows,
    write_books,
    write_minutes,
    write_rows,
)
from tachograph_collector.store.schema import attempts, checkpoints, restarts, segments

MINUTE: Final = 60 * SECOND
NOTHING: Final = Booked()
RECORDS: Final = (attempts, restarts, checkpoints)


class Standing(NamedTuple):
    """How the ledger has it now."""

    name: str
    """The run's, the same for all its generations."""
    origin: str
    now_us: int
    """As of when."""
    books: Books | None
    """None: no such generation any more."""
    details: Details | None
    """None: not worked out this time; what stands is left."""
    changes: Changes | None


@dataclass(slots=True)
class Written:
    """What one transaction came to."""

    changed: bool = False
    """Whether any row was written."""
    differed: bool = False
    """Whether any said something else before; books that are only frozen say the same."""
    booked: Booked = NOTHING
    num_frozen: int = 0


class Generation:
    """Remembers how the rows stand. When a transaction fails, this is out of step with them: it is thrown away then."""

    def __init__(self, head: BooksHead | None = None, booked: Booked = NOTHING) -> None:
        self.head = head
        self.booked = booked
        self.waiting: dict[int, Minute | None] = {}
        """Minutes that have changed and are not written: not over yet. None: it has no time of the run any more."""
        self._is_whole = False
        """Whether the tables were compared with all that the ledger says, after which changes are enough."""
        self._rows: dict[Table, Rows] = {}
        """Records as they stand in the tables."""

    @property
    def is_frozen(self) -> bool:
        """Whether it is over, and known by its digest."""
        return self.head is not None and self.head.frozen_us is not None

    def note(self, changes: Changes) -> None:
        """Remember minutes that have changed until they are written."""
        self.waiting.update((minute.start_us, minute) for minute in changes.minutes)
        self.waiting.update(dict.fromkeys(changes.gone))

    def write(
        self,
        connection: Connection,
        stamp: Stamp,
        now: Standing,
        written: Written,
        *,
        until_us: int | None,
        freeze: bool,
    ) -> None:
        """Write what differs; minutes that end before ``until_us`` (None: all). ``freeze`` what is over."""
        booked = self._write_minutes(connection, stamp, until_us)
        self.booked = self.booked.plus(booked)
        written.booked = written.booked.plus(booked)
        dirty = self._write_rows(connection, stamp, now) or booked.num_written > 0
        self._is_whole = True
        if now.books is None:
            delete_generation(connection, stamp.run, stamp.generation)
            dirty = written.differed = True
        else:
            dirty = self._write_head(connection, stamp, now, now.books, written, dirty=dirty, freeze=freeze)
        written.changed |= dirty

    def _write_minutes(self, connection: Connection, stamp: Stamp, until_us: int | None) -> Booked:
        due = {
            start_us: minute
            for start_us, minute in self.waiting.items()
            if until_us is None or minute is None or start_us + MINUTE <= until_us
        }
        gone = {start_us for start_us, minute in due.items() if minute is None}
        if not self._is_whole:
            gone |= minutes_booked(connection, stamp.run, stamp.generation) - self.waiting.keys()
        for start_us in due:
            del self.waiting[start_us]
        return write_minutes(connection, stamp, [it for it in due.values() if it is not None], gone)

    def _write_rows(self, connection: Connection, stamp: Stamp, now: Standing) -> bool:
        """Write segments and records that differ. True if any did."""
        wrote = False
        if now.changes is not None and now.changes.since_us is not None:
            since_us = now.changes.since_us if self._is_whole else None
            stored = stored_rows(connection, segments, stamp.run, stamp.generation, since_us)
            wrote |= write_rows(connection, segments, stamp, segment_rows(now.changes.segments), stored)
        if now.details is not None:
            found = (
                attempt_rows(now.details.attempts),
                restart_rows(now.details.interruptions),
                checkpoint_rows(now.details.checkpoints),
            )
            for table, rows in zip(RECORDS, found, strict=True):
                known = self._rows.get(table)
                if known is None:
                    known = stored_rows(connection, table, stamp.run, stamp.generation)
                wrote |= write_rows(connection, table, stamp, rows, known)
                self._rows[table] = rows
        return wrote

    def _write_head(
        self,
        connection: Connection,
        stamp: Stamp,
        now: Standing,
        books: Books,
        written: Written,
        *,
        dirty: bool,
        freeze: bool,
    ) -> bool:
        """Write the books' own row if anything has changed. True if it has."""
        before = self.head
        anomalies = "[]" if before is None else before.anomalies
        head = BooksHead(
            version=stamp.version,
            revision=1 if before is None else before.revision,
            digest=None if before is None else before.digest,
            frozen_us=None if before is None else before.frozen_us,
            origin=now.origin,
            data=as_json(books),
            anomalies=anomalies if now.details is None else as_json(now.details.anomalies),
        )
        changed = dirty or before is None or before._replace(version=stamp.version) != head
        if changed:
            written.differed = True
            head = head._replace(frozen_us=None)  # frozen anew when it is quiet again
        if books.status != "running" and freeze and head.frozen_us is None and now.details is not None:
            digest = digest_of(books, now.details.minutes)
            late = head.digest is not None and head.digest != digest
            head = head._replace(digest=digest, frozen_us=stamp.at_us, revision=head.revision + late)
            written.num_frozen += 1
            written.differed |= late
            changed = True
        if changed:
            write_books(connection, stamp, now.name, now.now_us, head, books)
            self.head = head
        return changed
