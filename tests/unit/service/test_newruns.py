"""A tenant that invents run names is slowed down; nobody else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert
from tachograph_collector.service.newruns import NewRuns
from tachograph_collector.service.problems import Problem
from tachograph_collector.store import schema
from tachograph_collector.store.database import Database
from tachograph_collector.store.metadata import metadata


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    metadata.create_all(database.engine)
    yield database
    database.close()


def status_of(work: Callable[[], object]) -> int:
    with pytest.raises(Problem) as raised:
        work()
    return raised.value.status


def test_names_beyond_the_allowance_are_told_to_wait_and_taken_later(empty: Database) -> None:
    now_s = 0.0
    runs = NewRuns(empty, 60, clock=lambda: now_s)
    runs.admit(1, [f"a{number}" for number in range(60)])
    with pytest.raises(Problem) as raised:
        runs.admit(1, ["b"])
    assert raised.value.status == 429
    assert 1 <= int(raised.value.headers["Retry-After"]) <= 2
    now_s = 1.0
    runs.admit(1, ["b"])
    assert status_of(lambda: runs.admit(1, ["c"])) == 429


def test_another_tenant_is_not_held_up(empty: Database) -> None:
    runs = NewRuns(empty, 2, clock=lambda: 0.0)
    runs.admit(1, ["a", "b"])
    assert status_of(lambda: runs.admit(1, ["c"])) == 429
    runs.admit(2, ["a", "b"])


def test_a_body_with_more_new_names_than_a_minutes_is_to_be_sent_in_smaller_ones(empty: Database) -> None:
    runs = NewRuns(empty, 2, clock=lambda: 0.0)
    assert status_of(lambda: runs.admit(1, ["a", "b", "c"])) == 413


def test_runs_that_are_stored_or_were_seen_cost_nothing(empty: Database) -> None:
    values = {"tenant_id": 1, "first_received_us": 0, "last_received_us": 0, "last_seq": 0}
    with empty.write() as connection:
        for number in range(5):
            connection.execute(insert(schema.runs).values(run_id=number, name=f"old{number}", **values))
    runs = NewRuns(empty, 1, clock=lambda: 0.0)
    runs.admit(1, [f"old{number}" for number in range(5)] + ["new"])
    assert runs.unknown(1, ["old1", "new", "newer"]) == ["newer"]
    assert runs.unknown(2, ["old1"]) == ["old1"]
