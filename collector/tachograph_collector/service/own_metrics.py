"""The collector's own series: what it takes, stores and folds, and how far behind it is. No run or token is named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tachograph_collector.service.access import Doorkeeper
from tachograph_collector.service.counts import COMMIT_BOUNDS_S, Counts
from tachograph_collector.service.figures import Figures
from tachograph_collector.service.state import Service

_KEEPER: Final = {
    "folds": ("folds", "Times that a run's new events were folded."),
    "events": ("folded_events", "Events folded."),
    "leases_taken": ("leases_taken", "Runs taken over."),
    "leases_lost": ("leases_lost", "Runs that another collector took while this one folded them."),
    "states_saved": ("states_saved", "Ledgers saved, to go on from after a crash."),
    "states_refused": ("states_refused", "Saved ledgers that could not be used."),
    "minutes_booked": ("bookings", "Minutes booked."),
    "minutes_revised": ("restatements", "Times that a booked minute was booked differently."),
    "failures_inferred": ("failures_inferred", "Failures concluded from the silence of nodes."),
    "failures_withdrawn": ("failures_withdrawn", "Of these, those taken back."),
    "database_errors": ("folding_database_errors", "Times that the database failed while folding."),
}
"""Counters of what folds: the name of the series, and what it says."""


class OwnMetrics(Collector):
    """Reads numbers that other threads write; each is whole by itself."""

    def __init__(
        self,
        service: Service,
        counts: Counts,
        doorkeeper: Doorkeeper,
        figures: Figures,
    ) -> None:
        self._version = version("tachograph")  # read once: it lies in a file
        self._service = service
        self._counts = counts
        self._doorkeeper = doorkeeper
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All families."""
        info = GaugeMetricFamily(
            "tachograph_collector_info",
            "1, with the version and the address of its page.",
            labels=["version", "public_url"],
        )
        settings = self._service.settings
        info.add_metric([self._version, settings.public_url or f"http://{settings.host}:{settings.port}"], 1)
        yield info
        yield from self._ingest()
        yield from self._ledgers()
        refused = CounterMetricFamily(
            "tachograph_collector_refused_requests",
            "Requests without a token that is good here, by what was wrong with it.",
            labels=["reason"],
        )
        for reason in ("none", "unknown", "expired", "revoked"):
            refused.add_metric([reason], self._doorkeeper.num_refused[reason])
        yield refused

    def _ingest(self) -> Iterator[Metric]:
        counts, service = self._counts, self._service
        events = CounterMetricFamily(
            "tachograph_collector_events", "Events of batches that were stored, by result.", labels=["result"]
        )
        events.add_metric(["accepted"], counts.accepted_events)
        events.add_metric(["rejected"], counts.rejected_events)
        yield events
        batches = CounterMetricFamily(
            "tachograph_collector_batches",
            "Batches taken, by result; a duplicate was stored before.",
            labels=["result"],
        )
        batches.add_metric(["stored"], counts.stored_batches)
        batches.add_metric(["duplicate"], counts.duplicate_batches)
        yield batches
        yield CounterMetricFamily(
            "tachograph_collector_failed_commits", "Transactions that the database did not take.", counts.failed_commits
        )
        yield self._commits()
        yield GaugeMetricFamily(
            "tachograph_collector_waiting_batches", "Batches taken and not stored yet.", len(service.gather)
        )
        yield GaugeMetricFamily(
            "tachograph_collector_waiting_bytes", "Memory that they hold.", service.waiting.num_bytes
        )
        yield GaugeMetricFamily(
            "tachograph_collector_waiting_limit_bytes",
            "Memory that they may hold; beyond it agents are told to wait.",
            service.waiting.max_bytes,
        )

    def _commits(self) -> Metric:
        family = HistogramMetricFamily(
            "tachograph_collector_commit_seconds", "How long transactions of batches took, until they were durable."
        )
        so_far, buckets = 0, []
        for bound_s, number in zip((*COMMIT_BOUNDS_S, float("inf")), self._counts.commits_by_bound, strict=True):
            so_far += number
            buckets.append(("+Inf" if math.isinf(bound_s) else str(bound_s), float(so_far)))
        family.add_metric([], buckets, self._counts.commit_seconds)
        return family

    def _ledgers(self) -> Iterator[Metric]:
        prepared = self._figures.prepared
        yield GaugeMetricFamily(
            "tachograph_collector_held_runs", "Runs that this collector folds: leases it holds.", prepared.num_held
        )
        yield GaugeMetricFamily(
            "tachograph_collector_runs_without_series",
            "Runs that it folds and that have no series, since there are too many.",
            prepared.num_left_out,
        )
        if prepared.lag is not None:
            yield GaugeMetricFamily(
                "tachograph_collector_runs_behind",
                "Runs of the whole database with events that are not booked yet; take the largest of all collectors.",
                prepared.lag.num_runs,
            )
            yield GaugeMetricFamily(
                "tachograph_collector_ledger_lag_seconds",
                "How long the oldest of them waits; take the largest of all collectors.",
                prepared.lag.seconds,
            )
        yield GaugeMetricFamily(
            "tachograph_collector_series_age_seconds",
            "How long ago the series of runs were prepared.",
            self._figures.age_s,
        )
        snapshot = self._service.keeper.snapshot()
        for name, (series, text) in _KEEPER.items():
            yield CounterMetricFamily(f"tachograph_collector_{series}", text, getattr(snapshot.counters, name))
        yield GaugeMetricFamily(
            "tachograph_collector_runs_set_aside",
            "Runs that can't be folded; its log says why.",
            len(snapshot.set_aside),
        )
        yield GaugeMetricFamily(
            "tachograph_collector_runs_waiting", "Runs with something to fold and no room here.", snapshot.num_waiting
        )
        yield CounterMetricFamily(
            "tachograph_collector_series_failures", "Times that they could not be.", self._figures.num_failed
        )
