"""What stands at the other end of a sink: an HTTP server that keeps what came and behaves as a test tells it.

``Server`` answers 200 to everything. ``Grafana`` keeps annotations as Grafana's HTTP API documents it. ``then`` says
how the next requests go: a status, with headers; ``loses``: it is done, but no answer comes; ``holds``: no answer until
``release``.
"""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Came:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Behaviour:
    """How one request goes: ``status`` None is as usual."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    loses: bool = False
    holds: bool = False
    only: str | None = None
    """A method; others are not concerned."""


class Server:
    """Listens on a free port of this machine while its ``with`` block lasts."""

    def __init__(self) -> None:
        self.came: list[Came] = []
        self.arrived = threading.Semaphore(0)
        """Released with each request, before it is answered."""
        self._next: deque[Behaviour] = deque()
        self._released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                server._handle(self)

            do_GET = do_POST = do_PATCH = do_DELETE = _do  # noqa: N815 - as http.server wants it

            def log_message(self, *_: object) -> None:
                pass

        self._httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._httpd.daemon_threads = True
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._httpd.server_address[1]}"

    def then(self, *behaviours: Behaviour) -> None:
        """How the next requests go."""
        self._next.extend(behaviours)

    def release(self) -> None:
        """Answer what is held."""
        self._released.set()

    def answer(self, came: Came) -> tuple[int, bytes]:
        """As usual."""
        return 200, b"{}"

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        came = Came(handler.command, handler.path, dict(handler.headers.items()), body)
        behaviour = Behaviour()
        if self._next and self._next[0].only in {None, came.method}:
            behaviour = self._next.popleft()
        if behaviour.status is None:
            status, said = self.answer(came)
        else:
            status, said = behaviour.status, behaviour.body
        self.came.append(came)
        self.arrived.release()
        if behaviour.holds:
            self._released.wait(60)
        if behaviour.loses:
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        handler.send_response(status)
        for name, value in behaviour.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(said)))
        handler.end_headers()
        handler.wfile.write(said)


class Grafana(Server):
    """``/api/annotations``: POST makes one, PATCH changes it, GET finds by tags (all of them), DELETE."""

    def __init__(self, token: str = "glsa_secret") -> None:
        super().__init__()
        self.token = token
        self.annotations: dict[int, dict[str, Any]] = {}
        self._ids = itertools.count(11)

    def answer(self, came: Came) -> tuple[int, bytes]:
        if came.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, b'{"message":"Invalid API key"}'
        parts = urlsplit(came.path)
        number = int(parts.path.rpartition("/")[2]) if parts.path.count("/") == 3 else None
        if not parts.path.startswith("/api/annotations") or (number is not None and number not in self.annotations):
            return 404, b'{"message":"Annotation not found"}'
        if came.method == "GET":
            wanted = set(parse_qs(parts.query)["tags"])
            found = [{"id": key, **each} for key, each in self.annotations.items() if wanted <= set(each["tags"])]
            return 200, json.dumps(found[::-1]).encode()
        if came.method == "POST":
            number = next(self._ids)
            self.annotations[number] = {"timeEnd": came.json()["time"], **came.json()}
            return 200, json.dumps({"message": "Annotation added", "id": number}).encode()
        assert number is not None
        if came.method == "DELETE":
            del self.annotations[number]
            return 200, b'{"message":"Annotation deleted"}'
        self.annotations[number] |= came.json()
        return 200, b'{"message":"Annotation patched"}'
