"""The databases that the tests are run on are real, fresh and durable."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import databases
import psycopg
import pytest
from sqlalchemy import select, text
from tachograph_collector.store import schema
from tachograph_collector.store.database import Database


def test_each_test_gets_a_database_that_nobody_wrote_in(database: Database) -> None:
    with database.write() as connection:
        assert connection.execute(select(schema.tenants.c.name)).scalars().all() == ["default"]
        connection.execute(schema.tenants.insert().values(tenant_id=2, name="another"))


def test_each_test_gets_a_database_of_its_own(database: Database) -> None:
    with database.write() as connection:
        assert connection.execute(select(schema.tenants.c.name)).scalars().all() == ["default"]
        connection.execute(schema.tenants.insert().values(tenant_id=2, name="another"))


def test_the_server_writes_to_disk_before_it_answers(postgresql_url: str) -> None:
    database = Database(postgresql_url)
    with database.read() as connection:
        told = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("fsync", "synchronous_commit")]
    database.close()
    assert told == ["on", "on"]


def test_the_server_and_its_folder_are_gone_when_the_tests_were_killed() -> None:
    script = """
    import databases, time
    server = databases.PostgreSQLServer(fsync="off")
    server.start()
    print(server.process.pid, server.folder, flush=True)
    time.sleep(600)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(databases.__file__).parent,
    )
    assert process.stdout is not None
    server, folder = process.stdout.readline().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    give_up_at = time.monotonic() + 60
    while Path(folder).exists() or databases._runs(int(server)):
        assert time.monotonic() < give_up_at, f"PostgreSQL {server} outlived the tests in {folder}"
        time.sleep(0.05)


def test_what_was_committed_is_there_after_the_server_was_killed() -> None:
    server = databases.PostgreSQLServer()
    try:
        server.start()
        url = server.new_database()
        database = Database(url)
        with database.write() as connection:
            connection.execute(schema.tenants.insert().values(tenant_id=7, name="kept"))
        server.stop(signal.SIGKILL)
        server.start()
        database.close()
        with database.read() as connection:
            assert connection.execute(text("SELECT name FROM tenants WHERE tenant_id = 7")).scalars().all() == ["kept"]
        database.close()
    finally:
        server.close()


def test_a_connection_in_use_when_its_database_is_closed_is_closed_as_it_comes_back(database: Database) -> None:
    with database.read() as connection:
        driver = connection.connection.driver_connection
        database.close()
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    with pytest.raises((psycopg.Error, sqlite3.Error), match="closed"):
        driver.cursor().execute("SELECT 1")
    with database.read() as connection:  # it opens again, as before
        assert connection.connection.driver_connection is not driver
    with database.read() as connection:
        again = connection.connection.driver_connection
    with database.read() as connection:
        assert connection.connection.driver_connection is again
