"""The address that heartbeats tell: one that others reach, or none."""

from __future__ import annotations

import socket

import pytest
from agent_server.spools import T0, Collector
from tachograph_agent.sidecar import reachable
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.heartbeat import Heartbeat
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.reachable import reachable_address
from tachograph_agent.sidecar.status import Status


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "::1"])
def test_on_loopback_there_is_none(host: str) -> None:
    assert reachable_address((host, 9464), "http://collector.example:8420") is None


@pytest.mark.parametrize(
    ("host", "told"),
    [("10.0.0.7", "10.0.0.7:9464"), ("fd00::7", "[fd00::7]:9464"), ("n7.cluster.example", "n7.cluster.example:9464")],
)
def test_an_address_of_the_node_is_told_as_it_is(host: str, told: str) -> None:
    assert reachable_address((host, 9464), "http://collector.example:8420") == told


def test_bound_to_all_it_is_the_one_that_talks_to_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "_source_towards", lambda collector, family: "10.0.0.7")
    assert reachable_address(("0.0.0.0", 9464), "http://collector.example") == "10.0.0.7:9464"
    monkeypatch.setattr(reachable, "_source_towards", lambda collector, family: "fd00::7")
    assert reachable_address(("::", 9464), "http://collector.example") == "[fd00::7]:9464"


def test_a_collector_on_the_same_machine_or_of_an_unknown_name_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reachable_address(("0.0.0.0", 9464), "http://127.0.0.1:8420") is None

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert reachable_address(("0.0.0.0", 9464), "http://nowhere.example:8420") is None


def test_heartbeats_tell_it() -> None:
    collector = Collector()
    status = Status({("a", "1"): LiveRun("a", "1", [0], 70)}, unconfirmed_bytes=0)
    heart = Heartbeat(
        collector, "n1", lambda: status, Counters(), metrics_address=lambda: "10.0.0.7:9464", unix_clock=lambda: T0
    )
    assert heart.beat(0.0)
    [event] = collector.events
    assert event["metrics_address"] == "10.0.0.7:9464"
