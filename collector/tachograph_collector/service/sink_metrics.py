"""Series of what goes to sinks: what was told and what failed, what waits and for how long, what was given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tachograph_collector.sinks.post import Post


class SinkMetrics(Collector):
    """Reads numbers that each sink's thread writes. Nothing of an incident is named."""

    def __init__(self, post: Post, clock: Callable[[], float] = time.time) -> None:
        self._post = post
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """All families."""
        told = CounterMetricFamily(
            "tachograph_collector_deliveries",
            "News of incidents for a sink, by what became of it at this collector.",
            labels=["sink", "result"],
        )
        waiting = GaugeMetricFamily(
            "tachograph_collector_waiting_deliveries",
            "News that the sink is still to be told; take the largest of all collectors.",
            labels=["sink"],
        )
        age = GaugeMetricFamily(
            "tachograph_collector_delivery_age_seconds",
            "How long the oldest of them waits; take the largest of all collectors.",
            labels=["sink"],
        )
        dead = GaugeMetricFamily(
            "tachograph_collector_dead_deliveries",
            "News that was given up; take the largest of all collectors.",
            labels=["sink"],
        )
        for courier in self._post.couriers:
            name, standing = courier.config.name, courier.standing
            for result in ("sent", "failed", "dead", "skipped"):
                told.add_metric([name, result], getattr(courier.tally, result))
            waiting.add_metric([name], standing.num_waiting)
            dead.add_metric([name], standing.num_dead)
            oldest_us = standing.oldest_us
            age.add_metric([name], 0.0 if oldest_us is None else max(0.0, self._clock() - oldest_us / 1e6))
        yield from (told, waiting, age, dead)
