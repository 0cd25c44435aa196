"""``tachograph db grafana-role``: what it makes, that it may be made again, and whom it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import databases
import psycopg
import pytest
import stored_runs
from click.testing import CliRunner, Result
from sqlalchemy.engine import make_url
from tachograph_agent.events import AnyEvent, RunEnd, RunStart, Step
from tachograph_collector.cli.main import cli
from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.grafana_role import make_role
from tachograph_collector.store.upgrade import differences

T0 = 1_760_000_000.0
PASSWORD = "a password that nobody else has"


def dropped(server: databases.PostgreSQLServer, url: str, *roles: str) -> None:
    """Roles belong to the server, not to the database that a test had."""
    name = make_url(url).database
    with server.connect(str(name)) as connection:
        for role in roles:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                connection.execute(f"DROP OWNED BY {role}")  # type: ignore[arg-type, unused-ignore] # of our own
                connection.execute(f"DROP ROLE {role}")  # type: ignore[arg-type, unused-ignore] # of our own


TWO = "tachograph_grafana_two"
MINE = "tachograph_grafana_one"


@pytest.fixture
def url(postgresql_server: databases.PostgreSQLServer, postgresql_url: str) -> Iterator[str]:
    """A database in which two tenants have a run each."""
    database = Database(postgresql_url)
    for tenant_id, name in ((1, "mine"), (2, "theirs")):
        told: list[AnyEvent] = [
            RunStart(t=T0, run=name),
            Step(t=T0 + 60, run=name, step=1, dur=60.0),
            RunEnd(t=T0 + 61, run=name),
        ]
        stored_runs.store(database, told, run_id=tenant_id, tenant_id=tenant_id)
    database.close()
    yield postgresql_url
    dropped(postgresql_server, postgresql_url, MINE, TWO, "plain_owner", "plain_reader")


def command(url: str, folder: Path, *more: str, password: str = PASSWORD) -> Result:
    path = folder / "password"
    path.write_text(f"{password}\n")
    return CliRunner().invoke(cli, ["db", "grafana-role", "--database-url", url, "--password-file", str(path), *more])


def runs_seen(server: databases.PostgreSQLServer, url: str, user: str) -> list[str]:
    name = str(make_url(url).database)
    with psycopg.connect(host=str(server.folder), user=user, dbname=name) as connection:
        return [str(row[0]) for row in connection.execute("SELECT name FROM books ORDER BY name")]


def test_each_tenants_role_sees_its_own_runs(
    postgresql_server: databases.PostgreSQLServer, url: str, tmp_path: Path
) -> None:
    assert command(url, tmp_path, "--role", MINE).exit_code == 0
    assert command(url, tmp_path, "--role", TWO, "--tenant", "tenant 2").exit_code == 0
    assert runs_seen(postgresql_server, url, MINE) == ["mine"]
    assert runs_seen(postgresql_server, url, TWO) == ["theirs"]


def test_it_is_made_again_with_another_tenant_and_password_and_the_schema_is_still_ours(
    postgresql_server: databases.PostgreSQLServer, url: str, tmp_path: Path
) -> None:
    for _ in range(2):
        done = command(url, tmp_path, "--role", MINE)
        assert done.exit_code == 0, done.output
    assert "(1 changes)" in done.output
    assert command(url, tmp_path, "--role", MINE, "--tenant", "tenant 2", password="another").exit_code == 0
    assert runs_seen(postgresql_server, url, MINE) == ["theirs"]
    database = Database(url)
    assert differences(database) == []
    database.close()


def test_the_password_is_in_nothing_that_the_server_logs_or_the_command_says(
    postgresql_server: databases.PostgreSQLServer, url: str, tmp_path: Path
) -> None:
    name = make_url(url).database
    with postgresql_server.connect() as connection:
        connection.execute(f"ALTER DATABASE \"{name}\" SET log_statement = 'all'")  # type: ignore[arg-type, unused-ignore] # of our own
    done = command(url, tmp_path, "--role", MINE)
    assert PASSWORD not in done.output
    assert f"CREATE ROLE {MINE}" in postgresql_server.log
    assert PASSWORD not in postgresql_server.log
    with postgresql_server.connect() as connection:
        [stored] = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", [MINE]).fetchone() or [""]
    assert str(stored).startswith("SCRAM-SHA-256$")


def test_who_is_neither_owner_nor_grafana_sees_all_as_before(
    postgresql_server: databases.PostgreSQLServer, url: str, tmp_path: Path
) -> None:
    with postgresql_server.connect(str(make_url(url).database)) as connection:
        connection.execute("CREATE ROLE plain_reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO plain_reader")
    assert command(url, tmp_path, "--role", MINE).exit_code == 0
    assert runs_seen(postgresql_server, url, "plain_reader") == ["mine", "theirs"]


def test_the_tables_owner_needs_no_more_than_to_be_allowed_to_make_roles(
    postgresql_server: databases.PostgreSQLServer, url: str, tmp_path: Path
) -> None:
    name = str(make_url(url).database)
    with postgresql_server.connect(name) as connection:
        connection.execute("CREATE ROLE plain_owner LOGIN")
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            connection.execute(f'ALTER TABLE "{table}" OWNER TO plain_owner')  # type: ignore[arg-type, unused-ignore] # of our own
    as_owner = f"postgresql://plain_owner@/{name}?host={postgresql_server.folder}"
    refused = command(as_owner, tmp_path, "--role", MINE)
    assert refused.exit_code == 2
    assert "ALTER ROLE ... CREATEROLE" in refused.output
    with postgresql_server.connect(name) as connection:
        connection.execute("ALTER ROLE plain_owner CREATEROLE")
    for _ in range(2):
        done = command(as_owner, tmp_path, "--role", MINE)
        assert done.exit_code == 0, done.output
    assert runs_seen(postgresql_server, url, MINE) == ["mine"]
    assert runs_seen(postgresql_server, url, "plain_owner") == ["mine", "theirs"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--tenant", "nobody"], "there is no tenant 'nobody'; known are default, tenant 2"),
        (["--role", "grafana"], "role 'grafana': expected tachograph_grafana"),
        (["--role", "tachograph_grafana; DROP TABLE books"], "expected tachograph_grafana"),
        (["--role", "tachograph_grafana_" + "x" * 60], "expected tachograph_grafana"),
    ],
)
def test_what_it_cant_be_made_of_is_said(url: str, tmp_path: Path, more: list[str], told: str) -> None:
    done = command(url, tmp_path, *more)
    assert done.exit_code == 2
    assert told in done.output


def test_an_empty_password_is_refused(url: str, tmp_path: Path) -> None:
    done = command(url, tmp_path, "--role", MINE, password="")
    assert (done.exit_code, "an empty password" in done.output) == (2, True)


def test_a_role_that_may_more_than_read_is_not_taken(
    postgresql_server: databases.PostgreSQLServer, url: str, tmp_path: Path
) -> None:
    with postgresql_server.connect() as connection:
        connection.execute(f"CREATE ROLE {MINE} LOGIN BYPASSRLS")  # type: ignore[arg-type, unused-ignore] # of our own
    done = command(url, tmp_path, "--role", MINE)
    assert done.exit_code == 2
    assert "may more than read" in done.output


def test_sqlite_has_no_roles_and_the_way_out_is_named(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    with pytest.raises(StoreError, match="boards without the ledger"):
        make_role(database, "default", PASSWORD)
    database.close()
