"""A collector for tests that keeps its word: what it answers 200 for is stored, and a batch name it knows is a repeat.

Faults are put in line with ``will``: each request takes the next one; without any, all is well. Use ``with Server() as
server:``; ``server.events`` is what was stored, each line decoded, repeats of a batch left out.
"""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

IDENTITY = ("kind", "run", "attempt", "node", "rank", "step", "name", "tier", "t")


def identity(event: dict[str, Any]) -> tuple[Any, ...]:
    """What makes two events one."""
    return tuple(str(event.get(name)) for name in IDENTITY)


class Server:
    """Listens on a port of its own on loopback. Thread-safe."""

    def __init__(
        self,
        *,
        token: str | None = None,
        max_bytes: int | None = None,
        certificate: tuple[Path, Path] | None = None,
        port: int = 0,
        clock_offset_s: float = 0.0,
    ) -> None:
        self.lock = threading.Lock()
        self.token = token
        self.max_bytes = max_bytes
        self.clock_offset_s = clock_offset_s
        self.batches: dict[str, bytes] = {}
        """Stored, by name."""
        self.heartbeats: list[dict[str, Any]] = []
        self.is_stopped = False
        self.num_requests = 0
        self.num_repeats = 0
        self.statuses: Counter[int] = Counter()
        self.stored = threading.Condition(self.lock)
        self._faults: deque[str] = deque()
        self.fault_of: Callable[[int], str | None] = lambda number: None
        """Instead of ``will``: the fault of the request with this number, from 1."""
        handler = type("Handler", (_Handler,), {"server_of_test": self})
        self._http = _Http(("127.0.0.1", port), handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._scheme = "https" if certificate else "http"
        self.port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def will(self, *faults: str) -> None:
        """Faults of the next batches (never of heartbeats), in turn.

        ``lose``: store, and cut the connection without an answer. ``cut``: cut before anything is stored. ``late:S``:
        store and answer after S seconds. ``503:S``, ``429:S``: with Retry-After S. ``400``, ``500`` …: this status.
        ``page``: 200 with something that is no collector's answer, nothing stored. ``ok``: no fault.
        """
        with self.lock:
            self._faults.extend(faults)

    def next_fault(self) -> str | None:
        """The fault of the request at hand."""
        with self.lock:
            self.num_requests += 1
            return self._faults.popleft() if self._faults else self.fault_of(self.num_requests)

    def store(self, name: str, lines: bytes) -> bool:
        """Store a batch; True if its name is known already."""
        with self.stored:
            is_known = name in self.batches
            if is_known:
                self.num_repeats += 1
                if self.batches[name] != lines:
                    raise AssertionError(f"the batch {name} came again with another content")
            else:
                self.batches[name] = lines
            self.stored.notify_all()
            return is_known

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events stored, in the order of arrival."""
        with self.lock:
            bodies = list(self.batches.values())
        return [json.loads(line) for body in bodies for line in body.splitlines()]

    def wait_for(self, condition: Callable[[Server], bool], timeout_s: float = 60.0) -> None:
        """Wait until ``condition`` holds, asked after each batch and now and then; fails after ``timeout_s``."""
        until_s = time.monotonic() + timeout_s
        while not condition(self):
            if time.monotonic() > until_s:
                kinds = Counter(event["kind"] for event in self.events)
                raise AssertionError(f"not within {timeout_s} s; {self.num_requests} requests, stored: {kinds}")
            with self.stored:
                self.stored.wait(0.05)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop listening, and cut what comes over connections that are open; what was stored stays readable."""
        self.is_stopped = True
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: agents are killed in the middle of a request, or don't like the certificate."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_test: ClassVar[Server]
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        server = self.server_of_test
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = self.headers["Tachograph-Batch"]
        if server.is_stopped:
            self._cut()
            return
        assert self.path == "/v1/events"
        if server.token is not None and self.headers["Authorization"] != f"Bearer {server.token}":
            self._answer(401, {"error": "token not known"})
            return
        is_beat = name.startswith("beat-")
        fault = None if is_beat else server.next_fault()
        if fault == "cut":
            self._cut()
            return
        status, _, seconds = (fault or "").partition(":")
        if status.isdigit():
            self._answer(int(status), {"error": f"told to answer {status}"}, retry_after=seconds or None)
            return
        if fault == "page":
            self._answer(200, b"<html>a proxy's page</html>")
            return
        if server.max_bytes is not None and len(body) > server.max_bytes:
            self._answer(413, {"error": f"more than {server.max_bytes} bytes"})
            return
        lines = _unpacked(body, self.headers["Content-Encoding"])
        if is_beat:
            with server.stored:
                server.heartbeats.extend(json.loads(line) for line in lines.splitlines())
                server.stored.notify_all()
            self._answer(200, {"accepted": lines.count(b"\n"), "rejected": 0, "reasons": [], "duplicate": False})
            return
        is_known = server.store(name, lines)
        if status == "late":
            time.sleep(float(seconds))
        if fault == "lose":
            self._cut()
            return
        number = lines.count(b"\n")
        self._answer(200, {"accepted": number, "rejected": 0, "reasons": [], "duplicate": is_known})

    def _answer(self, status: int, told: dict[str, Any] | bytes, retry_after: str | None = None) -> None:
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        with self.server_of_test.lock:
            self.server_of_test.statuses[status] += 1
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Tachograph-Time", f"{time.time() + self.server_of_test.clock_offset_s:.6f}")
            if retry_after is not None:
                self.send_header("Retry-After", retry_after)
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True  # the agent was killed meanwhile

    def _cut(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def _unpacked(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().decompress(body)
    return body
