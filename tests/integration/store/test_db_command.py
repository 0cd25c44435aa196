"""``tachograph db`` on real databases: what it says, what it changes, and what it leaves alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import databases
import pytest
from click.testing import CliRunner
from sqlalchemy import select, update
from tachograph_agent.events import AttemptStart, Heartbeat, RunEnd, RunStart, Step
from tachograph_collector.cli.main import cli
from tachograph_collector.live import leases
from tachograph_collector.live.folder import RunFolder
from tachograph_collector.live.pace import SECOND, Pace
from tachograph_collector.store import schema
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.prune import DAY_US
from tachograph_collector.store.upgrade import newest, revision
from tachograph_collector.store.writer import Batch, store

T0 = 1_760_000_000.0


@dataclass
class Done:
    """How a command ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


def _db(*arguments: str) -> Done:
    result = CliRunner().invoke(cli, ["db", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def _folded_run(database: Database, name: str = "atlas") -> RunKey:
    """A finished run of ten minutes, stored and booked."""
    events = [
        RunStart(t=T0, run=name, gpus=8),
        AttemptStart(t=T0 + 10, run=name, attempt=0, resume_step=0),
        *(Step(t=T0 + 10 + 10 * step, run=name, attempt=0, rank=0, step=step, dur=10.0) for step in range(1, 60)),
        Heartbeat(t=T0 + 600, run=name, node="n1", interval_s=5.0),
        RunEnd(t=T0 + 601, run=name),
    ]
    (key,) = store(database, [Batch(1, name, None, None, events, [])]).touched
    with database.write() as connection:
        lease = leases.acquire(connection, key, "test", database.now_us(connection))
    assert lease is not None
    folder = RunFolder(database, lease, name, Pace())
    folder.open()
    while folder.turn().more:
        pass
    folder.save()
    with database.write() as connection:
        leases.release(connection, folder.lease, database.now_us(connection))
    return key


def _age(database: Database, key: RunKey, days: int) -> None:
    with database.write() as connection:
        at_us = database.now_us(connection) - days * DAY_US
        for table in (schema.events, schema.samples):
            connection.execute(update(table).where(table.c.run_id == key.run_id).values(received_us=at_us))
        connection.execute(update(schema.runs).values(first_received_us=at_us, last_received_us=at_us))
        connection.execute(update(schema.batches).values(received_us=at_us))


def test_an_empty_database_is_upgraded_and_then_checked(postgresql_server: databases.PostgreSQLServer) -> None:
    url = postgresql_server.new_database(migrated=False)
    before = _db("check", "--database-url", url)
    assert (before.returncode, before.stdout) == (2, "")
    assert "tachograph db upgrade" in before.stderr
    upgraded = _db("upgrade", "--database-url", url)
    assert (upgraded.returncode, upgraded.stderr) == (0, "")
    assert f"now at schema {newest()}" in upgraded.stdout
    again = _db("upgrade", "--database-url", url)
    assert f"already at schema {newest()}" in again.stdout
    checked = _db("check", "--database-url", url)
    assert (checked.returncode, checked.stderr) == (0, "")
    postgresql_server.drop_database(url)


def test_check_tells_a_table_that_somebody_changed(database: Database, database_url: str) -> None:
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE nodes ADD COLUMN shoe_size TEXT")
    found = _db("check", "--database-url", database_url)
    assert found.returncode == 2
    assert "shoe_size" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_newer_database_is_neither_upgraded_nor_pruned(database: Database, database_url: str) -> None:
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for command in ("upgrade", "check", "prune"):
        found = _db(command, "--database-url", database_url)
        assert found.returncode == 2
        assert "9999" in found.stderr
        assert "newer" in found.stderr
    assert revision(database) == "9999"


def test_a_database_that_is_away_has_an_exit_code_of_its_own_and_keeps_its_password(tmp_path: Path) -> None:
    found = _db("check", "--database-url", f"postgresql://tachograph:s3cret@/none?host={tmp_path}")
    assert found.returncode == 69
    assert "does not answer" in found.stderr
    assert "s3cret" not in found.stderr


def test_prune_takes_what_is_old_and_says_so(database: Database, database_url: str) -> None:
    key = _folded_run(database)
    assert "nothing was old enough" in _db("prune", "--database-url", database_url).stdout
    _age(database, key, 60)
    kept = ["--steps", "50d", "--heartbeats", "50d", "--batches", "forever"]
    pruned = _db("prune", "--database-url", database_url, *kept)
    assert (pruned.returncode, pruned.stderr) == (0, "")
    assert pruned.stdout == "pruned 1 pieces of steps, 1 pieces of heartbeats\n"
    with database.read() as connection:
        assert connection.execute(select(schema.samples.c.num)).all() == []
        assert len(connection.execute(select(schema.events.c.seq)).all()) == 3


def test_what_is_not_given_is_kept_as_the_collector_is_set(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    key = _folded_run(database)
    _age(database, key, 60)
    config = tmp_path / "collector.toml"
    config.write_text('keep_heartbeats = "50d"\nkeep_batches = "100d"\n', encoding="utf-8")
    pruned = _db("prune", "--database-url", database_url, "--config", str(config))
    assert (pruned.returncode, pruned.stderr) == (0, "")
    assert pruned.stdout == "pruned 1 pieces of heartbeats\n"


@pytest.mark.parametrize(("option", "value"), [("--steps", "2d"), ("--batches", "1h"), ("--events", "soon")])
def test_a_retention_that_can_not_be_is_refused(database_url: str, option: str, value: str) -> None:
    found = _db("prune", "--database-url", database_url, option, value)
    assert found.returncode == 2
    assert "expected" in found.stderr


def test_a_rebuilt_run_has_the_books_that_it_had(database: Database, database_url: str) -> None:
    key = _folded_run(database)
    rebuilt = _db("rebuild", "atlas", "--database-url", database_url)
    assert (rebuilt.returncode, rebuilt.stderr) == (0, "")
    assert "give the books that are stored" in rebuilt.stdout
    with database.write() as connection:
        mine = schema.minutes.c.run_id == key.run_id
        first_us = connection.execute(select(schema.minutes.c.start_us).where(mine)).scalars().first()
        wrong = {"kept_us": 0, "lost_us": 60_000_000, "checkpoint_us": 0, "restart_us": 0, "label": "lost"}
        connection.execute(update(schema.minutes).where(mine, schema.minutes.c.start_us == first_us).values(wrong))
    mended = _db("rebuild", "atlas", "--database-url", database_url)
    assert "1 revised" in mended.stdout
    assert "give the books that are stored" in _db("rebuild", "atlas", "--database-url", database_url).stdout


def test_a_run_that_is_frozen_only_as_it_is_rebuilt_has_the_books_that_it_had(
    database: Database, database_url: str
) -> None:
    key = _folded_run(database)
    with database.write() as connection:
        long_ago_us = database.now_us(connection) - 60 * SECOND
        for table in (schema.events, schema.samples):
            connection.execute(update(table).where(table.c.run_id == key.run_id).values(received_us=long_ago_us))
    frozen_us = select(schema.books.c.frozen_us).where(schema.books.c.run_id == key.run_id)
    with database.read() as connection:
        assert connection.execute(frozen_us).scalars().all() == [None]
    assert "give the books that are stored" in _db("rebuild", "atlas", "--database-url", database_url).stdout
    with database.read() as connection:
        assert None not in connection.execute(frozen_us).scalars().all()


def test_a_run_whose_steps_were_pruned_is_not_rebuilt_and_keeps_its_books(
    database: Database, database_url: str
) -> None:
    key = _folded_run(database)
    _age(database, key, 60)
    with database.read() as connection:
        before = connection.execute(select(schema.minutes)).all()
    _db("prune", "--database-url", database_url, "--steps", "50d", "--events", "50d")
    found = _db("rebuild", "atlas", "--database-url", database_url)
    assert found.returncode == 2
    assert "steps received before" in found.stderr
    assert "events received before" in found.stderr
    with database.read() as connection:
        assert connection.execute(select(schema.minutes)).all() == before
    assert before


def test_a_run_that_is_not_there_is_told(database_url: str) -> None:
    found = _db("rebuild", "nobody's", "--database-url", database_url)
    assert found.returncode == 2
    assert "there is no run" in found.stderr
