"""The forms of an answer, on both databases: JSON, CSV, Parquet and Arrow; nothing where a client has it already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stored_runs
from app_client import AppClient
from no_keeper import NoKeeper
from run_questions import at, problem, recorded_run, rows_of, short_run, told
from tachograph_agent.events import AnyEvent
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database

TABLES = (
    "minutes", "minutes?every=1h", "revisions", "attempts", "restarts", "checkpoints", "segments", "incidents", "nodes",
    "sights", "steps?points=20",
)  # fmt: skip


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client


@pytest.fixture(scope="module")
def recorded() -> list[AnyEvent]:
    return recorded_run()


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_every_table_comes_in_every_form(
    client: AppClient, database: Database, recorded: list[AnyEvent], form: str
) -> None:
    (one,) = stored_runs.store(database, recorded)
    media_types = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
    accept = {"Accept": media_types.get(form, "application/vnd.apache.arrow.stream")}
    urls = [(at(one.books.run, f"/{table}"), table.partition("?")[0]) for table in TABLES]
    for url, name in [*urls, ("/v1/runs", "runs"), ("/v1/fleet", "causes")]:
        expected = told(client.get(url))[name]
        for rows in (
            rows_of(client.get(url, headers=accept)),
            rows_of(client.get(f"{url}{'&' if '?' in url else '?'}format={form}")),
        ):
            assert len(rows) == len(expected), url
            if rows and "kept_s" in rows[0]:
                assert [float(row["kept_s"]) for row in rows] == [row["kept_s"] for row in expected]


def test_instants_are_timestamps_in_files_and_unknown_is_empty(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run())
    url = at("llama", "/attempts")
    start = told(client.get(url))["attempts"][0]["start"]
    assert rows_of(client.get(f"{url}?format=csv"))[0]["start"] == "2026-03-01T00:00:00Z"
    assert rows_of(client.get(f"{url}?format=arrow"))[0]["start"].timestamp() == start
    assert rows_of(client.get(f"{url}?format=csv"))[0]["told_resume_step"] == ""
    assert rows_of(client.get(f"{url}?format=parquet"))[0]["told_resume_step"] is None
    restart = rows_of(client.get(at("llama", "/restarts?format=parquet")))[0]
    assert sum(restart[key] for key in restart if key.endswith("_s") and key not in {"cost_s", "lost_s", "restart_s"})


def test_a_spreadsheet_runs_nothing_of_a_csv(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run("=1+1"))
    assert rows_of(client.get("/v1/runs?format=csv"))[0]["run"] == "'=1+1"


def test_the_best_form_that_is_accepted_is_taken(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run())

    def got(accept: str) -> str:
        response = client.get(at("llama", "/attempts"), headers={"Accept": accept})
        return str(response.headers["content-type"]).partition(";")[0]

    assert got("*/*") == "application/json"
    assert got("text/html, text/*;q=0.5, */*;q=0.1") == "text/csv"
    assert got("text/csv;q=0.4, application/json;q=0.6") == "application/json"
    assert got("application/*;q=0.1, application/vnd.apache.parquet") == "application/vnd.apache.parquet"
    assert got("text/csv;q=0, */*;q=0.2") == "application/json"
    assert got(",;q=x,,") == "application/problem+json"
    detail = problem(client.get(at("llama", "/attempts"), headers={"Accept": "text/html"}), 406)
    assert "application/vnd.apache.parquet" in detail
    problem(client.get(at("llama", "/attempts?format=xml")), 422)


def test_what_a_client_has_is_not_sent_again_until_it_changes(client: AppClient, database: Database) -> None:
    events = short_run()
    one = stored_runs.store(database, events)[0]
    with database.write() as connection:
        run = stored_runs.RunKey(1, 7)
    urls = [at("llama"), at("llama", "/model"), *(at("llama", f"/{table}") for table in TABLES)]
    for url in [*urls, "/v1/runs", "/v1/fleet"]:
        first = client.get(url)
        assert first.status_code == 200
        again = client.get(url, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert client.get(url, headers={"If-None-Match": 'W/"other"'}).status_code == 200
    tags = {url: client.get(url).headers["etag"] for url in urls[:5]}
    as_csv = client.get(
        at("llama", "/minutes"), headers={"Accept": "text/csv", "If-None-Match": tags[at("llama", "/minutes")]}
    )
    assert as_csv.status_code == 200
    assert "Accept" in as_csv.headers["vary"]
    with database.write() as connection:
        stored_runs.write(connection, run, "llama", one, version=2)
    for url, tag in tags.items():
        assert client.get(url, headers={"If-None-Match": tag}).status_code == 200
