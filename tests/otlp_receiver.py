"""An OTLP receiver over HTTP: takes what the SDK sends, in the protocol's own encoding, and keeps it for the test."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint


@dataclass(frozen=True)
class Span:
    """One span as it came over the wire; times in Unix nanoseconds."""

    service: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, object] = field(hash=False)
    is_error: bool
    message: str


@dataclass(frozen=True)
class Point:
    """One value of a metric."""

    name: str
    attributes: dict[str, object] = field(hash=False)
    value: float
    is_counter: bool


class Receiver:
    """Listens on a free port of this machine while its ``with`` block lasts. ``status`` is what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.spans: list[Span] = []
        self.points: list[Point] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.headers["Content-Type"] == "application/x-protobuf"
                answer = receiver.take(self.path, body) if receiver.status == 200 else b""
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Receiver:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, body: bytes) -> bytes:
        """Keep what one request brought; the encoded answer."""
        if path == "/v1/traces":
            self._take_spans(ExportTraceServiceRequest.FromString(body))
            return ExportTraceServiceResponse().SerializeToString()
        assert path == "/v1/metrics", path
        self._take_points(ExportMetricsServiceRequest.FromString(body))
        return ExportMetricsServiceResponse().SerializeToString()

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            service = str(_attributes(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Span(
                            service=service,
                            trace_id=span.trace_id,
                            span_id=span.span_id,
                            parent_id=span.parent_span_id,
                            name=span.name,
                            start_ns=span.start_time_unix_nano,
                            end_ns=span.end_time_unix_nano,
                            attributes=_attributes(span.attributes),
                            is_error=span.status.code == 2,
                            message=span.status.message,
                        )
                    )

    def _take_points(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points: list[NumberDataPoint] = [*metric.gauge.data_points, *metric.sum.data_points]
                    for point in points:
                        value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
                        self.points.append(
                            Point(metric.name, _attributes(point.attributes), value, metric.HasField("sum"))
                        )

    def value(self, name: str, **attributes: object) -> float | None:
        """The newest value of a metric with exactly those attributes; None if it never came."""
        found = [each.value for each in self.points if each.name == name and each.attributes == attributes]
        return found[-1] if found else None


def _attributes(told: object) -> dict[str, object]:
    pairs: list[KeyValue] = list(told)  # type: ignore[call-overload]  # a repeated field of protobuf's
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    return getattr(value, value.WhichOneof("value") or "string_value")
