"""Reads what was folded: the books of runs and the rows below them, as the ledger's own records.

Every reader takes ``since_version``: rows that were written after that version of the books, all of them with 0. What
is read on one connection in one block of ``Database.read`` is of one moment, so a row's version never exceeds that of
the books beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, func, or_, select

from tachograph_collector.ledger.books import (
    ACCOUNTS,
    SUB_ACCOUNTS,
    Account,
    Anomaly,
    AttemptRecord,
    Books,
    CheckpointRecord,
    Interruption,
    Minute,
    Segment,
)
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.name_patterns import like
from tachograph_collector.store.schema import attempts, books, checkpoints, minutes, restarts, revisions, segments

Ints = NDArray[np.int64]

_BOOKS: Final = msgspec.json.Decoder(Books)
_ANOMALIES: Final = msgspec.json.Decoder(list[Anomaly])
_LABELS: Final = {account: code for code, account in enumerate(ACCOUNTS)}
_PHASES: Final = SUB_ACCOUNTS["restart"]
"""The order of an interruption's phases, which PostgreSQL does not keep."""


class FoldedKey(NamedTuple):
    """One run of a name: the second of that name is generation 2."""

    run: RunKey
    generation: int


@dataclass(frozen=True, slots=True)
class StoredBooks:
    """The books of one run as they stand in the database, and as of when."""

    key: FoldedKey
    books: Books
    anomalies: list[Anomaly]
    origin: str
    """``live``, ``replay`` or ``rehearsal``."""
    now_us: int
    """The time as of which they stand."""
    folded_seq: int
    version: int
    """Raised with every change of this run's derived rows."""
    revision: int
    """1 when first frozen; raised by what came late."""
    digest: str | None
    frozen_us: int | None


@dataclass(frozen=True, slots=True)
class BooksFilter:
    """Which runs; None leaves a side open. ``name`` may hold ``*`` and ``?``. A window takes runs that overlap it."""

    statuses: Sequence[str] | None = None
    origins: Sequence[str] | None = None
    name: str | None = None
    since_us: int | None = None
    until_us: int | None = None


class BooksPlace(NamedTuple):
    """A place in the list of runs, the latest start first."""

    start_us: int
    run_id: int
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class Minutes:
    """The minutes of a run in columns of one length, in order of time. ``label`` is an index into ``ACCOUNTS``."""

    start_us: Ints
    amounts_us: Ints
    """One row an account, in the order of ``ACCOUNTS``."""
    label: Ints
    revision: Ints
    incomplete: NDArray[np.bool_]
    first_booked_us: Ints
    first_amounts_us: Ints

    def __len__(self) -> int:
        return len(self.start_us)

    def take(self, which: slice | NDArray[np.bool_] | Ints) -> Minutes:
        """Some of them: a slice, a mask or positions."""
        return Minutes(
            self.start_us[which],
            self.amounts_us[:, which],
            self.label[which],
            self.revision[which],
            self.incomplete[which],
            self.first_booked_us[which],
            self.first_amounts_us[:, which],
        )

    def of_the_run(self) -> Minutes:
        """Without those that belong to the run no longer."""
        belongs = self.amounts_us.sum(axis=0) > 0
        return self if belongs.all() else self.take(belongs)

    def records(self) -> list[Minute]:
        """The ledger's records of them, those that belong to the run no longer left out."""
        mine = self.of_the_run()
        labels = [ACCOUNTS[code] for code in mine.label.tolist()]
        columns = (mine.start_us.tolist(), *mine.amounts_us.tolist(), labels, mine.revision.tolist())
        return list(map(Minute, *columns, mine.incomplete.tolist()))

    def with_changed(self, changed: Minutes) -> Minutes:
        """These with ``changed`` in the place of those of the same start."""
        if not len(changed):
            return self
        begins = int(np.searchsorted(self.start_us, changed.start_us[0]))
        if begins and begins < len(self):  # mostly the last minutes are those that change
            behind = self.take(slice(begins, None)).with_changed(changed)
            return self.take(slice(0, begins)).followed_by(behind)
        kept = self.take(~np.isin(self.start_us, changed.start_us))
        both = kept.followed_by(changed)
        return both.take(np.argsort(both.start_us, kind="stable"))

    def followed_by(self, behind: Minutes) -> Minutes:
        """These and then others."""
        return Minutes(
            np.concatenate((self.start_us, behind.start_us)),
            np.concatenate((self.amounts_us, behind.amounts_us), axis=1),
            np.concatenate((self.label, behind.label)),
            np.concatenate((self.revision, behind.revision)),
            np.concatenate((self.incomplete, behind.incomplete)),
            np.concatenate((self.first_booked_us, behind.first_booked_us)),
            np.concatenate((self.first_amounts_us, behind.first_amounts_us), axis=1),
        )


@dataclass(frozen=True, slots=True)
class Revision:
    """One time that a booked minute was booked differently. Amounts are in the order of ``ACCOUNTS``."""

    version: int
    start_us: int
    revision: int
    at_us: int
    was_us: tuple[int, int, int, int]
    now_us: tuple[int, int, int, int]


# -- books ----------------------------------------------------------------------------------------------------------


def read_books(connection: Connection, tenant_id: int, run_name: str) -> StoredBooks | None:
    """The books of the run of that name (``name#2`` for the second of a name); None if none is booked."""
    base, _, number = run_name.rpartition("#")
    named: ColumnElement[bool] = books.c.name == run_name
    if base and number.isdecimal() and number.isascii() and 1 < len(number) + 1 < 6 and int(number) < 2**15:
        named = or_(named, and_(books.c.name == base, books.c.generation == int(number)))
    query = select(books).where(books.c.tenant_id == tenant_id, named).order_by(books.c.generation)
    for row in connection.execute(query):
        stored = _stored(row)
        if stored.books.run == run_name:
            return stored
    return None


def list_books(
    connection: Connection, tenant_id: int, which: BooksFilter, limit: int, after: BooksPlace | None = None
) -> list[StoredBooks]:
    """Up to ``limit`` runs, the latest start first, beginning behind ``after``."""
    query = _filtered(select(books), connection, tenant_id, which)
    if after is not None:
        query = query.where(
            or_(
                books.c.start_us < after.start_us,
                and_(books.c.start_us == after.start_us, books.c.run_id > after.run_id),
                and_(
                    books.c.start_us == after.start_us,
                    books.c.run_id == after.run_id,
                    books.c.generation > after.generation,
                ),
            )
        )
    query = query.order_by(books.c.start_us.desc(), books.c.run_id, books.c.generation).limit(limit)
    return [_stored(row) for row in connection.execute(query)]


def place_of(stored: StoredBooks) -> BooksPlace:
    """Where a run is in the list of runs."""
    return BooksPlace(stored.books.start_us, stored.key.run.run_id, stored.key.generation)


def _filtered(query: Select[Any], connection: Connection, tenant_id: int, which: BooksFilter) -> Select[Any]:
    query = query.where(books.c.tenant_id == tenant_id)
    if which.statuses is not None:
        query = query.where(books.c.status.in_(which.statuses))
    if which.origins is not None:
        query = query.where(books.c.origin.in_(which.origins))
    if which.name is not None:
        query = query.where(like(connection, books.c.name, which.name))
    if which.since_us is not None:
        query = query.where(or_(books.c.end_us > which.since_us, books.c.start_us >= which.since_us))
    if which.until_us is not None:
        query = query.where(books.c.start_us < which.until_us)
    return query


def _stored(row: Row[Any]) -> StoredBooks:
    return StoredBooks(
        key=FoldedKey(RunKey(row.tenant_id, row.run_id), row.generation),
        books=_BOOKS.decode(row.data),
        anomalies=_ANOMALIES.decode(row.anomalies),
        origin=row.origin,
        now_us=row.now_us,
        folded_seq=row.folded_seq,
        version=row.version,
        revision=row.revision,
        digest=row.digest,
        frozen_us=row.frozen_us,
    )


# -- rows below them ------------------------------------------------------------------------------------------------


def _rows(
    connection: Connection, table: Table, key: FoldedKey, since_version: int, order: str
) -> Sequence[tuple[Any, ...]]:
    """The run's rows of ``table``, without the columns that every folded table begins with."""
    chosen = [column for column in table.c if column.name not in _COMMON]
    query = select(*chosen).where(*_of(table, key)).order_by(table.c[order])
    if since_version:
        query = query.where(table.c.version > since_version)
    return cast("Sequence[tuple[Any, ...]]", connection.execute(query).all())


_COMMON: Final = frozenset({"tenant_id", "run_id", "generation", "folded_seq", "version"})


def _of(table: Table, key: FoldedKey) -> tuple[ColumnElement[bool], ...]:
    return (
        table.c.tenant_id == key.run.tenant_id,
        table.c.run_id == key.run.run_id,
        table.c.generation == key.generation,
    )


def num_rows(connection: Connection, table: Table, key: FoldedKey) -> int:
    """How many rows of a folded table the run has."""
    return int(connection.execute(select(func.count()).select_from(table).where(*_of(table, key))).scalar_one())


def read_minutes(connection: Connection, key: FoldedKey, since_version: int = 0) -> Minutes:
    """Every minute that was ever booked for the run; those that belong to it no longer have four zeros."""
    rows = _rows(connection, minutes, key, since_version, "start_us")
    start, kept, checkpoint, lost, restart, label, revision, incomplete, first, *first_amounts = (
        zip(*rows, strict=True) if rows else [()] * 13
    )
    return Minutes(
        _ints(start),
        np.array([_ints(each) for each in (kept, checkpoint, lost, restart)]),
        _ints([_LABELS[cast("Account", each)] for each in label]),
        _ints(revision),
        np.array(incomplete, dtype=np.bool_),
        _ints(first),
        np.array([_ints(each) for each in first_amounts]),
    )


def _ints(values: Sequence[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64, count=len(values))


def read_revisions(
    connection: Connection, key: FoldedKey, since_version: int, limit: int, after: tuple[int, int, int] | None = None
) -> list[Revision]:
    """Restatements after a version, in order of (version, start, revision), beginning behind ``after``."""
    c = revisions.c
    query = select(revisions).where(*_of(revisions, key), c.version > since_version)
    if after is not None:
        version, start_us, number = after
        query = query.where(
            or_(
                c.version > version,
                and_(c.version == version, c.start_us > start_us),
                and_(c.version == version, c.start_us == start_us, c.revision > number),
            )
        )
    query = query.order_by(c.version, c.start_us, c.revision).limit(limit)
    return [
        Revision(
            version=row.version,
            start_us=row.start_us,
            revision=row.revision,
            at_us=row.at_us,
            was_us=(row.was_kept_us, row.was_checkpoint_us, row.was_lost_us, row.was_restart_us),
            now_us=(row.kept_us, row.checkpoint_us, row.lost_us, row.restart_us),
        )
        for row in connection.execute(query)
    ]


def read_segments(connection: Connection, key: FoldedKey, since_version: int = 0) -> list[Segment]:
    """The strip of the run, in order of time."""
    return [
        Segment(start, end, account, sub, attempt, cause, None if by is None else (by, 0 if rolled is None else rolled))
        for start, end, account, sub, attempt, cause, by, rolled in _rows(
            connection, segments, key, since_version, "start_us"
        )
    ]


def read_attempts(connection: Connection, key: FoldedKey, since_version: int = 0) -> dict[int, AttemptRecord]:
    """The attempts by their index."""
    rows = _rows(connection, attempts, key, since_version, "attempt_index")
    return {row[0]: _attempt(*row) for row in rows}


def _attempt(
    index: int,
    name: str,
    start_us: int,
    end_us: int,
    how: Any,
    world_size: int | None,
    resume_step: int | None,
    told_resume_step: int | None,
    first_step: int | None,
    last_step: int | None,
    category: str | None,
    kept_us: int,
    lost_us: int,
) -> AttemptRecord:
    return AttemptRecord(
        index=index,
        name=name,
        start_us=start_us,
        end_us=end_us,
        how=how,
        world_size=world_size,
        resume_step=resume_step,
        told_resume_step=told_resume_step,
        first_step=first_step,
        last_step=last_step,
        category=category,
        kept_us=kept_us,
        lost_us=lost_us,
    )


def read_restarts(connection: Connection, key: FoldedKey, since_version: int = 0) -> dict[int, Interruption]:
    """The interruptions by their index."""
    found = {}
    for row in _rows(connection, restarts, key, since_version, "restart_index"):
        (
            index, attempt, how, at_us, category, node, rank, detail, resumed_at_us, resume_step, last_step, lost_us,
            restart_us, phases_us, inferred,
        ) = row  # fmt: skip
        found[index] = Interruption(
            attempt=attempt,
            how=how,
            at_us=at_us,
            category=category,
            node=node,
            rank=rank,
            detail=detail,
            resumed_at_us=resumed_at_us,
            resume_step=resume_step,
            last_step=last_step,
            lost_us=lost_us,
            restart_us=restart_us,
            phases_us={sub: phases_us[sub] for sub in (*_PHASES, *sorted(phases_us)) if sub in phases_us},
            inferred=bool(inferred),
        )
    return found


def read_checkpoints(connection: Connection, key: FoldedKey, since_version: int = 0) -> dict[int, CheckpointRecord]:
    """The saves by their index."""
    found = {}
    for row in _rows(connection, checkpoints, key, since_version, "checkpoint_index"):
        index, attempt, step, mode, start_us, end_us, blocking_us, landed_us, persist_us, size, state, tiers = row
        found[index] = CheckpointRecord(
            attempt=attempt,
            step=step,
            mode=mode,
            start_us=start_us,
            end_us=end_us,
            blocking_us=blocking_us,
            landed_us=landed_us,
            persist_us=persist_us,
            bytes=size,
            state=state,
            tiers=tuple(tiers),
        )
    return found
