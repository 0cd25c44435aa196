"""Fixtures that any test may ask for; those of the collector as a process are in collector_process.py.

Databases for whoever asks: ``database`` comes once as SQLite and once as PostgreSQL, fresh and at the newest schema.

``database_url`` is the same as an address, for a process of its own; ``sqlite_url`` and ``postgresql_url`` are one of
the two. A test that is about one of them only says so by which it asks for.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import databases
import hypothesis
import pytest
from collector_process import collector, start_collector
from tachograph_collector.store.database import Database

__all__ = ["collector", "start_collector"]

# How long an example takes says how busy the machine is, and nothing of what it is an example of.
# Of the same code a test says the same each time; `make fuzz` looks for examples that nobody has seen yet.
hypothesis.settings.register_profile(
    "tachograph",
    deadline=None,
    derandomize=os.environ.get("TACHOGRAPH_EXAMPLES") != "new",
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tachograph")

# A shell has what it starts in the background ignore Ctrl-C, and so would programs that tests start to interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[databases.PostgreSQLServer]:
    """One real server for the session (each xdist worker has its own), durable as in earnest."""
    server = databases.PostgreSQLServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def postgresql_url(postgresql_server: databases.PostgreSQLServer) -> Iterator[str]:
    """A fresh PostgreSQL database at the newest schema."""
    url = postgresql_server.new_database()
    yield url
    postgresql_server.drop_database(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite file at the newest schema."""
    path = tmp_path_factory.mktemp("sqlite") / "template.sqlite3"
    database = Database(databases.sqlite_url(path))
    databases.migrate(database)
    database.close()
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh SQLite database at the newest schema."""
    return databases.sqlite_url(shutil.copyfile(sqlite_template, tmp_path / "tachograph.sqlite3"))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database at the newest schema; the test runs once on SQLite and once on PostgreSQL."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh database at the newest schema, open; the test runs once on SQLite and once on PostgreSQL."""
    opened = Database(database_url)
    yield opened
    opened.close()
