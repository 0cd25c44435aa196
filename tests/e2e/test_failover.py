"""Two collectors over one PostgreSQL: one dies, and its runs go on at the other."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from collector_process import CollectorProcess, Starts
from sqlalchemy import func, select
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import leases

WITHIN_S = 60.0
RUNS = [f"lab/run {number}" for number in range(8)]


def steps(run: str, first: int, last: int) -> list[dict[str, Any]]:
    """Steps of a second each that end now, one after the other."""
    told = {"kind": "step", "run": run, "attempt": "1", "node": "n1", "rank": 0, "dur": 1.0}
    now = float(int(time.time()))
    return [{**told, "t": now - (last - number), "step": number} for number in range(first, last + 1)]


def step_of(collector: CollectorProcess, run: str) -> int | None:
    """The step that the run's books stand at."""
    reply = collector.request("GET", f"/v1/runs/{quote(run, safe='')}")
    return int(reply.json()["steps"]) if reply.status == 200 else None


def until_all_stand_at(collector: CollectorProcess, step: int) -> None:
    """Wait for every run's books."""
    give_up_at = time.monotonic() + WITHIN_S
    while stand := {run: told for run in RUNS if (told := step_of(collector, run)) != step}:
        assert time.monotonic() < give_up_at, f"not at step {step} within {WITHIN_S} s: {stand}"
        time.sleep(0.1)


def shown(collector: CollectorProcess) -> set[str]:
    """The runs whose figures a collector shows to Prometheus: those that it folds."""
    text = collector.request("GET", "/metrics").body.decode()
    return {run for run in RUNS if f'tachograph_run_last_step{{run="{run}"}}' in text}


def until_shows_all(collector: CollectorProcess) -> None:
    """Wait until the figures are prepared."""
    give_up_at = time.monotonic() + WITHIN_S
    while shown(collector) != set(RUNS):
        assert time.monotonic() < give_up_at, f"only {shown(collector)} are shown"
        time.sleep(0.1)


def test_the_runs_of_a_collector_that_is_killed_go_on_at_another(start_collector: Starts, postgresql_url: str) -> None:
    first = start_collector(postgresql_url)
    for run in RUNS:
        assert first.post_events(steps(run, 1, 10)).status == 200
    until_all_stand_at(first, 10)
    second = start_collector(postgresql_url)
    until_shows_all(first)
    assert shown(second) == set()

    first.kill()
    for run in RUNS:
        assert second.post_events(steps(run, 11, 12)).status == 200
    until_all_stand_at(second, 12)
    until_shows_all(second)


def test_the_runs_of_a_collector_that_is_stopped_go_on_at_another_at_once(
    start_collector: Starts, postgresql_url: str
) -> None:
    first = start_collector(postgresql_url)
    for run in RUNS:
        assert first.post_events(steps(run, 1, 10)).status == 200
    until_all_stand_at(first, 10)
    second = start_collector(postgresql_url)
    assert first.stop() == 0
    database = Database(postgresql_url)
    with database.read() as connection:
        held = select(func.count()).select_from(leases).where(leases.c.holder.is_not(None))
        assert connection.execute(held).scalar_one() == 0
    database.close()
    for run in RUNS:
        assert second.post_events(steps(run, 11, 12)).status == 200
    until_all_stand_at(second, 12)
