"""``/v1/runs/{run}/events``: every stored event of a run, in one stream or in pages, and nothing of another run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from collector_process import CollectorProcess, Reply, Starts

T0 = 1_780_000_020.0
NAME = "team/llama #1?"
PATH = "/v1/runs/team%2Fllama%20%231%3F/events"


def batch(number: int) -> list[dict[str, Any]]:
    """A save and 250 steps of each of two nodes, and a step of another run."""
    events: list[dict[str, Any]] = [
        {"kind": "checkpoint.saved", "t": T0 + number, "run": NAME, "attempt": 0, "step": number}
    ]
    for node in ("node-0", "node-1"):
        events += [
            {
                "kind": "step",
                "t": T0 + step,
                "run": NAME,
                "attempt": 0,
                "node": node,
                "rank": 0,
                "step": step,
                "dur": 1.0,
            }
            for step in range(number * 250 + 1, number * 250 + 251)
        ]
    return [*events, {"kind": "step", "t": T0, "run": "another", "step": 1, "dur": 1.0}]


@pytest.fixture
def filled(database_url: str, start_collector: Starts) -> CollectorProcess:
    """A collector, once over each database, with four batches of the run."""
    collector = start_collector(database_url)
    for number in range(4):
        reply = collector.post_events(batch(number), Tachograph_Batch=f"batch-{number}", Tachograph_Origin="replay")
        assert reply.status == 200, reply.body
    return collector


def lines(reply: Reply) -> list[dict[str, Any]]:
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in reply.body.splitlines()]


def pages(collector: CollectorProcess, limit: int) -> Iterator[list[dict[str, Any]]]:
    after: str | None = "0"
    while after is not None:
        reply = collector.request("GET", f"{PATH}?after={after}&limit={limit}")
        yield lines(reply)
        after = reply.headers.get("tachograph-next")


def key(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["t"], event["kind"], event.get("node", ""), event["step"]


def test_the_stream_and_the_pages_have_every_event_of_the_run_once(filled: CollectorProcess) -> None:
    expected = sorted((event for number in range(4) for event in batch(number) if event["run"] == NAME), key=key)
    assert len(expected) == 2004
    whole = filled.request("GET", PATH)
    assert sorted(lines(whole), key=key) == expected
    assert whole.headers["tachograph-origin"] == "replay"
    for limit in (1, 300, 100_000):
        found = list(pages(filled, limit))
        while lines(again := filled.request("GET", PATH)) != lines(whole):
            whole, found = again, list(pages(filled, limit))  # steps were packed together meanwhile, in another order
        assert [event for page in found for event in page] == lines(whole)
        # Steps of a node that came together are one row, which no page cuts: 250, or all 1,000 once they were packed.
        assert max(map(len, found)) < limit + 1000
    assert lines(filled.request("GET", f"{PATH}?after=99999&limit=5")) == []


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "after=-1", "after=9999999999999999999999", "aftr=1"])
def test_what_can_not_be_asked_is_told(query: str, collector: CollectorProcess) -> None:
    reply = collector.request("GET", f"{PATH}?{query}")
    assert reply.status == 422
    assert query.partition("=")[0] in reply.json()["detail"]


def test_an_unknown_run_has_no_events(collector: CollectorProcess) -> None:
    assert collector.request("GET", "/v1/runs/nobody/events").status == 404
