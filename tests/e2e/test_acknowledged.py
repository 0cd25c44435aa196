"""What a collector has acknowledged is on disk: nothing that dies in the next instant takes it away."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from collector_process import CollectorProcess, Starts
from databases import PostgreSQLServer
from tachograph_collector.store.database import Database

NUM_DEATHS = 6
T0 = float(int(time.time()) - 3600)
BATCHES_A_LIFE = 5


@pytest.fixture
def own_server() -> Iterator[PostgreSQLServer]:
    """A server that a test may kill."""
    server = PostgreSQLServer()
    server.start()
    yield server
    server.close()


def batch(number: int) -> list[dict[str, Any]]:
    """A batch with a lifecycle event and a few steps, all its own."""
    told = {"run": "lab/run", "attempt": "1", "node": "n1", "rank": 0}
    start = T0 + 10 * number
    steps = [
        {**told, "kind": "step", "t": start + each, "step": 10 * number + each + 1, "dur": 1.0} for each in range(5)
    ]
    return [{**told, "kind": "phase", "t": start + 6, "name": "eval", "dur": 1.0}, *steps]


def acknowledged_then_killed(collector: CollectorProcess, kill: Callable[[], None]) -> list[dict[str, Any]]:
    """Every event of every batch that was acknowledged, over several lives; ``kill`` comes right after an answer."""
    acknowledged: list[dict[str, Any]] = []
    numbers = itertools.count()
    for _ in range(NUM_DEATHS):
        for number in itertools.islice(numbers, BATCHES_A_LIFE):
            reply = collector.post_events(batch(number), Tachograph_Batch=f"b{number}")
            assert reply.status == 200, reply.body
            assert reply.json()["accepted"] == len(batch(number))
            acknowledged += batch(number)
        kill()
    return acknowledged


def stored(collector: CollectorProcess) -> list[str]:
    """Every event that the collector has of the run."""
    reply = collector.request("GET", "/v1/runs/lab%2Frun/events")
    assert reply.status == 200, reply.body
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in reply.body.splitlines())


def as_lines(events: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(event, sort_keys=True) for event in events)


def test_what_was_acknowledged_survives_kill_9_of_the_collector(start_collector: Starts, database_url: str) -> None:
    collector = start_collector(database_url)

    def kill() -> None:
        collector.kill()
        collector.start()

    acknowledged = acknowledged_then_killed(collector, kill)
    assert stored(collector) == as_lines(acknowledged)


def test_what_was_acknowledged_survives_kill_9_of_postgresql(
    start_collector: Starts, own_server: PostgreSQLServer
) -> None:
    collector = start_collector(own_server.new_database())

    def kill() -> None:
        own_server.stop(signal.SIGKILL)
        own_server.start()

    acknowledged = acknowledged_then_killed(collector, kill)
    assert stored(collector) == as_lines(acknowledged)


def test_a_commit_waits_for_the_disk_on_both_databases(database: Database) -> None:
    with database.write() as connection:
        if database.dialect == "sqlite":
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # FULL
        else:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
            assert connection.exec_driver_sql("SHOW fsync").scalar_one() == "on"
