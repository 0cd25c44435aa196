"""A database comes to the newest schema with what is in it, and nobody goes on before another one."""

from __future__ import annotations

from pathlib import Path

import databases
import pytest
from sqlalchemy import text
from tachograph_collector.store.database import Database
from tachograph_collector.store.partitions import WEEK_US, WEEKS_AHEAD, make_partitions, partitions
from tachograph_collector.store.upgrade import (
    SchemaError,
    check_schema,
    differences,
    newest,
    prepare,
    revision,
    revisions,
    upgrade,
)


def _write(database: Database, statement: str) -> None:
    with database.write() as connection:
        connection.exec_driver_sql(statement)


def test_the_migrations_make_exactly_the_tables_that_the_code_expects(database: Database) -> None:
    assert differences(database) == []


def test_a_column_that_is_missing_or_too_much_is_told(database: Database) -> None:
    _write(database, "ALTER TABLE nodes ADD COLUMN odd TEXT")
    assert any("odd" in line for line in differences(database))


def test_an_upgraded_database_is_at_the_newest_revision_and_stays_there(database: Database) -> None:
    assert revision(database) == newest() == revisions()[-1]
    check_schema(database)
    assert upgrade(database) == []


def test_an_empty_sqlite_upgrades_itself(tmp_path: Path) -> None:
    database = Database(databases.sqlite_url(tmp_path / "new" / "tachograph.sqlite3"))
    assert revision(database) is None
    prepare(database)
    assert (revision(database), differences(database)) == (newest(), [])
    database.close()


def test_an_empty_postgresql_waits_for_its_owner(postgresql_server: databases.PostgreSQLServer) -> None:
    url = postgresql_server.new_database(migrated=False)
    database = Database(url)
    with pytest.raises(SchemaError, match="tachograph db upgrade"):
        prepare(database)
    assert revision(database) is None
    assert upgrade(database) == revisions()
    prepare(database)
    database.close()
    postgresql_server.drop_database(url)


def test_a_newer_schema_is_left_alone_and_told(database: Database) -> None:
    _write(database, "UPDATE alembic_version SET version_num = 'from-the-future'")
    for attempt in (check_schema, prepare, upgrade):
        with pytest.raises(SchemaError, match=r"from-the-future.*newer"):
            attempt(database)
    assert revision(database) == "from-the-future"


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(database_url: str, tmp_path: Path) -> None:
    database = Database(database_url)
    with database.write() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")  # so that the first revision meets its own tables
    with pytest.raises(Exception, match="exists"):
        upgrade(database)
    with database.read() as connection:
        assert connection.execute(text("SELECT name FROM tenants")).scalars().all() == ["default"]
        assert connection.execute(text("SELECT count(*) FROM alembic_version")).scalar() == 0
    database.close()


def test_the_weeks_ahead_have_partitions_and_making_them_again_makes_none(
    postgresql_server: databases.PostgreSQLServer,
) -> None:
    url = postgresql_server.new_database(migrated=False)
    database = Database(url)
    upgrade(database)  # now, and not as the tests began: the week may have been another one
    with database.read() as connection:
        there = partitions(connection)
        now_us = database.now_us(connection)
    assert {each.table for each in there} == {"events", "samples"}
    for table in ("events", "samples"):
        weeks = [each for each in there if each.table == table]
        assert weeks[0].start_us <= now_us < weeks[0].end_us
        assert len(weeks) == WEEKS_AHEAD + 1
        assert weeks[-1].end_us - weeks[0].start_us == (WEEKS_AHEAD + 1) * WEEK_US
    assert make_partitions(database) == []
    assert len(make_partitions(database, WEEKS_AHEAD + 2)) == 4
    database.close()
    postgresql_server.drop_database(url)
