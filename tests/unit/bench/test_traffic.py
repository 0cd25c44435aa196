"""The load generator sends what agents send: whole events, each step once, in time, and nothing that is refused."""

from __future__ import annotations

import gzip
import sys
import time
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent.events import Heartbeat, Step
from tachograph_collector.service import decode

PLACE = Path(__file__).parents[3] / "bench" / "traffic.py"
START_UNIX_SECONDS = 1_893_456_000.0


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("bench_traffic", PLACE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_traffic", module)  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def events(requests: list[Any], bounds: decode.Bounds) -> list[Any]:
    found: list[Any] = []
    for request in requests:
        head, _, body = request.data.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        decoded = decode.decode_body(gzip.decompress(body), bounds)
        assert decoded.num_rejected == 0
        assert sum(isinstance(event, Step) for event in decoded.events) == request.num_steps
        found += decoded.events
    return found


def test_a_paced_run_tells_every_step_of_every_rank_once_and_after_it_was_done(traffic: Any) -> None:
    pace = traffic.Pace(num_nodes=3, seconds=42.0, saves_at_s=(20.0,))
    requests = traffic.paced(pace, START_UNIX_SECONDS)
    bounds = decode.bounds_for("live", START_UNIX_SECONDS)
    told = events(requests, bounds)
    steps = Counter((event.rank, event.step) for event in told if isinstance(event, Step))
    assert set(steps.values()) == {1}
    assert {key for key in steps if key[1] <= 8} == {(rank, step) for rank in range(24) for step in range(1, 9)}
    assert [request.due_s for request in requests] == sorted(request.due_s for request in requests)
    assert len({request.data for request in requests}) == len(requests)
    kinds = Counter(event.kind for event in told)
    assert (kinds["run.start"], kinds["attempt.start"]) == (1, 24)
    assert kinds["checkpoint.start"] == kinds["checkpoint.saved"] == 24
    assert kinds["heartbeat"] == pytest.approx(3 * 42 / 5, abs=3)
    for request in requests:
        newest_s = max(event.t for event in events([request], bounds)) - START_UNIX_SECONDS
        assert newest_s <= request.due_s + 0.001


def test_heartbeats_go_over_a_connection_of_their_own(traffic: Any) -> None:
    pace = traffic.Pace(num_nodes=2, seconds=12.0)
    bounds = decode.bounds_for("live", START_UNIX_SECONDS)
    by_connection: dict[int, set[bool]] = {}
    for request in traffic.paced(pace, START_UNIX_SECONDS):
        kinds = {isinstance(event, Heartbeat) for event in events([request], bounds)}
        by_connection.setdefault(request.connection, set()).update(kinds)
    assert by_connection == {0: {False}, 1: {True}, 2: {False}, 3: {True}}


def test_a_backlog_is_large_batches_of_steps_that_do_not_repeat(traffic: Any) -> None:
    requests = traffic.backlog(time.time() - 86_400, 6, run="bench/backlog", steps_per_rank=64, num_nodes=2)
    told = events(requests, decode.bounds_for("live", time.time()))
    assert [request.num_steps for request in requests] == [512] * 6
    assert set(Counter((event.rank, event.step) for event in told).values()) == {1}
    assert {event.run for event in told} == {"bench/backlog"}
