"""Writes what was folded: only rows that differ from what is stored, each with the version that it changed in.

Whoever writes holds the run's lease and has checked its fence in the same transaction, so nobody else writes these
rows. A minute's revisions come from comparing with what is stored: folding the same events again, after a crash for
instance, writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from tachograph_collector.ledger import (
    Anomaly,
    AttemptRecord,
    Books,
    CheckpointRecord,
    Interruption,
    Minute,
    Segment,
)
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.rows import column_text
from tachograph_collector.store.schema import (
    attempts,
    books,
    checkpoints,
    minutes,
    restarts,
    revisions,
    segments,
)

COMMON: Final = ("tenant_id", "run_id", "generation", "folded_seq", "version")
_CHUNK: Final = 400
"""Rows asked for or written by one statement; SQLite takes no more than 32,766 values."""

Values: TypeAlias = tuple[Any, ...]
Amounts: TypeAlias = tuple[int, int, int, int]
"""Time in each account, in the order of ``ACCOUNTS``."""


class Stamp(NamedTuple):
    """Whose rows are written, from what, and in which version of the run's derived rows."""

    run: RunKey
    generation: int
    folded_seq: int
    version: int
    at_us: int
    """When, on the database's clock."""

    def common(self) -> dict[str, Any]:
        """The columns that every folded row begins with."""
        return {
            "tenant_id": self.run.tenant_id,
            "run_id": self.run.run_id,
            "generation": self.generation,
            "folded_seq": self.folded_seq,
            "version": self.version,
        }


class Booked(NamedTuple):
    """What writing minutes changed. Sums that only grow, so that counters can be made of them."""

    num_new: int = 0
    num_revised: int = 0
    first_us: Amounts = (0, 0, 0, 0)
    """Time in each account, as minutes were first booked."""
    num_written: int = 0
    """Rows written: the new and revised, and those that became incomplete, or complete."""
    lost_later_us: int = 0
    """Time that was booked as something else first and as lost later."""

    def plus(self, other: Booked) -> Booked:
        """Both together."""
        first = tuple(a + b for a, b in zip(self.first_us, other.first_us, strict=True))
        return Booked(
            self.num_new + other.num_new,
            self.num_revised + other.num_revised,
            (first[0], first[1], first[2], first[3]),
            self.num_written + other.num_written,
            self.lost_later_us + other.lost_later_us,
        )


# -- minutes --------------------------------------------------------------------------------------------------------


def write_minutes(connection: Connection, stamp: Stamp, booked: Iterable[Minute], gone: Iterable[int]) -> Booked:
    """Write minutes as they are booked now; ``gone`` are starts of minutes that belong to the run no longer."""
    wanted: dict[int, Minute | None] = dict.fromkeys(gone)
    wanted.update((minute.start_us, minute) for minute in booked)
    stored = _stored_minutes(connection, stamp, sorted(wanted))
    new, changed, restated = [], [], []
    lost_later_us = 0
    for start_us, minute in wanted.items():
        now = (0, 0, 0, 0) if minute is None else _amounts(minute)
        row = stored.get(start_us)
        if row is None:
            if minute is not None:
                new.append(_new_minute(stamp, minute))
            continue
        was: Amounts = (row.kept_us, row.checkpoint_us, row.lost_us, row.restart_us)
        incomplete = bool(row.incomplete) if minute is None else minute.incomplete
        if was == now and incomplete == bool(row.incomplete):
            continue
        revision = row.revision + (was != now)
        changed.append(
            {
                **row._asdict(),
                **stamp.common(),
                **dict(zip(_AMOUNTS, now, strict=True)),
                "label": row.label if minute is None else minute.label,
                "revision": revision,
                "incomplete": incomplete,
            }
        )
        if was != now:
            lost_later_us += max(0, now[2] - was[2])
            restated.append(
                {
                    **stamp.common(),
                    "start_us": start_us,
                    "revision": revision,
                    "at_us": stamp.at_us,
                    **dict(zip(_WAS, was, strict=True)),
                    **dict(zip(_AMOUNTS, now, strict=True)),
                }
            )
    upsert(connection, minutes, new + changed)
    upsert(connection, revisions, restated)
    sums = [sum(row[name] for row in new) for name in _FIRST]
    first_us = (sums[0], sums[1], sums[2], sums[3])
    return Booked(len(new), len(restated), first_us, len(new) + len(changed), lost_later_us)


def minutes_booked(connection: Connection, run: RunKey, generation: int) -> set[int]:
    """The starts of all minutes that are stored as having time of the run."""
    c = minutes.c
    has_time = c.kept_us + c.checkpoint_us + c.lost_us + c.restart_us > 0
    query = select(c.start_us).where(*_of(minutes, run, generation), has_time)
    return set(connection.execute(query).scalars())


def booked_so_far(connection: Connection, run: RunKey, generation: int) -> Booked:
    """What all writing of minutes of this run has come to."""
    c = minutes.c
    first = [func.coalesce(func.sum(c[name]), 0) for name in _FIRST]
    row = connection.execute(select(func.count(), *first).where(*_of(minutes, run, generation))).one()
    r = revisions.c
    query = select(func.count(), func.coalesce(func.sum(r.lost_us - r.was_lost_us), 0)).where(
        *_of(revisions, run, generation), r.lost_us > r.was_lost_us
    )
    num_revised = connection.execute(
        select(func.count()).select_from(revisions).where(*_of(revisions, run, generation))
    ).scalar_one()
    lost_later_us = connection.execute(query).one()[1]
    first_us = (int(row[1]), int(row[2]), int(row[3]), int(row[4]))
    return Booked(row[0], num_revised, first_us, row[0], int(lost_later_us))


def newest_version(connection: Connection, run: RunKey) -> int:
    """The newest version of any of the run's derived rows."""
    newest = 0
    for table in (books, minutes):
        query = select(func.max(table.c.version)).where(
            table.c.tenant_id == run.tenant_id, table.c.run_id == run.run_id
        )
        newest = max(newest, connection.execute(query).scalar_one() or 0)
    return newest


_AMOUNTS: Final = ("kept_us", "checkpoint_us", "lost_us", "restart_us")
_WAS: Final = tuple(f"was_{name}" for name in _AMOUNTS)
_FIRST: Final = tuple(f"first_{name}" for name in _AMOUNTS)


def _amounts(minute: Minute) -> Amounts:
    return (minute.kept_us, minute.checkpoint_us, minute.lost_us, minute.restart_us)


def _new_minute(stamp: Stamp, minute: Minute) -> dict[str, Any]:
    amounts = _amounts(minute)
    return {
        **stamp.common(),
        "start_us": minute.start_us,
        **dict(zip(_AMOUNTS, amounts, strict=True)),
        "label": minute.label,
        "revision": 1,
        "incomplete": minute.incomplete,
        "first_booked_us": stamp.at_us,
        **dict(zip(_FIRST, amounts, strict=True)),
    }


def _stored_minutes(connection: Connection, stamp: Stamp, starts: Sequence[int]) -> dict[int, Any]:
    """The stored rows of these minutes, by start."""
    found: dict[int, Any] = {}
    query = select(minutes).where(*_of(minutes, stamp.run, stamp.generation))
    for at in range(0, len(starts), _CHUNK):
        some = starts[at : at + _CHUNK]
        # Changed minutes mostly lie side by side: a range of the key is read faster than as many single ones.
        if some[-1] - some[0] <= 2 * len(some) * 60_000_000:
            rows = connection.execute(query.where(minutes.c.start_us.between(some[0], some[-1])))
        else:
            rows = connection.execute(query.where(minutes.c.start_us.in_(some)))
        found.update((row.start_us, row) for row in rows)
    return found


# -- records --------------------------------------------------------------------------------------------------------

Rows: TypeAlias = dict[int, Values]
"""Rows of one table by the last column of their key; the other columns behind it, in the table's order."""


def segment_rows(records: Iterable[Segment]) -> Rows:
    """Segments by their start."""
    return {
        it.start_us: (
            it.end_us,
            it.account,
            it.sub,
            it.attempt,
            None if it.cause is None else text_of(it.cause),
            None if it.by is None else it.by[0],
            None if it.by is None else it.by[1],
        )
        for it in records
    }


def attempt_rows(records: Iterable[AttemptRecord]) -> Rows:
    """Attempts by their index."""
    return {record.index: _storable(msgspec.structs.astuple(record)[1:]) for record in records}


def restart_rows(records: Iterable[Interruption]) -> Rows:
    """Interruptions by their place."""
    return {place: _storable(msgspec.structs.astuple(record)) for place, record in enumerate(records)}


def checkpoint_rows(records: Iterable[CheckpointRecord]) -> Rows:
    """Saves by their place; tiers as a list, as JSON gives them back."""
    return {
        place: (*_storable(msgspec.structs.astuple(record)[:-1]), [text_of(tier) for tier in record.tiers])
        for place, record in enumerate(records)
    }


def _storable(values: Values) -> Values:
    return tuple(text_of(value) if isinstance(value, str) else value for value in values)


def text_of(value: str) -> str:
    """The text as both databases hold it: no character 0, which PostgreSQL lacks, and no half of a surrogate pair."""
    return column_text(value, len(value)) or ""


INDEXES: Final[Mapping[Table, str]] = {
    segments: "start_us",
    attempts: "attempt_index",
    restarts: "restart_index",
    checkpoints: "checkpoint_index",
}


def stored_rows(connection: Connection, table: Table, run: RunKey, generation: int, since: int | None = None) -> Rows:
    """What is stored in one of these tables, from ``since`` of its index on."""
    index = INDEXES[table]
    query = select(table.c[index], *(table.c[name] for name in _columns(table))).where(*_of(table, run, generation))
    if since is not None:
        query = query.where(table.c[index] >= since)
    return {row[0]: tuple(row[1:]) for row in connection.execute(query)}


def write_rows(connection: Connection, table: Table, stamp: Stamp, rows: Rows, stored: Rows) -> bool:
    """Make ``stored`` rows of a table ``rows``: writes those that differ. True if any did."""
    index, names = INDEXES[table], _columns(table)
    differ = [
        {**stamp.common(), index: place, **dict(zip(names, values, strict=True))}
        for place, values in rows.items()
        if stored.get(place) != values
    ]
    over = [place for place in stored if place not in rows]
    for at in range(0, len(over), _CHUNK):
        connection.execute(
            delete(table).where(*_of(table, stamp.run, stamp.generation), table.c[index].in_(over[at : at + _CHUNK]))
        )
    upsert(connection, table, differ)
    return bool(differ or over)


def _columns(table: Table) -> tuple[str, ...]:
    skipped = {*COMMON, INDEXES[table]}
    return tuple(column.name for column in table.columns if column.name not in skipped)


# -- books ----------------------------------------------------------------------------------------------------------


class BooksHead(NamedTuple):
    """What of a books row is no ledger's answer."""

    version: int
    revision: int
    digest: str | None
    frozen_us: int | None
    origin: str
    data: str
    """The ledger's Books, as JSON."""
    anomalies: str


def read_heads(connection: Connection, run: RunKey) -> dict[int, BooksHead]:
    """How each of the run's generations stands, by generation."""
    c = books.c
    query = select(c.generation, c.version, c.revision, c.digest, c.frozen_us, c.origin, c.data, c.anomalies).where(
        c.tenant_id == run.tenant_id, c.run_id == run.run_id
    )
    return {row[0]: BooksHead(*row[1:]) for row in connection.execute(query)}


def write_books(
    connection: Connection, stamp: Stamp, name: str, now_us: int, head: BooksHead, books_now: Books
) -> None:
    """Write one run's books as they stand at ``now_us``. ``name`` is that of the run, also for its ``name#2``."""
    gpu = books_now.gpu
    row = {
        **stamp.common(),
        "name": name,
        "origin": head.origin,
        "now_us": now_us,
        "status": books_now.status,
        "start_us": books_now.start_us,
        "end_us": books_now.end_us,
        "wall_us": books_now.wall_us,
        **{f"{account}_us": amount for account, amount in books_now.accounts_us.items()},
        "at_risk_us": books_now.at_risk_us,
        "num_attempts": books_now.num_attempts,
        "num_failures": books_now.num_failures,
        "steps": books_now.steps,
        "world_size": books_now.world_size,
        "price_per_gpu_hour": books_now.price_per_gpu_hour,
        "gpu_us": None if gpu is None else msgspec.structs.asdict(gpu),
        "data": head.data,
        "anomalies": head.anomalies,
        "digest": head.digest,
        "frozen_us": head.frozen_us,
        "revision": head.revision,
    }
    upsert(connection, books, [row])


def as_json(value: Books | Sequence[Anomaly]) -> str:
    """Books and anomalies as the books row holds them."""
    return msgspec.json.encode(value).decode()


def delete_generation(connection: Connection, run: RunKey, generation: int) -> None:
    """Take away the books of a generation that is none any more. Its minutes and their revisions stay, with no time."""
    for table in (books, *INDEXES):
        connection.execute(delete(table).where(*_of(table, run, generation)))


# -- how ------------------------------------------------------------------------------------------------------------


def _of(table: Table, run: RunKey, generation: int) -> tuple[Any, ...]:
    return (
        table.c.tenant_id == run.tenant_id,
        table.c.run_id == run.run_id,
        table.c.generation == generation,
    )


def upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, or write over those of the same key."""
    if not rows:
        return
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table)
    keys = [column.name for column in table.primary_key.columns]
    others = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), list(rows))
