"""A stand-in for a collector: answers each request with what a test's function says, and remembers what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    """With its parameters, as it was sent."""
    headers: dict[str, str]
    body: bytes


@dataclass
class Says:
    """One answer. ``cut_to`` sends only so many bytes of what is announced."""

    status: int = 200
    body: bytes | Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_to: int | None = None

    def bytes(self) -> bytes:
        """The body as it is sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class StandIn:
    """Serves on a free port of this machine within a ``with`` block."""

    def __init__(self, answer: Callable[[Asked], Says]) -> None:
        self.asked: list[Asked] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                stand_in.asked.append(asked)
                says = answer(asked)
                content = says.bytes()
                self.send_response(says.status)
                for name, value in {"Content-Length": str(len(content)), **says.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content[: says.cut_to])
                self.close_connection = says.cut_to is not None

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - http.server finds them by these names

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
