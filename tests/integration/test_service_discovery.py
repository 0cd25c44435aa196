"""``/v1/sd``: from a heartbeat to what Prometheus' HTTP discovery reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from app_client import AppClient
from live_runs import Folding, put
from no_keeper import NoKeeper
from sqlalchemy import update
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import nodes


def beat(run: str, node: str, address: object) -> list[dict[str, Any]]:
    now = round(time.time(), 3)
    return [
        {"kind": "run.start", "t": now - 60, "run": run},
        {"kind": "attempt.start", "t": now - 60, "run": run, "attempt": 0},
        {"kind": "heartbeat", "t": now, "run": run, "attempt": 0, "node": node, "interval_s": 5.0}
        | ({} if address is None else {"metrics_address": address}),
    ]


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(database_url=str(database)), database, NoKeeper())) as found:
        yield found


def test_agents_are_listed_once_with_their_node_and_runs(client: AppClient, database: Database) -> None:
    put(database, beat("b", "n1", "10.0.0.1:9464"))
    put(database, beat("a", "n1", "10.0.0.1:9464"))
    put(database, beat("a", "n2", "[fd00::2]:9464"))
    put(database, beat("a", "n3", None))
    put(database, beat("replayed", "n4", "10.0.0.4:9464"), origin="replay")
    put(database, beat("theirs", "n5", "10.0.0.5:9464"), tenant_id=2)
    Folding(database).fold()
    answer = client.get("/v1/sd")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == [
        {
            "targets": ["10.0.0.1:9464"],
            "labels": {"__meta_tachograph_node": "n1", "__meta_tachograph_runs": ",a,b,"},
        },
        {
            "targets": ["[fd00::2]:9464"],
            "labels": {"__meta_tachograph_node": "n2", "__meta_tachograph_runs": ",a,"},
        },
    ]


def test_who_is_silent_for_long_is_left_out(client: AppClient, database: Database) -> None:
    put(database, beat("a", "n1", "10.0.0.1:9464"))
    Folding(database).fold()
    with database.write() as connection:
        connection.execute(update(nodes).values(last_heard_us=nodes.c.last_heard_us - 11 * 60_000_000))
    assert client.get("/v1/sd").json() == []


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "10.0.0.1:0", "10.0.0.1:70000", "http://10.0.0.1:80/x", "a b:1", "x@y:1", "../:1", ":9464", "\n:1", 7],
)
def test_what_is_no_address_goes_nowhere(sqlite_url: str, address: object) -> None:
    database = Database(sqlite_url)
    put(database, beat("a", "n1", address))
    Folding(database).fold()
    with AppClient(create_app(Settings(database_url=sqlite_url), database, NoKeeper())) as client:
        assert client.get("/v1/sd").json() == []
    database.close()
