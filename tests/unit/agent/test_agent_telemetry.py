"""The agent about itself: what a scrape sees, and a log that is one line an event and quiet."""

from __future__ import annotations

import io
import json
import logging

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.metrics import AgentMetrics
from tachograph_agent.sidecar.quiet_log import QUIET_S, Lines, Once
from tachograph_agent.sidecar.status import Status


def test_scrape_sees_what_was_counted() -> None:
    counters = Counters(lines_read=12, events_stored=9, retries=2)
    counters.dropped["step"] = 3
    counters.findings["xid", "critical"] += 1
    status = Status({("r", "1"): LiveRun("r", "1", [0, 1])}, 77, 2, 90.0)
    registry = CollectorRegistry(auto_describe=False)
    states = {"kernel": "blind", "nvml": "ok"}
    registry.register(AgentMetrics(counters, lambda: status, lambda: -0.5, lambda: 100.0, lambda: states))
    told = generate_latest(registry).decode().splitlines()
    assert {
        "tachograph_agent_events_read_total 12.0",
        "tachograph_agent_events_shipped_total 9.0",
        'tachograph_agent_events_dropped_total{class="step"} 3.0',
        'tachograph_agent_events_dropped_total{class="lifecycle"} 0.0',
        "tachograph_agent_send_retries_total 2.0",
        'tachograph_agent_health_findings_total{check="xid",severity="critical"} 1.0',
        'tachograph_agent_health_check{check="kernel",state="blind"} 1.0',
        "tachograph_agent_spool_bytes 77.0",
        "tachograph_agent_lag_seconds 10.0",
        "tachograph_agent_ranks_alive 2.0",
        "tachograph_agent_clock_offset_seconds -0.5",
    } <= set(told)


def test_clock_offset_that_is_not_known_is_not_shown_as_zero() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AgentMetrics(Counters(), Status))
    assert b"clock_offset" not in generate_latest(registry)


class Log:
    """A logger of its own with the agent's filter and form, on a clock that a test moves."""

    def __init__(self, form: str = "text") -> None:
        self.now_s = 0.0
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(Lines(form, "n1"))
        handler.addFilter(Once(lambda: self.now_s))
        self.log = logging.Logger("made")
        self.log.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_warning_that_repeats_is_said_once_and_then_with_its_count() -> None:
    log = Log()
    for _ in range(1000):
        log.log.warning("full")
    assert len(log.lines) == 1
    log.now_s = QUIET_S + 1
    log.log.warning("full")
    assert log.lines[1].endswith("message=full repeated=999")


@pytest.mark.parametrize("form", ["text", "json"])
def test_message_with_line_breaks_stays_one_line(form: str) -> None:
    log = Log(form)
    log.log.warning("run %s", 'a\nlevel=error "b"\x1b[31m')
    (line,) = log.lines
    assert "\x1b" not in line
    if form == "json":
        assert json.loads(line)["level"] == "warning"
    else:
        assert 'level=warning node=n1 message="run a\\nlevel=error \\"b\\"' in line
