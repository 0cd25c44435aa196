"""Requests made up from the OpenAPI, good and bad ones, at a real collector that holds a run: none makes it fail.

What it answers is what the OpenAPI says; what is wrong is refused. The same requests each time.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
import schemathesis
from collector_process import CollectorProcess, Starts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, CheckContext, GenerationMode, Response, SerializationContext
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from stored_incidents import incident, put
from tachograph_collector.service.incident_examples import SENT_SILENCE
from tachograph_collector.store.database import Database
from tachograph_collector.store.watch_reader import run_key

AnyCase = Case[Any]

RECORDED = Path(__file__).parents[2] / "examples" / "recorded_run.jsonl"
RUN = "lab/<b>7'b #1"
INCIDENT = "4f1c2d0b7a9e8d6c"
SILENCE = "8c2b1a09f7e6d5c4"


def refusal_of_bad_data(context: CheckContext, answer: Response, case: AnyCase) -> bool | None:
    """Bad parameters and headers are refused. Bad lines of a body are, too, one by one: they are counted in a 200."""
    if case.operation.label == "POST /v1/events" and answer.status_code == 200:
        return None if answer.json()["accepted"] == 0 else True
    told = {name: (case.query or {}).get(name) for name in ("since", "until")}
    if any(isinstance(value, int) and abs(value) >= 10**10 for value in told.values()):
        return None  # seconds in twelve digits are a time, and more than every client can write
    return negative_data_rejection(context, answer, case)


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    refusal_of_bad_data,
]
EXAMPLES = 4
"""Of each route and each kind of request."""
TAKES_NOTHING = {
    "GET /healthz",
    "GET /readyz",
    "GET /v1/me",
    "GET /v1/sd",
    "GET /metrics",
    "GET /login",
    "POST /logout",
}
NEEDS_A_TOKEN = {"POST /login", "POST /logout"}
BOOKED_WITHIN_S = 60.0


@schemathesis.serializer("application/x-ndjson")
def lines_of(_context: SerializationContext, value: Any) -> bytes:
    """A body for a route that takes JSON lines."""
    return value.encode(errors="surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


@pytest.fixture
def busy(start_collector: Starts, database_url: str) -> CollectorProcess:
    """A collector that has booked a run of days, under a name that has to be encoded, and knows an incident."""
    collector = start_collector(database_url)
    lines = RECORDED.read_bytes().splitlines()
    events = [json.loads(line) | {"run": RUN} for line in lines]
    taken = collector.post_events(events, Tachograph_Origin="replay")
    assert taken.json()["accepted"] == len(lines), taken.body
    give_up_s = time.monotonic() + BOOKED_WITHIN_S
    while collector.request("GET", f"/v1/runs/{quote(RUN, safe='')}").status != 200:
        assert time.monotonic() < give_up_s, "the run was not booked"
    database = Database(database_url)
    with database.write() as connection:
        key = run_key(connection, 1, RUN)
        assert key is not None
        put(connection, key, incident(RUN, incident_id=INCIDENT, cleared_us=10**15), origin="replay")
    database.close()
    told = {"id": SILENCE, "run": "other", "for": "1d", "why": "the test's"}
    collector.request("POST", "/v1/silences", body=json.dumps(told).encode())
    return collector


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


def kinds(operation: APIOperation[Any, Any, Any, Any]) -> Iterator[tuple[GenerationMode, dict[str, Any]]]:
    """Good and bad requests; of a route below a run, about any name, and about the one there is."""
    takes_nothing = not operation.query and not operation.headers and not operation.path_parameters
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        if takes_nothing and mode == GenerationMode.NEGATIVE:
            continue
        yield mode, {}
        if "{run}" in operation.label:
            yield mode, {"path_parameters": {"run": RUN}, "query": {"run": RUN}}
        if operation.label == "POST /v1/silences" and mode == GenerationMode.POSITIVE:
            yield (
                mode,
                {"body": SENT_SILENCE},
            )  # no schema says that one of run, node ... and one of until, for is given
        if "{node}" in operation.label and mode == GenerationMode.POSITIVE:
            ever = {"origin": ["replay"], "since": "2000-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}
            yield mode, {"path_parameters": {"node": "node-05"}, "query": ever}
        for name, known in (("incident", INCIDENT), ("silence", SILENCE)):
            if f"{{{name}}}" in operation.label and mode == GenerationMode.POSITIVE:
                yield mode, {"path_parameters": {name: known}}


def ask_all(cases: SearchStrategy[AnyCase], session: requests.Session) -> set[int]:
    """Ask them, and look at each answer; which statuses there were."""
    statuses: set[int] = set()

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: AnyCase) -> None:
        answer = case.call(session=session, timeout=60)
        statuses.add(answer.status_code)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]
            assert answer.json()["status"] == answer.status_code
        case.validate_response(answer, checks=CHECKS)

    ask()
    return statuses


def test_no_request_makes_it_fail_and_answers_are_as_described(
    busy: CollectorProcess, session: requests.Session
) -> None:
    described = schemathesis.openapi.from_url(f"{busy.url}/openapi.json")
    statuses: dict[str, set[int]] = defaultdict(set)
    for found in described.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        for mode, told in kinds(operation):
            statuses[operation.label] |= ask_all(operation.as_strategy(generation_mode=mode, **told), session)
    assert len(statuses) >= 18
    for label, seen in statuses.items():
        assert {200, 201} & seen or label in NEEDS_A_TOKEN, label
        assert label in TAKES_NOTHING or any(400 <= status < 500 for status in seen), label
    assert busy.post_events([{"kind": "heartbeat", "t": time.time(), "run": "after"}]).status == 200
    assert not [line for line in busy.said if " error " in line.lower()], busy.said
