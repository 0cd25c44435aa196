"""A collector that keeps its word: what it has said yes to, it has, once. Can be away for a while."""

from __future__ import annotations

import gzip
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StubCollector:
    """Stores batches by name on a port of its own, which it keeps when it goes away and comes back."""

    def __init__(self) -> None:
        self.batches: dict[str, bytes] = {}
        self.num_repeats = 0
        self._lock = threading.Lock()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self.come_back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def come_back(self) -> None:
        """Listen."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                is_new = collector._keep(self.headers["Tachograph-Batch"], body)
                count = body.count(b"\n")
                answer = json.dumps({"accepted": count, "rejected": 0, "reasons": [], "duplicate": not is_new}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("Tachograph-Time", f"{time.time():.6f}")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def go_away(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _keep(self, name: str, body: bytes) -> bool:
        with self._lock:
            if name in self.batches:
                self.num_repeats += 1
                return False
            self.batches[name] = body
            return True

    def lines(self) -> list[bytes]:
        """Every line of every batch, each batch once."""
        with self._lock:
            return [line for body in self.batches.values() for line in body.splitlines()]
