"""PostgreSQL's partitions of ``events`` and ``samples``: one a week of arrival, made ahead, and one for the rest.

A row whose week has no partition goes to the default one, so nothing is ever refused; a week of which the default
partition holds rows stays there. Partitions are made beside the table and attached, which locks nobody out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tachograph_collector.store.database import Database

PARTITIONED: Final = ("events", "samples")
WEEK_US: Final = 7 * 86_400_000_000
WEEKS_AHEAD: Final = 4
NAME: Final = re.compile(r"(events|samples)_(?:default|w(\d+))")
"""A partition's name: the table, and the number of weeks since 1970-01-01, or ``default``."""

_EXISTS: Final = frozenset({"42P07", "42710", "42P17", "23514", "55006"})
"""Somebody else made it at the same time, or the default partition holds rows of that week."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A week's partition: rows that came in from ``start_us`` to before ``end_us``."""

    table: str
    name: str
    start_us: int
    end_us: int


def partition(table: str, week: int) -> Partition:
    """The partition of the ``week``-th week since 1970."""
    return Partition(table, f"{table}_w{week}", week * WEEK_US, (week + 1) * WEEK_US)


def partitions(connection: Connection) -> list[Partition]:
    """The weeks' partitions that there are, oldest first; not the default ones."""
    query = text(
        "SELECT p.relname, c.relname FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent "
        "JOIN pg_class c ON c.oid = i.inhrelid WHERE p.relname IN ('events', 'samples') "
        "AND p.relnamespace = current_schema()::regnamespace"
    )
    found = []
    for table, name in connection.execute(query):
        match = NAME.fullmatch(name)
        if match and match[2]:
            found.append(partition(table, int(match[2])))
    return sorted(found, key=lambda each: (each.start_us, each.table))


def make_partitions(database: Database, weeks_ahead: int = WEEKS_AHEAD) -> list[str]:
    """Make the partitions of this week and the next ones that are not there; the names of those made.

    Nothing to do on SQLite. Any number of collectors may call it at the same time. Raises ``StoreUnavailableError``.
    """
    if database.dialect != "postgresql":
        return []
    with database.read() as connection:
        there = {each.name for each in partitions(connection)}
        this_week = database.now_us(connection) // WEEK_US
    made = []
    for week in range(this_week, this_week + weeks_ahead + 1):
        for table in PARTITIONED:
            wanted = partition(table, week)
            if wanted.name not in there and _make(database, wanted):
                made.append(wanted.name)
    return made


def _make(database: Database, wanted: Partition) -> bool:
    bounds = f"received_us >= {wanted.start_us} AND received_us < {wanted.end_us}"
    like = "INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE"
    values = f"FOR VALUES FROM ({wanted.start_us}) TO ({wanted.end_us})"
    try:
        with database.write() as connection:
            for statement in (
                f"CREATE TABLE {wanted.name} (LIKE {wanted.table} {like})",
                f"ALTER TABLE {wanted.name} ADD CONSTRAINT {wanted.name}_bounds CHECK ({bounds})",
                f"ALTER TABLE {wanted.table} ATTACH PARTITION {wanted.name} {values}",
                f"ALTER TABLE {wanted.name} DROP CONSTRAINT {wanted.name}_bounds",
            ):
                connection.exec_driver_sql(statement)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in _EXISTS:
            return False
        raise
    return True
