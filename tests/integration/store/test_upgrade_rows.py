"""From every revision, with a row in every table, a database comes to the newest one, and every row is there."""

from __future__ import annotations

from typing import Any

import databases
import pytest
from sqlalchemy import JSON, BigInteger, Boolean, Float, LargeBinary, MetaData, SmallInteger, Table, insert, select
from tachograph_collector.store.database import Database
from tachograph_collector.store.partitions import NAME, make_partitions
from tachograph_collector.store.upgrade import check_schema, differences, revision, revisions, upgrade

_OF_THE_SCHEMA = {"alembic_version"}


def _tables(database: Database) -> list[Table]:
    """The tables as they are in the database now."""
    metadata = MetaData()
    with database.read() as connection:
        metadata.reflect(connection)
    return [
        table for table in metadata.sorted_tables if table.name not in _OF_THE_SCHEMA and not NAME.fullmatch(table.name)
    ]


def _value(column: Any) -> Any:
    """Something that a column of that type holds and that is no default."""
    kind = column.type
    if isinstance(kind, BigInteger | SmallInteger):
        return 77
    if isinstance(kind, Boolean):
        return True
    if isinstance(kind, Float):
        return 7.5
    if isinstance(kind, LargeBinary):
        return b"\x00\xff7"
    if isinstance(kind, JSON):
        return {"seven": [7]}
    return f"seven {column.name}"[: getattr(kind, "length", None) or 100]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    """A database without a table."""
    if request.param == "sqlite":
        database = Database(databases.sqlite_url(tmp_path / "empty.sqlite3"))
        yield database
        database.close()
        return
    server = request.getfixturevalue("postgresql_server")
    url = server.new_database(migrated=False)
    database = Database(url)
    yield database
    database.close()
    server.drop_database(url)


@pytest.mark.parametrize("start", revisions())
def test_every_row_of_every_table_lives_through_the_upgrade(empty: Database, start: str) -> None:
    upgrade(empty, to=start)
    make_partitions(empty)
    rows = {}
    with empty.write() as connection:
        for table in _tables(empty):
            rows[table.name] = {column.name: _value(column) for column in table.columns}
            connection.execute(insert(table), [rows[table.name]])
    assert len(rows) >= 20
    assert upgrade(empty) == revisions()[revisions().index(start) + 1 :]
    check_schema(empty)
    assert (revision(empty), differences(empty)) == (revisions()[-1], [])
    with empty.read() as connection:
        for table in _tables(empty):
            if table.name in rows:
                found = [row._asdict() for row in connection.execute(select(table))]
                assert any(rows[table.name].items() <= row.items() for row in found), table.name
