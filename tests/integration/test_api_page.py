"""docs/api.md: what it says to type is answered as it says, and no route is missing from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stored_runs
from app_client import AppClient
from no_keeper import NoKeeper
from tachograph_agent.events import decode
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "api.md").read_text()
BLOCKS = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
ADDRESS = re.compile(r"'http://127\.0\.0\.1:8420(/[^']*)'")
OF_THE_MOMENT = {"as_of", "version", "first_booked_at", "next"}


@pytest.fixture
def client(sqlite_url: str) -> Iterator[AppClient]:
    """A collector that has the recorded run, as the page says."""
    database = Database(sqlite_url)
    events = [decode(line) for line in (REPOSITORY / "examples" / "recorded_run.jsonl").read_bytes().splitlines()]
    stored_runs.store(database, events, origin="replay")
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client
    database.close()


def facts(value: Any) -> Iterator[Any]:
    """Every number and text in a JSON value that isn't of the moment."""
    if isinstance(value, dict):
        for name, below in value.items():
            if name not in OF_THE_MOMENT:
                yield from facts(below)
    elif isinstance(value, list):
        for below in value:
            yield from facts(below)
    else:
        yield value


def values(text: str) -> Iterator[Any]:
    """The JSON values of a block, one behind the other."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text.rstrip()):
        value, place = decoder.raw_decode(text, place)
        yield value
        place += len(text[place:]) - len(text[place:].lstrip())


def test_what_the_page_shows_is_what_is_answered(client: AppClient) -> None:
    num_checked, answer = 0, ""
    for kind, text in BLOCKS.findall(PAGE):
        if kind == "sh":
            for path in ADDRESS.findall(text):
                accept = {"Accept": "text/csv"} if "text/csv" in text else {}
                response = client.get(path, headers=accept)
                assert response.status_code == 200, (path, response.text)
                answer = response.text
        elif kind == "json":
            told = list(facts(json.loads(answer)))
            shown = [fact for value in values(text) for fact in facts(value)]
            assert shown
            assert [fact for fact in shown if fact not in told] == []
            num_checked += 1
        elif kind == "text":
            columns = text.splitlines()[0].split(",")
            expected = [",".join(line.split(",")[: len(columns)]) for line in answer.splitlines()]
            assert text.splitlines() == expected
            num_checked += 1
    assert num_checked > 4


def test_the_page_names_every_route_that_answers_questions(client: AppClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    asked = [
        path for path, ways in paths.items() if {"runs", "rows", "fleet"} & set(ways.get("get", {}).get("tags", ()))
    ]
    assert len(asked) > 12
    for path in asked:
        part = path.removeprefix("/v1/runs/{run}") or "/v1/runs/"
        assert part in PAGE, path


def test_every_route_has_an_example_and_its_problems(client: AppClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path, ways in paths.items():
        told = ways.get("get", {})
        if {"runs", "rows", "fleet"} & set(told.get("tags", ())):
            assert told["responses"]["200"]["content"], path
            assert all("example" in form or form.get("schema") for form in told["responses"]["200"]["content"].values())
            assert {"401", "403", "422", "503"} <= told["responses"].keys(), path
