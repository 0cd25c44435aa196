"""A ledger for Grafana's boards: a long run with failures, what was flagged of it, its nodes; and another tenant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import databases
import grafana_macros
import live_runs
import psycopg
import pytest
import stored_incidents
import stored_runs
from page_world import events
from sqlalchemy import insert
from sqlalchemy.engine import make_url
from tachograph_agent.events import AnyEvent, decode
from tachograph_collector.detect import Evidence
from tachograph_collector.store.database import Database
from tachograph_collector.store.grafana_role import ROLE, make_role
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import nodes, tenants

SECOND = 1_000_000
RUN = "atlas-7b-pretrain"
AGAIN = "again"
"""A name that two runs had."""
THEIRS = "someone-elses-run"
NODE = "node-05"
RECORDED = Path(__file__).parents[1] / "examples" / "recorded_run.jsonl"
VARIABLES = {"run": RUN, "node": NODE, "origin": "live", "target": "0.9", "page": "http://localhost:8420"}


@dataclass
class World:
    """The database, as its owner and as Grafana see it."""

    url: str
    database: Database
    asked: grafana_macros.Asked

    def as_grafana(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection with the rights that Grafana has."""
        told = make_url(self.url)
        return psycopg.connect(host=str(told.query["host"]), user=ROLE, dbname=told.database, autocommit=True)


@pytest.fixture(scope="module")
def world(postgresql_server: databases.PostgreSQLServer) -> Iterator[World]:
    """Filled once a module; nobody may change what is in it."""
    url = postgresql_server.new_database()
    database = Database(url)
    make_role(database, "default", "secret of Grafana")
    yield World(url, database, _fill(database))
    database.close()
    postgresql_server.drop_database(url)


def _twice(t: float) -> list[AnyEvent]:
    """A run of ten minutes that ends, and another of its name, of twenty."""
    told = []
    for begin, minutes in ((t, 10), (t + 3600, 20)):
        told.append({"kind": "run.start", "t": begin, "run": AGAIN})
        told += [
            {"kind": "step", "t": begin + 60 * step, "run": AGAIN, "step": step, "dur": 60.0}
            for step in range(1, minutes + 1)
        ]
        told.append({"kind": "run.end", "t": begin + 60 * minutes, "run": AGAIN})
    return events(told)


def _fill(database: Database) -> grafana_macros.Asked:
    told = [decode(line) for line in RECORDED.read_bytes().splitlines()]
    told = [event for event in told if event.kind not in {"run.end", "allocation.end"}]  # it still runs
    begin_us, end_us = (round(event.t * SECOND) for event in (told[0], told[-1]))
    stored_runs.store(database, told, run_id=1, now_us=end_us)
    stored_runs.store(database, _twice(told[0].t + 3600), run_id=3, now_us=end_us)
    with database.write() as connection:
        connection.execute(insert(tenants).values(tenant_id=2, name="others"))
    theirs = events(live_runs.run_with_a_failure(THEIRS, ago_s=3600))
    stored_runs.store(database, theirs, run_id=2, tenant_id=2)
    evidence = Evidence(value=1.3, baseline=1.0, threshold=1.1, num_samples=50, unit="s", more={"stage": 2})
    with database.write() as connection:
        for detector, severity, hour in (("straggler", "warning", 2), ("xid", "critical", 3), ("hang", "critical", 4)):
            one = stored_incidents.incident(
                RUN, detector, "rank 7" if detector == "straggler" else NODE, severity=severity, node=NODE,
                evidence=evidence, opened_us=begin_us + hour * 3600 * SECOND,
            )  # fmt: skip
            stored_incidents.put(connection, RunKey(1, 1), one)
        hidden = stored_incidents.incident(THEIRS, "hang", "run", node=NODE, opened_us=begin_us + 3600 * SECOND)
        stored_incidents.put(connection, RunKey(2, 2), hidden)
        for tenant_id, run_id in ((1, 1), (2, 2)):
            connection.execute(
                insert(nodes).values(
                    tenant_id=tenant_id, run_id=run_id, node=NODE, first_heard_us=begin_us, last_heard_us=end_us,
                    state="alive", state_since_us=begin_us, step=3, ranks_alive=8, queue_bytes=0, dropped=0,
                    clock_offset_s=0.01, agent_version="0.1.0",
                )
            )  # fmt: skip
    return grafana_macros.Asked(begin_us // SECOND - 60, end_us // SECOND + 60, VARIABLES)
