"""Heartbeats: one a live run, counted, with what is alive; dropped while the collector is away; a last good-bye."""

from __future__ import annotations

from agent_server.spools import T0, Collector
from tachograph_agent.events import decode
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.heartbeat import REMEMBERED_S, Heartbeat
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.ship import Answer, Fate
from tachograph_agent.sidecar.status import Status

TWO = Status(
    {("a", "1"): LiveRun("a", "1", [1, 0], 70), ("b", "2"): LiveRun("b", "2", [4], None)}, unconfirmed_bytes=12
)


class Case:
    """A heartbeat over a status that a test changes."""

    def __init__(self, *answers: Answer) -> None:
        self.collector = Collector(*answers)
        self.status = TWO
        self.counters = Counters()
        self.heart = Heartbeat(
            self.collector,
            "n1",
            lambda: self.status,
            self.counters,
            clock_offset_s=lambda: 0.25,
            unix_clock=lambda: T0,
        )


def test_each_live_run_has_its_own_with_ranks_step_queue_and_drops() -> None:
    case = Case()
    case.counters.dropped["step"] = 3
    assert case.heart.beat(0.0)
    first, second = case.collector.events
    assert first == {
        "kind": "heartbeat",
        "t": T0,
        "run": "a",
        "attempt": "1",
        "node": "n1",
        "seq": 1,
        "interval_s": 5.0,
        "ranks_alive": 2,
        "ranks": [0, 1],
        "step": 70,
        "queue_bytes": 12,
        "dropped": 3,
        "clock_offset_s": 0.25,
    }
    assert (second["run"], second["ranks_alive"]) == ("b", 1)
    assert "step" not in second
    assert all(decode(line).kind == "heartbeat" for line in case.collector.stored[0].lines.splitlines())


def test_beats_are_counted_also_those_that_are_dropped() -> None:
    case = Case(Answer(Fate.LATER))
    assert not case.heart.beat(0.0)
    assert case.heart.beat(5.0)
    assert [told["seq"] for told in case.collector.events] == [2, 2]
    assert (case.counters.heartbeats_dropped, case.counters.heartbeats_sent) == (2, 2)


def test_each_beat_has_another_name() -> None:
    case, other = Case(), Case()
    for heart in (case.heart, case.heart, other.heart):
        heart.beat(0.0)
    assert len({batch.name for batch in case.collector.seen + other.collector.seen}) == 3


def test_run_whose_ranks_are_gone_is_told_with_none_alive_for_a_while() -> None:
    case = Case()
    case.heart.events(0.0)
    case.status = Status()
    assert [told["ranks_alive"] for told in case.heart.events(REMEMBERED_S - 1)] == [0, 0]
    assert case.heart.events(REMEMBERED_S + 1) == []


def test_node_without_a_run_sends_nothing() -> None:
    case = Case()
    case.status = Status()
    assert case.heart.beat(0.0)
    assert case.collector.seen == []


def test_last_one_says_good_bye() -> None:
    case = Case()
    case.heart.stop(5.0)
    assert [told["goodbye"] for told in case.collector.events] == [True, True]
