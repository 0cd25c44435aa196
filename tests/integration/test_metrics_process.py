"""A real collector with everything at once: from events over HTTP to what Prometheus and a tracing tool get."""

from __future__ import annotations

import time

import promtool
from collector_process import CollectorProcess, Starts
from live_runs import run_with_a_failure
from otlp_receiver import Receiver

WITHIN_S = 60


def scraped(collector: CollectorProcess, until: str) -> bytes:
    """``/metrics``, once there is a series that begins so; fails with what there was instead."""
    ends = time.monotonic() + WITHIN_S
    while True:
        text = collector.request("GET", "/metrics").body
        if f"\n{until}".encode() in text:
            return text
        assert time.monotonic() < ends, text.decode()
        time.sleep(0.2)


def test_what_agents_send_is_scraped_within_seconds_and_traced(start_collector: Starts) -> None:
    with Receiver() as receiver:
        collector = start_collector(options=["--otlp-endpoint", receiver.url])
        events = run_with_a_failure()
        assert collector.post_events(events).json()["accepted"] == len(events)
        text = scraped(collector, "tachograph_run_straggler_rank{")
        assert promtool.complaints(text) == ""
        assert promtool.value(text, "tachograph_run_info", run="llama-1", status="running") == 1
        assert promtool.value(text, "tachograph_run_straggler_rank", run="llama-1", position="1") == 2
        assert promtool.value(text, "tachograph_collector_events_total", result="accepted") == len(events)
        assert promtool.value(text, "tachograph_collector_held_runs") == 1
        assert (promtool.value(text, "tachograph_collector_folds_total") or 0) >= 1
        give_up_at = time.monotonic() + WITHIN_S
        while not any(span.name == "restart" for span in receiver.spans) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        assert collector.stop() == 0
        assert not [line for line in collector.said if "level=error" in line], collector.said
    names = {span.name for span in receiver.spans}
    assert names >= {"ingest.commit", "ledger.fold", "attempt", "restart", "checkpoint"}
    assert receiver.value("tachograph_collector_events", result="accepted") == len(events)
