"""Drives the collector's application without a socket: a body arrives in whatever pieces a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from fastapi import FastAPI


@dataclass
class Answer:
    """What the application answered; ``status`` 0 if nothing, since the client had gone."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


class InProcess:
    """The application, started: ``with InProcess(app) as client``. One thread."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self._runner = asyncio.Runner()

    def __enter__(self) -> InProcess:
        self._lifespan = self.app.router.lifespan_context(self.app)
        self._runner.run(self._lifespan.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._lifespan.__aexit__(kind, error, trace))
        self._runner.close()

    def request(
        self,
        method: str,
        path: str,
        pieces: Iterable[bytes] = (),
        headers: Mapping[str, str] | None = None,
        *,
        then: str = "end",
    ) -> Answer:
        """One request. After the ``pieces`` the body is at its end; or the client goes away (``then="gone"``), or says
        nothing more (``"silence"``), or begins again without end (``"endless"``).
        """
        return self._runner.run(self._request(method, path, list(pieces), dict(headers or {}), then))

    def together(self, calls: list[tuple[str, str, list[bytes], dict[str, str]]]) -> list[Answer]:
        """Several requests at the same time."""

        async def all_of_them() -> list[Answer]:
            return await asyncio.gather(*(self._request(*call, "end") for call in calls))

        return self._runner.run(all_of_them())

    async def _request(self, method: str, path: str, pieces: list[bytes], headers: dict[str, str], then: str) -> Answer:
        path, _, query = path.partition("?")
        told = {"host": "127.0.0.1:8420"} | {name.lower(): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in told.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8420),
            "state": {},
        }
        waiting = list(pieces)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not waiting and then == "endless":
                waiting.extend(pieces)
            if waiting:
                piece = waiting.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(waiting) or then != "end"}
            if then == "silence":
                await asyncio.Event().wait()
            if then == "gone" or sent:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(dict(message))

        await self.app(scope, receive, send)
        if not sent:
            return Answer(0, {}, b"")
        found = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))
