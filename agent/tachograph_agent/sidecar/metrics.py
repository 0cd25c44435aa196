"""The agent's own metrics for Prometheus, on a registry of its own: read from its counters when it is scraped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.status import Status

CLASSES = ("step", "lifecycle")


class AgentMetrics(Collector):
    """What a scrape sees. Reads numbers that other threads write; each is whole by itself."""

    def __init__(
        self,
        counters: Counters,
        status: Callable[[], Status],
        clock_offset_s: Callable[[], float | None] = lambda: None,
        unix_clock: Callable[[], float] = time.time,
        health_states: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._counters = counters
        self._health_states = health_states
        self._status = status
        self._clock_offset_s = clock_offset_s
        self._unix_clock = unix_clock

    def collect(self) -> Iterator[Metric]:
        """All families."""
        counters, status = self._counters, self._status()
        for name, text, value in (
            ("events_read", "Lines read from the spool.", counters.lines_read),
            ("events_shipped", "Events that the collector has stored.", counters.events_stored),
            ("events_rejected", "Events that the collector took and found to be none.", counters.events_rejected),
            ("lines_torn", "Lines in the spool without a beginning or an end.", counters.torn_lines),
            ("batches_sent", "Batches sent, repeats included.", counters.batches_sent),
            ("batches_refused", "Batches refused for good and kept as dead letters.", counters.batches_refused),
            ("send_retries", "Attempts to send that failed and are repeated.", counters.retries),
            ("sent_bytes", "Bytes of events stored, before they are packed.", counters.bytes_sent),
            ("deaths", "Ranks whose process ended without a good-bye.", counters.deaths),
            ("heartbeats_sent", "Heartbeats that the collector took.", counters.heartbeats_sent),
            ("heartbeats_dropped", "Heartbeats that it did not take.", counters.heartbeats_dropped),
        ):
            yield CounterMetricFamily(f"tachograph_agent_{name}", text, value)
        dropped = CounterMetricFamily("tachograph_agent_events_dropped", "Events given up.", labels=["class"])
        for name in CLASSES:
            dropped.add_metric([name], counters.dropped[name])
        yield dropped
        yield from self._health()
        alive = sum(len(live.alive) for live in status.runs.values())
        lag_s = 0.0 if status.oldest_unix_s is None else max(self._unix_clock() - status.oldest_unix_s, 0.0)
        yield GaugeMetricFamily(
            "tachograph_agent_spool_bytes", "Bytes in the spool that are not confirmed.", status.unconfirmed_bytes
        )
        yield GaugeMetricFamily("tachograph_agent_spool_segments", "Files in the spool.", status.num_segments)
        yield GaugeMetricFamily("tachograph_agent_lag_seconds", "Age of the oldest file not confirmed whole.", lag_s)
        yield GaugeMetricFamily("tachograph_agent_ranks_alive", "Ranks that write to the spool.", alive)
        offset_s = self._clock_offset_s()
        if offset_s is not None:
            yield GaugeMetricFamily(
                "tachograph_agent_clock_offset_seconds", "The collector's clock less this node's.", offset_s
            )

    def _health(self) -> Iterator[Metric]:
        findings = CounterMetricFamily(
            "tachograph_agent_health_findings", "Findings on this node.", labels=["check", "severity"]
        )
        for labels, number in sorted(self._counters.findings.items()):
            findings.add_metric(labels, number)
        yield findings
        checks = GaugeMetricFamily(
            "tachograph_agent_health_check",
            "1 for each check: its state is ok, absent (nothing here to look at), blind, failed, hung, or new.",
            labels=["check", "state"],
        )
        for labels in sorted(self._health_states().items()):
            checks.add_metric(labels, 1.0)
        yield checks


def serve(metrics: AgentMetrics, address: tuple[str, int]) -> WSGIServer:
    """Answer scrapes from a thread; raises ``OSError`` if the address is taken."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    host, port = address
    server, _ = start_http_server(port, addr=host, registry=registry)
    return server
