"""Events with broken, giant and odd values among good ones, at the whole application, with its ledgers.

Whatever they say: no answer is a 5xx, the good events beside them are stored, and what is asked is answered.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from asgi_client import InProcess
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from no_keeper import NoKeeper
from tachograph_collector.live.folder import RunRefusedError
from tachograph_collector.live.rebuild import rebuild
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.runs import find_run

RECORDED = Path(__file__).parents[2] / "examples" / "recorded_run.jsonl"
LINES = {"Content-Type": "application/x-ndjson"}
NOW = float(round(time.time()))
EVENTS: list[dict[str, Any]] = [json.loads(line) for line in RECORDED.read_bytes().splitlines()]
SHIFT_S = NOW - 60 - EVENTS[-1]["t"]
NAN, INFINITY = float("nan"), float("inf")
HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**40, "", "0", "1e5", "nan",
    "\0", "\ud800", "a" * 10_000, "é\u202e", "<b>", "'; drop table runs;--", "../..", [], {}, [[1]], {"a": {"b": [1]}},
    NAN, INFINITY, -INFINITY, NOW, NOW - 1e9, NOW + 80_000, 9_223_372_036.0, -5.0, 1e12, "2026-01-01",
)  # fmt: skip
FIELDS = sorted(
    {name for event in EVENTS for name in event}
    | {
        "count",
        "busy",
        "rank",
        "wait",
        "loss",
        "tokens",
        "grad_norm",
        "stage",
        "interval_s",
        "seq",
        "mode",
        "tier",
        "bytes",
        "category",
        "labels",
    }
)
KINDS = sorted({event["kind"] for event in EVENTS})


def hostile(chance: random.Random, run: str) -> bytes:
    """A line of a recorded run with some of its values broken, or cut, or with bytes of another line."""
    kind = chance.choice(KINDS)
    event = dict(chance.choice([each for each in EVENTS if each["kind"] == kind])) | {"run": run}
    event["t"] += SHIFT_S
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        name = chance.choice(FIELDS if chance.random() < 0.4 else sorted(event))
        if name != "run" or chance.random() < 0.2:
            event[name] = chance.choice(HOSTILE)
    line = json.dumps(event).encode()
    how = chance.random()
    if how < 0.05:
        return line[: chance.randrange(len(line))]
    if how < 0.1:
        place = chance.randrange(len(line))
        return line[:place] + bytes(chance.choices([0, 0x0D, 0x22, 0x7D, 0x80, 0xC3, 0xED, 0xFF], k=3)) + line[place:]
    return line


def good(step: int) -> bytes:
    return b'{"kind":"step","t":%d,"run":"good","step":%d}' % (NOW, step)


@pytest.fixture
def client(database: Database) -> Iterator[InProcess]:
    with InProcess(create_app(Settings(), database, NoKeeper())) as made:
        yield made


def stored_steps(client: InProcess) -> set[int]:
    answer = client.request("GET", "/v1/runs/good/events?limit=100000")
    return {json.loads(line)["step"] for line in answer.body.splitlines()}


@given(seed=st.integers(0, 2**32), num=st.integers(1, 12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_good_events_are_stored_whatever_is_beside_them(client: InProcess, seed: int, num: int) -> None:
    chance = random.Random(seed)
    steps = [chance.randrange(1 << 40) for _ in range(3)]
    lines = [good(step) for step in steps] + [hostile(chance, "bad") for _ in range(num)]
    chance.shuffle(lines)
    answer = client.request("POST", "/v1/events", [b"\n".join(lines)], LINES)
    assert answer.status == 200, answer.body
    told = answer.json()
    assert told["duplicate"] or told["accepted"] >= 3
    assert set(steps) <= stored_steps(client)


ROUTES = (
    "", "?judge=true", "/model", "/gate?min_goodput=0.5", "/minutes?every=1d&limit=100", "/minutes?format=parquet",
    "/revisions", "/attempts", "/attempts?format=parquet", "/restarts?format=csv", "/checkpoints?format=arrow",
    "/segments?limit=100", "/incidents", "/nodes", "/steps", "/steps?rank=0&format=parquet", "/events?limit=1000",
)  # fmt: skip
TINY_PLAN = [
    {"kind": "run.start", "t": NOW - 9000, "planned_mtbf_s": 5e-324, "world_size": 1},
    *({"kind": "step", "t": NOW - 9000 + 60 * step, "step": step, "count": 2**63 - 1} for step in range(1, 50)),
    {"kind": "failure", "t": NOW - 5000, "category": "gpu"},
]


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


@given(seed=st.integers(0, 2**32))
@example(seed=-1).via("a plan that no float's inverse holds, and more steps than an integer does")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_of_broken_values_is_booked_or_refused_and_every_question_about_it_is_answered(
    client: InProcess, database: Database, seed: int
) -> None:
    chance, name = random.Random(seed), f"run-{seed}"
    lines = [hostile(chance, name) for _ in range(60)]
    if seed == -1:
        lines = [json.dumps(event | {"run": name}).encode() for event in TINY_PLAN]
    assert client.request("POST", "/v1/events", [b"\n".join(lines)], LINES).status == 200
    with database.read() as connection:
        run = find_run(connection, 1, name)
    if run is not None:
        with suppress(RunRefusedError):  # as the keeper does, which sets such a run aside and says why
            rebuild(database, run.key)
    for route in ROUTES:
        answer = client.request("GET", f"/v1/runs/{name}{route}")
        assert answer.status in {200, 404, 409, 422}, (route, answer.body)
        if answer.headers["content-type"] in {"application/json", "application/problem+json"}:
            json.loads(answer.body, parse_constant=refuse_constant)
    for route in ("/v1/runs", "/v1/fleet", "/v1/fleet?format=csv", "/v1/rejected"):
        assert client.request("GET", route).status == 200, route
