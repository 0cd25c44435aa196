"""OpenTelemetry over OTLP: the collector's own traces, all metrics, and each run as a trace; imported where wanted.

Nothing waits for the receiver: own spans go through a bounded queue, metrics are read from what was prepared for
scrapes, and runs' spans are read from the database by a thread of its own, which tries again what was not taken.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client import Metric
from prometheus_client.registry import Collector

from tachograph_collector.ledger.books import Books
from tachograph_collector.live.snapshot import Fold
from tachograph_collector.service.figures import Figures
from tachograph_collector.service.gather import Commit
from tachograph_collector.service.run_figures import RunFigures
from tachograph_collector.service.run_metrics import RunMetrics
from tachograph_collector.service.run_trace import RunSpan, settled_spans
from tachograph_collector.service.state import Service
from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.folded_reader import FoldedKey

OURS: Final = "tachograph_"
EVERY_S: Final = 15.0
SAME_READING_S: Final = 1.0
MAX_MEASURED_RUNS: Final = 100
"""So that no instrument has more than the 2,000 series at which the SDK begins to drop."""
AT_ONCE: Final = 512
TIMEOUT_S: Final = 5.0
"""How long a receiver may take; at the collector's end it is waited for once more."""

log = logging.getLogger("tachograph.service")


class Telemetry:
    """Everything that goes out by OTLP, from ``start`` to ``stop``.

    ``endpoint`` is the receiver's base address; None: what the environment's ``OTEL_EXPORTER_OTLP_…`` say.
    """

    def __init__(self, service: Service, figures: Figures, own: Collector, endpoint: str | None) -> None:
        base = endpoint.rstrip("/") if endpoint else None
        resource = Resource.create(
            {
                "service.name": "tachograph-collector",
                "service.version": version("tachograph"),
                "service.instance.id": service.settings.replica,
            }
        )
        self._tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracing.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=base and f"{base}/v1/traces", timeout=TIMEOUT_S))
        )
        self._tracer = self._tracing.get_tracer("tachograph", version("tachograph"))
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=base and f"{base}/v1/metrics", timeout=TIMEOUT_S),
            export_interval_millis=EVERY_S * 1000,
        )
        self._metering = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self.runs = RunTraces(
            service.database,
            lambda: [(each.key, each.version, each.books) for each in figures.shown_now() if each.origin == "live"],
            OTLPSpanExporter(endpoint=base and f"{base}/v1/traces", timeout=TIMEOUT_S),
        )
        self._measure(figures, own)
        service.gather.watchers.append(self._committed)
        service.keeper.watchers.append(self._folded)

    def start(self) -> None:
        """Begin."""
        self.runs.start()

    def stop(self) -> None:
        """Send what there is, once, and end; a receiver that is away holds it up once, not for each of the three."""
        ends = [
            threading.Thread(target=end, daemon=True)
            for end in (self.runs.stop, self._tracing.shutdown, self._metering.shutdown)
        ]
        for thread in ends:
            thread.start()
        until_s = time.monotonic() + 2 * TIMEOUT_S
        for thread in ends:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _committed(self, commit: Commit) -> None:
        span = self._tracer.start_span(
            "ingest.commit",
            kind=SpanKind.INTERNAL,
            start_time=commit.began_unix_ns,
            attributes={
                "tachograph.batches": len(commit.outcomes),
                "tachograph.events": sum(outcome.accepted for outcome in commit.outcomes),
                "tachograph.rejected": sum(outcome.rejected for outcome in commit.outcomes),
            },
        )
        if commit.problem is not None:
            span.set_status(Status(StatusCode.ERROR, commit.problem))
        span.end(commit.began_unix_ns + round(commit.took_s * 1e9))

    def _folded(self, fold: Fold) -> None:
        span = self._tracer.start_span(
            "ledger.fold",
            start_time=fold.began_unix_ns,
            attributes={
                "tachograph.run": fold.name,
                "tachograph.events": fold.num_events,
                "tachograph.minutes": fold.num_minutes,
                "tachograph.restatements": fold.num_revised,
            },
        )
        if fold.has_failed:
            span.set_status(Status(StatusCode.ERROR, "not folded; the log says why"))
        span.end(fold.began_unix_ns + round(fold.took_s * 1e9))

    def _measure(self, figures: Figures, own: Collector) -> None:
        """Every series of ``/metrics`` as an instrument of the same name; histograms as their sum and count."""
        meter = self._metering.get_meter("tachograph", version("tachograph"))
        families = _Families(figures, own)
        for family in families.known():
            for suffix in ("_sum", "_count") if family.type == "histogram" else ("",):
                callback = families.reader(family.name, suffix)
                unit = "s" if family.name.endswith("_seconds") and suffix != "_count" else ""
                if family.type == "gauge":
                    meter.create_observable_gauge(family.name, [callback], unit, family.documentation)
                else:
                    meter.create_observable_counter(family.name + suffix, [callback], unit, family.documentation)


def telemetry_to(service: Service, figures: Figures, own: Collector, endpoint: str | None) -> Telemetry | None:
    """``Telemetry``; None where the SDK can't be set up as it was told: the collector says so and goes on without."""
    try:
        return Telemetry(service, figures, own, endpoint)
    except (ValueError, OSError) as error:
        log.error("nothing is sent by OTLP: %s; look at the OTEL_… in the environment", error)  # noqa: TRY400 - told
        return None


class _Families:
    """What a scrape would show, collected once for all instruments that are read together."""

    def __init__(self, figures: Figures, own: Collector) -> None:
        self._figures = figures
        self._own = own
        self._samples: dict[str, list[Observation]] = {}
        self._at_s = float("-inf")

    def known(self) -> list[Metric]:
        """All families that there ever are, whatever is in them."""
        return [each for each in (*self._own.collect(), *RunMetrics(()).collect()) if each.name.startswith(OURS)]

    def reader(self, name: str, suffix: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """A callback for one instrument."""

        def read(_options: CallbackOptions) -> Iterable[Observation]:
            if time.monotonic() - self._at_s > SAME_READING_S:
                self._samples = self._collected()
                self._at_s = time.monotonic()
            return self._samples.get(name + suffix, ())

        return read

    def _collected(self) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = defaultdict(list)
        for family in self._own.collect():
            _add(found, family, {})
        by_tenant: dict[int, list[RunFigures]] = defaultdict(list)
        for figures in list(self._figures.shown_now())[:MAX_MEASURED_RUNS]:
            by_tenant[figures.key.run.tenant_id].append(figures)
        for tenant_id, runs in by_tenant.items():
            for family in RunMetrics(runs).collect():
                _add(found, family, {"tenant": tenant_id})
        return found


def _add(found: dict[str, list[Observation]], family: Metric, more: Mapping[str, int]) -> None:
    for sample in family.samples:
        name = sample.name.removesuffix("_total") if family.type == "counter" else sample.name
        found[name].append(Observation(sample.value, {**sample.labels, **more}))


class RunTraces:
    """Exports what is settled of the runs that this collector shows; ``look`` is one round."""

    def __init__(
        self,
        database: Database,
        shown: Callable[[], Iterable[tuple[FoldedKey, int, Books]]],
        exporter: OTLPSpanExporter,
    ) -> None:
        self._database = database
        self._shown = shown
        self._exporter = exporter
        self._resource = Resource.create({"service.name": "tachograph-runs", "service.version": version("tachograph")})
        self._scope = InstrumentationScope("tachograph", version("tachograph"))
        self._versions: dict[FoldedKey, int] = {}
        self._sent: dict[FoldedKey, dict[int, int]] = {}
        """By run: what was sent under each span's ID, as a hash."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.num_sent = 0
        self.num_failed = 0

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread = threading.Thread(target=self._run, name="tachograph-traces", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """One more round, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2 * TIMEOUT_S)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK's

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self._guarded()
        self._guarded()

    def _guarded(self) -> None:
        try:
            self.look()
        except StoreError as error:
            log.debug("runs' traces can't be read: %s", error)
        except Exception:
            self.num_failed += 1
            log.exception("a defect of Tachograph while exporting traces")

    def look(self) -> None:
        """Export what was settled since the last round; a run whose spans were not taken has its turn again."""
        shown = {key: (books_version, books) for key, books_version, books in self._shown()}
        if not shown:
            return  # none, or none is known of lately
        for key in set(self._versions) - set(shown):
            # Let go, or gone to another collector: what comes of it later is that one's to tell.
            del self._versions[key]
            self._sent.pop(key, None)
        for key, (books_version, books) in shown.items():
            since = self._versions.get(key, 0)
            if since == books_version:
                continue
            with self._database.read() as connection:
                spans = list(settled_spans(connection, key, books, since))
            if self._send(key, spans):
                self._versions[key] = books_version

    def _send(self, key: FoldedKey, spans: Sequence[RunSpan]) -> bool:
        sent = self._sent.setdefault(key, {})
        fresh = iter([span for span in spans if sent.get(span.span_id) != _hash(span)])
        while some := list(islice(fresh, AT_ONCE)):
            result = self._exporter.export([self._readable(span) for span in some])
            if result is not SpanExportResult.SUCCESS:
                self.num_failed += 1
                return False
            sent.update((span.span_id, _hash(span)) for span in some)
            self.num_sent += len(some)
        return True

    def _readable(self, span: RunSpan) -> ReadableSpan:
        def context(span_id: int) -> SpanContext:
            return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=None if span.parent_id is None else context(span.parent_id),
            resource=self._resource,
            attributes=span.attributes,
            status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=span.start_us * 1000,
            end_time=span.end_us * 1000,
            instrumentation_scope=self._scope,
        )


def _hash(span: RunSpan) -> int:
    return hash((span.start_us, span.end_us, span.error, tuple(span.attributes.items())))
