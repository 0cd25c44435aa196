"""Series of incidents and of how well detectors see a run, for alert rules: few a run, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tachograph_collector.report.text import visible

if TYPE_CHECKING:
    from tachograph_collector.service.run_figures import RunFigures

MAX_LABEL: Final = 200


def incident_families(runs: Sequence[RunFigures]) -> Iterator[Metric]:
    """All families."""
    yield from _incidents(runs)
    yield from _sights(runs)


def _incidents(runs: Sequence[RunFigures]) -> Iterator[Metric]:
    is_open = GaugeMetricFamily(
        "tachograph_incidents_open",
        "What is flagged now, by detector and severity; 0 where the detector is at work and flags nothing.",
        labels=["run", "detector", "severity"],
    )
    opened = CounterMetricFamily(
        "tachograph_incidents_opened",
        "Incidents that were at least so grave at any time: a critical one counts as info and as warning, too.",
        labels=["run", "detector", "severity"],
    )
    since = GaugeMetricFamily(
        "tachograph_incident_open_since_timestamp_seconds",
        "When each of the gravest open incidents of a run began.",
        labels=["run", "detector", "severity", "subject", "node"],
    )
    for figures in runs:
        run, flagged = figures.books.run, figures.flagged
        for (detector, severity), num in sorted(flagged.num_opened.items()):
            opened.add_metric([run, detector, severity], num)
        for key in sorted({*flagged.num_open, *flagged.num_opened}):
            is_open.add_metric([run, *key], flagged.num_open.get(key, 0))
        began: dict[tuple[str, ...], int] = {}
        for one in flagged.open:
            labels = (one.detector, one.severity, visible(one.subject, MAX_LABEL), visible(one.node or "", MAX_LABEL))
            began[labels] = min(one.opened_us, began.get(labels, one.opened_us))
        for whose, opened_us in began.items():
            since.add_metric([run, *whose], opened_us / 1e6)
    yield from (is_open, opened, since)


def _sights(runs: Sequence[RunFigures]) -> Iterator[Metric]:
    labels = ["run", "detector"]
    armed = GaugeMetricFamily(
        "tachograph_detector_armed", "1 if the detector can flag the run now, else 0.", labels=labels
    )
    blind = GaugeMetricFamily(
        "tachograph_detector_blind", "1 if what it needs isn't told by the run, else 0.", labels=labels
    )
    evaluations = CounterMetricFamily("tachograph_detector_evaluations", "Times that it looked.", labels=labels)
    verdicts = CounterMetricFamily(
        "tachograph_detector_verdicts", "Times that it found something wrong.", labels=labels
    )
    for figures in runs:
        for seen in figures.flagged.seen:
            whose = [figures.books.run, seen.detector]
            armed.add_metric(whose, int(seen.state == "armed"))
            blind.add_metric(whose, int(seen.state == "blind"))
            evaluations.add_metric(whose, seen.num_evaluations)
            verdicts.add_metric(whose, seen.num_verdicts)
    yield from (armed, blind, evaluations, verdicts)
