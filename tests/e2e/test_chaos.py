"""Agents, collectors, database and the network between them die at random; the books come out the same.

Seeded: ``TACHOGRAPH_CHAOS_SEED=7`` takes another seed, ``TACHOGRAPH_CHAOS=long`` ten times the faults (`make proof`).
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from chaos.recorded import NODES, RUN, Recording
from chaos.world import World
from databases import PostgreSQLServer
from tachograph_agent.events import canonical, decode, from_dict
from tachograph_collector.ledger import Ledger
from tachograph_collector.report.json_report import run_object
from tachograph_collector.report.model import RunReport

SEED = int(os.environ.get("TACHOGRAPH_CHAOS_SEED", "20261130"))
TIMES = 10 if os.environ.get("TACHOGRAPH_CHAOS") == "long" else 1
SETTLES_WITHIN_S = 150
_OF_THE_READING = frozenset({"clock", "format", "notes", "skips", "incomplete_minutes", "stored"})
"""What is told of the reading of a log; and what is known to be missing, which heartbeats decide."""


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    server = PostgreSQLServer() if request.param == "postgresql" else None
    if server is not None:
        server.start()
    made = World(tmp_path, server, NODES, SEED)
    try:
        yield made
    finally:
        made.close()
        if server is not None:
            server.close()


def get(port: int, path: str) -> Any:
    """What a collector answers; None while it can't."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
        return json.loads(body) if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def stored_events(port: int) -> list[dict[str, Any]] | None:
    """Every event that the collector has of the run; None while it can't be asked."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", f"/v1/runs/{quote(RUN, safe='')}/events")
        reply = connection.getresponse()
        body = reply.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return [json.loads(line) for line in body.splitlines()] if reply.status == 200 else None


def undisturbed(recording: Recording) -> dict[str, Any]:
    """The books of the recording, made by the ledger alone."""
    ledger = Ledger()
    ledger.add([decode(line.text) for line in recording.lines])
    return run_object(RunReport(ledger.books(RUN), ledger.details(RUN)))


def without_reading(told: dict[str, Any]) -> dict[str, Any]:
    """The books alone, as flat names."""
    flat = {name: value for name, value in told.items() if name not in {"details", "model", *_OF_THE_READING}}
    return flat | {name: value for name, value in told["details"].items() if name not in _OF_THE_READING}


def until_shipped(world: World) -> None:
    """Wait until the agents hold nothing of the ranks any more."""
    give_up_at = time.monotonic() + SETTLES_WITHIN_S
    while left := [path for node in world.nodes for path in node.unshipped()]:
        assert time.monotonic() < give_up_at, "\n".join([f"the agents still hold {left}", *world.logs()])
        time.sleep(0.2)


def until_equal(world: World, expected: dict[str, Any]) -> None:
    """Wait until every collector tells the expected books; fails with the difference."""
    give_up_at = time.monotonic() + SETTLES_WITHIN_S
    told: list[Any] = []
    while time.monotonic() < give_up_at:
        told = [get(port, f"/v1/runs/{quote(RUN, safe='')}") for port in world.ports]
        if all(each is not None and without_reading(each) == expected for each in told):
            return
        time.sleep(0.5)
    shown = [None if each is None else _difference(expected, without_reading(each)) for each in told]
    pytest.fail(f"after {SETTLES_WITHIN_S} s the books differ: {shown}\n" + "\n".join(world.logs()))


def _difference(expected: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    names = {**expected, **told}
    return {name: (expected.get(name), told.get(name)) for name in names if expected.get(name) != told.get(name)}


@pytest.mark.parametrize(("world", "num_faults"), [("postgresql", 150), ("sqlite", 60)], indirect=["world"])
def test_whatever_dies_however_often_the_books_and_the_stored_events_come_out_the_same(
    world: World, num_faults: int
) -> None:
    num_faults *= TIMES
    recording = Recording(SEED, start=float(int(time.time()) // 60 * 60 - 7200), num_attempts=6 * TIMES)
    world.start()
    lines = {node.name: recording.by_node()[node.name] for node in world.nodes}
    faults = world.faults()
    happened: Counter[str] = Counter()
    for number in range(num_faults):
        for node in world.nodes:
            mine = lines[node.name]
            share = len(mine) * number // num_faults, len(mine) * (number + 1) // num_faults
            for line in mine[share[0] : share[1]]:
                node.write(line)
        name = world.chance.choice(list(faults))
        faults[name]()
        happened[name] += 1
        world.revive()
        world.work()
    assert happened.total() == num_faults
    world.heal()
    until_shipped(world)
    until_equal(world, without_reading(undisturbed(recording)))
    stored = stored_events(world.ports[0])
    assert stored is not None
    kept = Counter(canonical(from_dict(each)) for each in stored)
    fed = Counter(canonical(decode(line.text)) for line in recording.lines)
    assert {event: kept[event] for event in fed} == dict(fed)
