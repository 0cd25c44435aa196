"""A recorded run on its way into a collector: how it is cut into batches, what they are called, and when it stops."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable

import pytest
from collector_process import Starts
from stand_in import Asked, Says, StandIn
from tachograph_agent.events import AnyEvent, RunStart, Step, encode
from tachograph_collector.client import AwayError, Client
from tachograph_collector.client.address import address
from tachograph_collector.client.transport import Transport, patience
from tachograph_collector.client.upload import MAX_EVENTS, LiveRunError, Upload, Uploaded

UNKNOWN = Says(404, {"title": "No such run", "status": 404, "detail": "there is no run 'r'"})
NO_RUNS = Says(body={"runs": [], "next": None})


class Collector:
    """Takes batches as a collector does, with a bound on their lines, and fails when a test says so."""

    def __init__(self, max_lines: int = 10**9) -> None:
        self.max_lines = max_lines
        self.batches: dict[str, list[bytes]] = {}
        self.fails: Callable[[Asked], bool] = lambda _: False
        self.origins: dict[str, str] = {}

    def __call__(self, asked: Asked) -> Says:
        if asked.path.startswith("/v1/runs/"):
            name = asked.path.split("/")[3]
            if name not in self.origins:
                return UNKNOWN
            places = {"Tachograph-Last-Seq": "1", "Tachograph-Folded-Seq": "1", "Tachograph-Origin": self.origins[name]}
            return Says(headers=places)
        if asked.method == "GET":
            return NO_RUNS
        if self.fails(asked):
            return Says(503, {"detail": "the database does not answer"}, {"Retry-After": "0"})
        lines = gzip.decompress(asked.body).splitlines()
        if len(lines) > self.max_lines:
            return Says(413, {"title": "Too large", "detail": "the body is too large"})
        name = asked.headers["tachograph-batch"]
        duplicate = name in self.batches
        self.batches[name] = lines
        return Says(body={"accepted": len(lines), "rejected": 0, "reasons": [], "duplicate": duplicate})

    @property
    def lines(self) -> list[bytes]:
        return [line for lines in self.batches.values() for line in lines]


def steps(num: int, run: str = "r") -> list[AnyEvent]:
    return [Step(t=1_800_000_000.0 + number, run=run, rank=0, step=number, dur=1.0) for number in range(1, num + 1)]


def uploaded(collector: Collector, events: list[AnyEvent], at_once: int = 700) -> tuple[Uploaded, list[Asked]]:
    with StandIn(collector) as stand_in:
        upload = Upload(Client(transport=Transport(address(stand_in.url, ""), retries=patience(1))))
        for start in range(0, len(events), at_once):
            upload.add(events[start : start + at_once])
        return upload.finish(), stand_in.asked


def test_every_event_is_sent_once_in_order_and_marked_as_replayed() -> None:
    collector, events = Collector(), steps(MAX_EVENTS + 5)
    done, asked = uploaded(collector, events)
    assert collector.lines == [encode(event) for event in events]
    assert (done.num_accepted, done.num_known, done.runs) == (len(events), 0, ["r"])
    assert {each.headers["tachograph-origin"] for each in asked if each.method == "POST"} == {"replay"}
    assert len(collector.batches) == 2


def test_the_same_log_makes_the_same_batches_however_it_is_read() -> None:
    collector, events = Collector(), steps(2 * MAX_EVENTS)
    uploaded(collector, events, at_once=700)
    collector.origins["r"] = "replay"
    done, _ = uploaded(collector, events, at_once=1)
    assert len(collector.batches) == 2
    assert (done.num_accepted, done.num_known) == (0, len(events))


def test_equal_lines_in_another_place_are_another_batch() -> None:
    collector = Collector()
    done, _ = uploaded(collector, steps(MAX_EVENTS) + steps(MAX_EVENTS))
    assert len(collector.batches) == 2
    assert done.num_known == 0


def test_a_load_that_broke_off_goes_on_where_it_was() -> None:
    collector, events = Collector(), steps(3 * MAX_EVENTS)
    collector.fails = lambda _: len(collector.batches) == 2
    with pytest.raises(AwayError, match="the database does not answer"):
        uploaded(collector, events)
    assert len(collector.lines) == 2 * MAX_EVENTS
    collector.fails = lambda _: False
    collector.origins["r"] = "replay"
    done, _ = uploaded(collector, events)
    assert (done.num_known, done.num_accepted) == (2 * MAX_EVENTS, MAX_EVENTS)
    assert collector.lines == [encode(event) for event in events]


def test_a_batch_that_the_collector_finds_too_large_is_sent_in_smaller_ones() -> None:
    collector, events = Collector(max_lines=300), steps(1000)
    done, _ = uploaded(collector, events)
    assert collector.lines == [encode(event) for event in events]
    assert done.num_accepted == 1000
    collector.origins["r"] = "replay"
    again, _ = uploaded(collector, events)
    assert (again.num_known, again.num_accepted) == (1000, 0)


@pytest.mark.parametrize("origin", ["live", "rehearsal"])
def test_nothing_is_sent_to_a_run_of_another_origin(origin: str) -> None:
    collector = Collector()
    collector.origins["r"] = origin
    with pytest.raises(LiveRunError, match=f"origin {origin}"):
        uploaded(collector, [RunStart(t=1_800_000_000.0, run="r"), *steps(5)])
    assert collector.batches == {}


def test_a_collector_that_is_killed_and_comes_back_in_the_middle_gets_all_of_it_once(start_collector: Starts) -> None:
    collector, events = start_collector(), steps(2 * MAX_EVENTS + 7)
    client = Client(collector.url, "")
    upload = Upload(client)
    upload.add(events[: MAX_EVENTS + 1])
    collector.kill()
    comes_back = threading.Thread(target=collector.start)
    comes_back.start()
    upload.add(events[MAX_EVENTS + 1 :])
    done = upload.finish()
    comes_back.join()
    assert done.num_accepted + done.num_known == len(events)
    stored = b"".join(client.run("r").events()).splitlines()
    assert sorted(stored) == sorted(encode(event) for event in events)
