"""OpenTelemetry: what a real receiver gets of the collector itself, and of runs as traces."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import no_keeper
import pytest
from app_client import AppClient
from live_runs import Folding, put, run_with_a_failure
from no_keeper import NoKeeper
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from otlp_receiver import Receiver, Span
from tachograph_collector.service.app import create_app
from tachograph_collector.service.figures import Figures
from tachograph_collector.service.metrics import Scrape
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.telemetry import RunTraces, Telemetry
from tachograph_collector.store.database import Database


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    opened = Database(sqlite_url)
    yield opened
    opened.close()


class Case:
    """A collector's parts around one run, driven by the test."""

    def __init__(self, database: Database, receiver: Receiver, folding: Folding | None = None) -> None:
        self.database = database
        self.folding = folding or Folding(database)
        self.figures = Figures(database, self.folding.keeper.holder)
        exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces", timeout=30)
        self.traces = RunTraces(
            database, lambda: [(each.key, each.version, each.books) for each in self.figures.shown_now()], exporter
        )

    def look(self) -> None:
        self.folding.fold()
        self.figures.look()
        self.traces.look()


def by_name(spans: list[Span], name: str) -> list[Span]:
    return sorted((span for span in spans if span.name == name), key=lambda span: span.start_ns)


def test_what_is_settled_of_a_run_is_one_trace(database: Database, receiver: Receiver) -> None:
    case = Case(database, receiver)
    put(database, run_with_a_failure(end="completed"))
    case.look()
    spans = receiver.spans
    assert {span.service for span in spans} == {"tachograph-runs"}
    assert len({span.trace_id for span in spans}) == 1
    assert len({span.span_id for span in spans}) == len(spans)
    [run] = by_name(spans, "run")
    assert (run.parent_id, run.attributes["tachograph.run"]) == (b"", "llama-1")
    first, second = by_name(spans, "attempt")
    assert {first.parent_id, second.parent_id} == {run.span_id}
    assert (first.is_error, first.message, first.attributes["tachograph.how"]) == (True, "hardware", "failure")
    assert not second.is_error
    [restart] = by_name(spans, "restart")
    assert restart.attributes["tachograph.category"] == "hardware"
    assert restart.attributes["tachograph.lost_s"] == pytest.approx(90, abs=10)
    assert first.start_ns < restart.start_ns <= first.end_ns < restart.end_ns < second.end_ns
    saves = by_name(spans, "checkpoint")
    assert len(saves) > 20
    assert {save.parent_id for save in saves} == {first.span_id, second.span_id}
    assert run.start_ns <= min(span.start_ns for span in spans)
    assert run.end_ns >= max(span.end_ns for span in spans if span.name != "run")


def test_what_is_under_way_is_told_when_it_is_over(sqlite: Database, receiver: Receiver) -> None:
    case = Case(sqlite, receiver)
    events = run_with_a_failure(end="completed")
    put(sqlite, events[:-1])
    case.look()
    assert Counter(span.name for span in receiver.spans).keys() == {"attempt", "restart", "checkpoint"}
    assert len(by_name(receiver.spans, "attempt")) == 1
    put(sqlite, events[-1:])
    case.look()
    assert len(by_name(receiver.spans, "attempt")) == 2
    assert len(by_name(receiver.spans, "run")) == 1


def test_a_second_look_sends_nothing_twice(sqlite: Database, receiver: Receiver) -> None:
    case = Case(sqlite, receiver)
    put(sqlite, run_with_a_failure())
    case.look()
    num = len(receiver.spans)
    now = time.time()
    put(sqlite, [{"kind": "health", "t": now, "run": "llama-1", "check": "x", "severity": "info"}])
    case.look()
    assert len(receiver.spans) == num > 0


def test_another_collector_tells_the_same_under_the_same_ids(sqlite: Database, receiver: Receiver) -> None:
    case = Case(sqlite, receiver)
    put(sqlite, run_with_a_failure())
    case.look()
    first = set(receiver.spans)
    receiver.spans.clear()
    Case(sqlite, receiver, case.folding).look()
    assert set(receiver.spans) == first


def test_what_a_receiver_did_not_take_is_sent_again(sqlite: Database, receiver: Receiver) -> None:
    case = Case(sqlite, receiver)
    put(sqlite, run_with_a_failure())
    receiver.status = 400
    case.look()
    assert (receiver.spans, case.traces.num_failed) == ([], 1)
    receiver.status = 200
    case.look()
    assert len(by_name(receiver.spans, "attempt")) == 1


def test_replayed_runs_are_no_traces(sqlite: Database, receiver: Receiver) -> None:
    case = Case(sqlite, receiver)
    put(sqlite, run_with_a_failure(origin="replay"), origin="replay")
    case.look()
    assert receiver.spans == []


def test_commits_and_folds_are_spans_and_every_series_is_a_metric(sqlite: Database, receiver: Receiver) -> None:
    folding = Folding(sqlite)
    app = create_app(Settings(database_url=str(sqlite)), sqlite, folding.keeper)
    scrape = app.state.service.extra["scrape"]
    assert isinstance(scrape, Scrape)
    telemetry = Telemetry(app.state.service, scrape.figures, scrape.own, receiver.url + "/")
    put(sqlite, run_with_a_failure())
    folding.fold()
    scrape.figures.look()
    telemetry.stop()
    folds = by_name(receiver.spans, "ledger.fold")
    assert folds
    assert {span.service for span in folds} == {"tachograph-collector"}
    assert sum(int(str(span.attributes["tachograph.events"])) for span in folds) == len(run_with_a_failure())
    assert all(span.end_ns >= span.start_ns for span in folds)
    [figures] = scrape.figures.shown_now()
    assert receiver.value(
        "tachograph_run_goodput_ratio", run="llama-1", window="total", bound="upper", tenant=1
    ) == pytest.approx(figures.books.goodput)
    assert receiver.value("tachograph_run_lost_work_seconds", run="llama-1", tenant=1) is not None
    assert receiver.value("tachograph_collector_folds") == folding.keeper.snapshot().counters.folds
    assert {point.is_counter for point in receiver.points if point.name == "tachograph_collector_folds"} == {True}


def test_the_environment_s_endpoint_is_enough(
    sqlite: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    with AppClient(create_app(Settings(database_url=str(sqlite)), sqlite, NoKeeper())) as client:
        line = b'{"kind":"run.start","t":%d,"run":"a"}\n' % time.time()
        assert client.post("/v1/events", content=line).status_code == 200
    [commit] = by_name(receiver.spans, "ingest.commit")
    assert commit.attributes["tachograph.events"] == 1
    assert receiver.value("tachograph_collector_events", result="accepted") == 1
    assert receiver.value("tachograph_collector_commit_seconds_count") == 1


def test_a_receiver_that_is_away_holds_up_nobody_and_ends_with_the_collector(
    sqlite: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver() as gone:
        url = gone.url
    with AppClient(create_app(Settings(database_url=str(sqlite), otlp_endpoint=url), sqlite, NoKeeper())) as client:
        line = b'{"kind":"run.start","t":%d,"run":"a"}\n' % time.time()
        assert client.post("/v1/events", content=line).status_code == 200
        assert client.get("/metrics").status_code == 200


def test_a_collector_goes_on_without_where_the_sdk_is_told_nonsense(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("tachograph"), "propagate", True)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    settings = Settings(database_url=str(sqlite), otlp_endpoint="http://otel.example:4318")
    with AppClient(create_app(settings, sqlite, NoKeeper())) as client:
        assert client.get("/metrics").status_code == 200
    assert "nothing is sent by OTLP" in caplog.text


def test_no_sdk_is_imported_where_nobody_wants_it(sqlite_url: str) -> None:
    program = (
        "import sys; from tachograph_collector.service.app import create_app;"
        "from tachograph_collector.service.settings import Settings;"
        "from no_keeper import NoKeeper;"
        "from tachograph_collector.store.database import Database;"
        f"create_app(Settings(), Database({sqlite_url!r}), NoKeeper());"
        "sys.exit(any(name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter')) for name in sys.modules))"
    )
    beside = {**os.environ, "PYTHONPATH": str(Path(no_keeper.__file__).parent)}
    assert subprocess.run([sys.executable, "-c", program], env=beside, timeout=60, check=False).returncode == 0
