"""Wrong questions to the query routes, on both databases: each is told what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stored_runs
from app_client import AppClient
from no_keeper import NoKeeper
from run_questions import at, problem, rows_of, short_run, told
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database

WRONG = (
    "since=tomorrow", "since=", "since=2026-13-01", "until=1e30", "until=99999999999999999999", "since=NaN",
    "since=2026-03-02&until=2026-03-01", "since=10&until=10", "since=0001-01-01T00:00:00%2B23:00", "limit=0",
    "limit=-1", "limit=1.5", "limit=100001", "cursor=%00", "cursor=abc", "cursor=WzFdWzFd", "cursor=WyJhIl0",
    "cursor=Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTld", "cursor=WzEsMl0", "sicne=10", "every=x&format=csv", "format=xml",
)  # fmt: skip


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client


def test_a_wrong_question_is_told_what_to_do(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run())
    for asked in WRONG:
        assert problem(client.get(at("llama", f"/minutes?{asked}")), 422), asked


def test_times_of_any_year_are_taken(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run("old", start=0.0), run_id=1)
    stored_runs.store(database, short_run("late", start=9_223_365_600.0), run_id=2)
    assert told(client.get(at("old", "/minutes?since=0001-01-01&until=9999-12-31T23:59:59")))["minutes"]
    assert told(client.get(at("late", "/minutes?since=2262-01-01T00:00:00.5Z")))["minutes"]
    assert told(client.get(at("late", "/steps?points=5")))["records"] == 220
    assert len(told(client.get("/v1/runs?since=1969-12-31T23:59:59Z"))["runs"]) == 2
    assert told(client.get("/v1/fleet?since=-62135596800&until=253402300799"))["runs"] == 2
    assert rows_of(client.get(at("late", "/minutes?format=parquet")))


def test_a_misspelt_parameter_is_not_passed_over(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run())
    detail = problem(client.get(at("llama", "/gate?min_goodput=0.5&untill=5")), 422)
    assert "untill" in detail
    assert "min_goodput" in detail
    assert "leave one out" in problem(client.get(at("llama", "/minutes?run=other")), 422)
