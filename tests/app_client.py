"""The collector's application in this process, asked as over HTTP: its routes and middleware, without a socket."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import httpx
from fastapi import FastAPI


class AppClient:
    """A context in which the application is started; cookies are kept from request to request."""

    def __init__(self, app: FastAPI, base_url: str = "http://127.0.0.1:8420") -> None:
        self.app = app
        self._base_url = base_url

    def __enter__(self) -> AppClient:
        self._runner = asyncio.Runner()
        self._lifespan: AbstractAsyncContextManager[Any] = self.app.router.lifespan_context(self.app)
        self._runner.run(self._lifespan.__aenter__())
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=self._base_url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._client.aclose())
            self._runner.run(self._lifespan.__aexit__(kind, error, trace))
        finally:
            self._runner.close()

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request, with httpx's arguments."""
        return self._runner.run(self._client.request(method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", path, **more)
