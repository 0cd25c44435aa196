"""The keeper as it runs in a collector: in a thread of its own, over a database that may be away for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from ledger_oracle.build import T0_US, Log
from live_world import SECOND, TENANT, World
from sqlalchemy import Connection, select
from tachograph_collector.live.keeper import Keeper
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.folded_reader import read_books
from tachograph_collector.store.schema import leases, replicas
from tachograph_collector.store.writer import Batch, store


def trained(minutes: int = 3) -> Log:
    return Log("r").start(0).up(0, resume=0).steps(0, 1, 30 * minutes)


def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait until something holds."""
    give_up_at = time.monotonic() + within_s
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < give_up_at, "it never came about"
        pause.wait(0.02)


def test_keeper_in_its_thread_books_what_comes_and_lets_go_when_it_stops(database: Database) -> None:
    keeper = Keeper(database, "one")
    keeper.start()
    try:
        stored = store(database, [Batch(TENANT, "b", None, "replay", trained().end(180).events, [])])
        keeper.wake(stored.touched)
        until(lambda: keeper.snapshot().counters.minutes_booked == 3)
        with database.read() as connection:
            assert connection.execute(select(replicas.c.replica)).scalars().all() == [keeper.holder]
    finally:
        keeper.stop()
    with database.read() as connection:
        assert read_books(connection, TENANT, "r") is not None
        assert connection.execute(select(leases.c.holder)).scalars().all() == [None]
        assert connection.execute(select(replicas.c.replica)).scalars().all() == []
    keeper.stop()  # a second time does nothing


def test_what_another_collector_took_in_is_found_without_being_woken(database: Database) -> None:
    keeper = Keeper(database, "one")
    keeper.start()
    try:
        store(database, [Batch(TENANT, "b", None, "replay", trained().end(180).events, [])])
        until(lambda: keeper.snapshot().counters.minutes_booked == 3)
    finally:
        keeper.stop()


class Outage:
    """Makes every transaction that writes fail, at its end, from the ``first``-th on, for ``num`` of them."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write = database.write
        self.num_before = self.num = 0
        monkeypatch.setattr(database, "write", self.write)

    def begin(self, first: int, num: int) -> None:
        self.num_before, self.num = first, num

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._write() as connection:
            yield connection
            if self.num and not self.num_before:
                self.num -= 1
                raise StoreUnavailableError("the database went away")
            self.num_before = max(0, self.num_before - 1)


@pytest.mark.parametrize("first", range(4))
def test_commit_that_fails_leaves_no_trace_and_is_made_up_for(
    world: World, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    outage = Outage(world.database, monkeypatch)
    for minute in range(4):
        log = Log("r") if minute else Log("r").start(0).up(0, resume=0)
        world.at(T0_US + (minute + 1) * 60 * SECOND + SECOND)
        world.receive(log.steps(60 * minute, 30 * minute + 1, 30 * minute + 30).events)
        if minute == 2:
            outage.begin(first, 1)
        for _ in range(12):
            with suppress(StoreUnavailableError):
                world.settle()
            world.at(world.clock.now_us + SECOND)
        assert outage.num == 0
    world.take_over()
    world.check("r")
    assert world.revisions("r") == []


def test_keeper_outlives_a_database_that_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    outage = Outage(world.database, monkeypatch)
    keeper = world.keepers[0]
    world.receive(trained().end(180).events, origin="replay")
    outage.begin(0, 1)
    keeper.start()
    try:
        until(lambda: keeper.snapshot().counters.database_errors == 1)
        world.at(world.clock.now_us + 3600 * SECOND)
        until(lambda: keeper.snapshot().counters.minutes_booked == 3)
    finally:
        keeper.stop()
    world.check("r", live=False)


def test_a_run_with_news_does_not_wait_for_all_that_are_only_looked_at(world: World) -> None:
    """A thousand runs that nothing came of any more kept the books of all others half a minute behind."""
    [keeper] = world.keepers
    for number in range(12):
        start = Log(f"quiet-{number:02}").start(0).up(0, resume=0).steps(0, 1, 30)
        world.receive(start.events)
    world.settle()
    world.at(world.clock.now_us + 10 * SECOND)
    world.settle()
    world.at(world.clock.now_us + 20 * SECOND)  # all are due for a look
    before = keeper.snapshot().counters.folds
    told: list[str] = []
    keeper.watchers.append(lambda fold: told.append(fold.name))
    keeper._monotonic_us = _ticking(keeper._monotonic_us, 100_000)
    world.receive(Log("quiet-11").steps(60, 31, 32).events)
    keeper.wake([world.run("quiet-11")])

    keeper.round()

    assert told[0] == "quiet-11"
    assert 1 <= keeper.snapshot().counters.folds - before < 12
    for _ in range(40):
        keeper.round()
    assert keeper.snapshot().counters.folds - before >= 12, "the others had no turn"


def _ticking(clock: Callable[[], int], step_us: int) -> Callable[[], int]:
    """A clock that goes on whenever it is looked at, as it does where each thing takes long."""
    looks = iter(range(1, 1_000_000))
    return lambda: clock() + next(looks) * step_us
