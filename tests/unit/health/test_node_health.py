"""What the node's checks find is told to the runs that are here, once each, and to nobody else's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_server.server import identity
from node_made_up import Says, at_once
from tachograph_agent.health.finding import AbsentError, Finding
from tachograph_agent.health.runner import Health
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.nodehealth import NodeHealth
from tachograph_agent.sidecar.own_events import OwnEvents
from tachograph_agent.sidecar.status import Status

LOW = Finding("disk", "warning", "4 % is free", 0.04)
XID = Finding("xid", "critical", "Xid 79", 79, "0000:3b:00", t=1_900_000_000.5, lasts=False)


class Node:
    def __init__(self, folder: Path, *checks: Says) -> None:
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.counters = Counters()
        self.status = Status()
        self.own = OwnEvents(self.spool, "n1")
        health = Health(checks, at_once)
        self.health = NodeHealth(self.own, health, lambda: self.status, self.counters, lambda: 1_900_000_009.0)
        self.num_read = 0

    def runs(self, *runs: str) -> None:
        self.status = Status({(run, "1"): LiveRun(run, "1", [0]) for run in runs})

    def turn(self, now_s: float) -> list[dict[str, Any]]:
        """The events of one turn."""
        self.health.watch(now_s)
        lines = [line for path in sorted(self.spool.rglob("*.jsonl")) for line in path.read_text().splitlines()]
        new, self.num_read = lines[self.num_read :], len(lines)
        return [json.loads(line) for line in new]


def test_each_run_with_ranks_here_is_told_without_an_attempt_and_the_finding_counts_once(tmp_path: Path) -> None:
    node = Node(tmp_path, Says([XID]))
    node.runs("lab/a", "lab/b")
    told = node.turn(0.0)
    assert [event.pop("run") for event in told] == ["lab/a", "lab/b"]
    assert told[0] == told[1] == {
        "kind": "health",
        "node": "n1",
        "check": "xid",
        "gpu": "0000:3b:00",
        "value": 79,
        "severity": "critical",
        "detail": "Xid 79",
        "t": 1_900_000_000.5,
    }  # fmt: skip
    assert node.counters.findings == {("xid", "critical"): 1}


def test_a_run_that_a_dying_gpu_took_with_it_is_still_told_and_one_gone_for_long_is_not(tmp_path: Path) -> None:
    node = Node(tmp_path, Says([], [XID], [XID], every_s=30.0))
    node.runs("lab/a")
    assert node.turn(0.0) == []
    node.runs()
    assert [event["run"] for event in node.turn(30.0)] == ["lab/a"]
    assert node.turn(90.0) == []
    assert node.counters.findings == {("xid", "critical"): 2}


def test_a_run_that_begins_is_told_what_lasts_and_what_can_not_be_seen_and_nothing_that_is_past(tmp_path: Path) -> None:
    node = Node(tmp_path, Says([LOW, XID], [LOW]), Says(*[AbsentError("no GPU")] * 3, name="nvml"))
    assert node.turn(0.0) == []
    node.runs("lab/a")
    assert [(event["check"], event["run"]) for event in node.turn(1.0)] == [("disk", "lab/a"), ("nvml", "lab/a")]
    assert node.turn(2.0) == []
    assert node.counters.findings == {("disk", "warning"): 1, ("xid", "critical"): 1}


def test_a_run_without_a_rank_alive_is_none(tmp_path: Path) -> None:
    node = Node(tmp_path, Says([XID]))
    node.status = Status({("lab/a", "1"): LiveRun("lab/a", "1", [])})
    assert node.turn(0.0) == []


def test_a_run_that_starts_again_within_a_minute_is_not_told_again(tmp_path: Path) -> None:
    node = Node(tmp_path, Says(*[[LOW]] * 9))
    node.runs("lab/a")
    assert len(node.turn(0.0)) == 1
    node.runs()
    assert node.turn(10.0) == []
    node.runs("lab/a")
    assert node.turn(50.0) == []


def test_gpus_that_are_lost_at_one_time_are_events_of_their_own(tmp_path: Path) -> None:
    node = Node(tmp_path, Says([replace(XID, gpu=f"0000:{number:02x}:00") for number in range(8)], [XID, LOW]))
    node.runs("lab/a")
    told = node.turn(0.0) + node.turn(1.0)
    assert len({identity(event) for event in told}) == len(told) == 10
    assert max(abs(event["t"] - 1_900_000_000.5) for event in told if event["check"] == "xid") < 1e-4
