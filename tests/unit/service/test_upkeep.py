"""Each job has its turn, whatever becomes of the others."""

from __future__ import annotations

import logging
import random

import pytest
from sqlalchemy import insert, select
from tachograph_collector.service.problems import later
from tachograph_collector.service.settings import load
from tachograph_collector.service.upkeep import Job, Upkeep, jobs_for, retention_of, say_alive, say_gone
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.prune import Retention
from tachograph_collector.store.schema import rejected, replicas


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_job_is_done_at_once_and_then_when_its_time_has_passed() -> None:
    clock, done = Clock(), []
    upkeep = Upkeep(
        [Job("a", 10.0, lambda: done.append("a")), Job("b", 100.0, lambda: done.append("b"))], clock, lambda: 0.5
    )
    assert upkeep.turn() == pytest.approx(10.0)
    assert done == ["a", "b"]
    clock.now_s += 9.9
    upkeep.turn()
    assert done == ["a", "b"]
    clock.now_s += 0.2
    upkeep.turn()
    assert done == ["a", "b", "a"]


def test_collectors_do_not_do_it_at_the_same_moment() -> None:
    early = Upkeep([Job("a", 10.0, lambda: None)], Clock(), lambda: 0.0).turn()
    late = Upkeep([Job("a", 10.0, lambda: None)], Clock(), lambda: 1.0).turn()
    assert (early, late) == (pytest.approx(8.0), pytest.approx(12.0))


def test_a_job_that_fails_holds_up_no_other_and_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tachograph"), "propagate", True)
    clock, done = Clock(), []
    away = True

    def fails() -> None:
        if away:
            raise StoreUnavailableError("the database is away")

    def broken() -> None:
        raise ZeroDivisionError

    upkeep = Upkeep([Job("a", 10.0, fails), Job("b", 10.0, broken), Job("c", 10.0, lambda: done.append("c"))], clock)
    with caplog.at_level(logging.INFO, "tachograph.service"):
        upkeep.turn()
        clock.now_s += 20
        upkeep.turn()
        away = False
        clock.now_s += 20
        upkeep.turn()
    assert done == ["c"] * 3
    said = [record.getMessage() for record in caplog.records]
    assert said.count("a could not be done: the database is away") == 1
    assert said.count("a is done again") == 1
    assert "a defect of Tachograph: b could not be done" in said


def test_the_thread_ends_when_told() -> None:
    ended = []
    upkeep = Upkeep([Job("a", 1000.0, lambda: None)], at_end=lambda: ended.append(1))
    upkeep.start()
    upkeep.stop(30.0)
    assert ended == [1]
    assert upkeep._thread is not None
    assert not upkeep._thread.is_alive()


def test_a_collector_is_listed_once_while_it_lives(database: Database) -> None:
    for replica in ("one", "two", "one"):
        say_alive(database, replica)

    def listed() -> list[str]:
        with database.read() as connection:
            return sorted(connection.execute(select(replicas.c.replica)).scalars())

    assert listed() == ["one", "two"]
    say_gone(database, "two")
    assert listed() == ["one"]


def test_what_is_kept_for_how_long_is_what_the_settings_say() -> None:
    settings = load({"keep_steps_s": "90d", "keep_batches_s": "8d"}, {})
    day_us = 86_400_000_000
    assert retention_of(settings) == Retention(
        steps_us=90 * day_us, batches_us=8 * day_us, rejected_us=30 * day_us, heartbeats_us=None, events_us=None
    )


def test_upkeep_of_a_collector_deletes_old_refused_lines_and_leaves_the_others(database: Database) -> None:
    day_us = 86_400_000_000
    line = {"tenant_id": 1, "batch_id": "b", "line_number": 1, "reason": "r", "line": b"x"}
    with database.write() as connection:
        now_us = database.now_us(connection)
        for number, age_us in enumerate((0, 29 * day_us, 31 * day_us)):
            connection.execute(insert(rejected).values(rejected_id=number, received_us=now_us - age_us, **line))
    Upkeep(jobs_for(load({}, {}), database)).turn()
    with database.read() as connection:
        assert sorted(connection.execute(select(rejected.c.rejected_id)).scalars()) == [0, 1]


def test_the_numbers_that_another_thread_has_seeded_stay_its_own() -> None:
    before = random.getstate()
    Upkeep([Job("a", 10.0, lambda: None)]).turn()
    later(503, "try again", 5.0)
    assert random.getstate() == before
