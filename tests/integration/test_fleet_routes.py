"""The list of runs and the totals of the fleet, on both databases: they are the sums of the runs' books."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import stored_runs
from app_client import AppClient
from no_keeper import NoKeeper
from run_questions import pages, problem, recorded_run, short_run, told
from tachograph_agent.events import AnyEvent
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client


@pytest.fixture(scope="module")
def recorded() -> list[AnyEvent]:
    return recorded_run()


def test_runs_are_listed_by_what_is_asked(client: AppClient, database: Database) -> None:
    start = 1_772_323_200.0
    for number in range(7):
        name = f"{'eval' if number % 3 == 0 else 'Llama_'}{number}"
        origin = "replay" if number == 4 else "live"
        stored_runs.store(database, short_run(name, start + number * 86_400), run_id=number + 1, origin=origin)
    running = short_run("half%way", start + 10 * 86_400)[:60]
    stored_runs.store(database, running, run_id=99)

    def names(**asked: Any) -> list[str]:
        return [run["run"] for run in told(client.get("/v1/runs", params=asked))["runs"]]

    whole = ["half%way", "eval6", "Llama_5", "Llama_4", "eval3", "Llama_2", "Llama_1", "eval0"]
    assert names() == whole
    assert names(status="completed") == whole[1:]
    assert names(status=["running", "failed"]) == ["half%way"]
    assert names(origin="replay") == ["Llama_4"]
    assert names(name="eval*") == ["eval6", "eval3", "eval0"]
    assert names(name="EVAL*") == []
    assert names(name="Llama?5") == ["Llama_5"]
    assert names(name="*%*") == ["half%way"]
    assert names(name="*_*", since=start + 2 * 86_400 + 9000) == ["Llama_5", "Llama_4"]
    assert names(until=start + 86_400) == ["eval0"]
    assert names(since=start + 6 * 86_400 + 60, until=start + 6 * 86_400 + 61) == ["eval6"]
    assert [run["run"] for run in pages(client, "/v1/runs?limit=3", "runs")] == whole
    for wrong in ({"status": "done"}, {"origin": "mars"}, {"limit": 0}, {"limit": "many"}, {"limit": 10**30}):
        problem(client.get("/v1/runs", params=wrong), 422)


def test_the_fleet_is_the_sum_of_its_live_runs(client: AppClient, database: Database) -> None:
    start = 1_772_323_200.0
    a = stored_runs.store(database, short_run("a"), run_id=1)[0]
    b = stored_runs.store(database, short_run("b", start + 86_400, price=None), run_id=2)[0]
    stored_runs.store(database, short_run("c"), run_id=3, origin="replay")
    answer = told(client.get("/v1/fleet"))
    assert (answer["runs"], answer["origins"], answer["runs_without_price"]) == (2, ["live"], 1)
    assert answer["unknown_runs"] == ["b"]
    assert answer["wall_s"] == (a.books.wall_us + b.books.wall_us) / 1e6
    assert a.books.gpu is not None
    hours = a.books.gpu.held / 3.6e9
    assert answer["gpu_hours"]["held"] == pytest.approx(2 * hours)
    assert answer["gpu_goodput"] == pytest.approx(a.books.gpu.kept / a.books.gpu.held)
    assert answer["money"]["held"] == pytest.approx(2 * hours)
    assert answer["gpu_hours"]["lost"] == pytest.approx(2 * a.books.gpu.lost / 3.6e9)
    to_gpu = [row for row in answer["causes"] if row["account"] == "lost" and row["cause"] == "gpu"]
    assert sum(row["gpu_hours"] for row in to_gpu) == pytest.approx(answer["gpu_hours"]["lost"])
    back = [row for row in answer["causes"] if row["account"] == "restart" and row["cause"] == "gpu"]
    assert sum(row["wall_s"] for row in back) == 2 * sum(it.restart_us for it in a.details.interruptions) / 1e6
    assert sum(row["wall_s"] for row in answer["causes"]) == pytest.approx(answer["wall_s"])
    priced = told(client.get("/v1/fleet?price=10"))
    assert priced["money"]["held"] == pytest.approx((2 + 10) * hours)
    assert told(client.get("/v1/fleet?origin=replay&origin=live"))["runs"] == 3
    assert told(client.get("/v1/fleet?name=b"))["runs"] == 1


def test_windows_of_the_fleet_add_up_to_the_whole(
    client: AppClient, database: Database, recorded: list[AnyEvent]
) -> None:
    one = stored_runs.store(database, short_run("a"))[0]
    edges = [one.books.start_us / 1e6 - 100, one.books.start_us / 1e6 + 1234.567, one.books.end_us / 1e6 + 5]
    whole = told(client.get("/v1/fleet"))
    parts = [told(client.get("/v1/fleet", params={"since": a, "until": b})) for a, b in pairwise(edges)]
    for key in ("gpu_hours", "money", "accounts_s"):
        for account, amount in whole[key].items():
            assert sum(part[key][account] for part in parts) == pytest.approx(amount)
    assert told(client.get("/v1/fleet", params={"since": edges[2], "until": edges[2] + 1}))["runs"] == 0
    before = told(client.get("/v1/fleet", params={"until": edges[1], "since": edges[0]}))
    assert before["accounts_s"]["kept"] == pytest.approx(1234.567 - before["accounts_s"]["restart"])


def test_gpu_time_that_an_allocation_tells_is_the_books(
    client: AppClient, database: Database, recorded: list[AnyEvent]
) -> None:
    (one,) = stored_runs.store(database, recorded)
    gpu, answer = one.books.gpu, told(client.get("/v1/fleet"))
    assert gpu is not None
    for name in ("held", "kept", "lost", "restart", "checkpoint", "idle"):
        assert answer["gpu_hours"][name] == pytest.approx(getattr(gpu, name) / 3.6e9, abs=1e-6)
    by_cause = [row["gpu_hours"] for row in answer["causes"]]
    assert sum(by_cause) == pytest.approx(gpu.held / 3.6e9)
