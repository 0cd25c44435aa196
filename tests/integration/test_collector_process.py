"""The collector as a process: how it starts, what keeps it from starting, and how it ends."""

from __future__ import annotations

from collector_process import CollectorProcess


def test_a_collector_without_an_option_is_ready_and_stops_when_told(collector: CollectorProcess) -> None:
    assert collector.request("GET", "/healthz").status == 200
    assert collector.stop() == 0
    assert not [line for line in collector.said if "level=error" in line]
