"""What is answered when something is wrong: ``application/problem+json`` (RFC 9457), on every route.

Raise ``Problem`` anywhere below a route. What FastAPI and Starlette raise themselves (unknown routes, wrong methods,
values that don't validate) and what the store raises come out in the same form; a defect of ours does, too, without
what it was about.
"""

from __future__ import annotations

import logging
import random
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.store.database import RETRY_AFTER_S, StoreError, StoreUnavailableError

MEDIA_TYPE = "application/problem+json"
MAX_SHOWN = 200
"""Characters of a value that is shown back."""
_CHANCE = random.Random().random  # its own, as in upkeep

log = logging.getLogger("tachograph.service")


class Problem(Exception):  # noqa: N818 - RFC 9457's own word for it
    """An answer that says what was wrong: ``detail`` names the value and what to do. ``extra`` are further members."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        type: str = "about:blank",  # noqa: A002 - RFC 9457's name
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
        self.headers = headers or {}
        self.extra = extra

    def body(self) -> bytes:
        """The JSON of it. Text that is no Unicode (a lone surrogate) is shown as ``?``."""
        told = {"type": self.type, "title": self.title, "status": self.status, "detail": _plain(self.detail)}
        return msgspec.json.encode(told | self.extra)

    def response(self) -> Response:
        """The answer."""
        return Response(self.body(), self.status, self.headers, MEDIA_TYPE)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def later(status: int, detail: str, after_s: float, title: str | None = None) -> Problem:
    """429 or 503 with ``Retry-After``, spread over twice the time so that not all come back at once."""
    wait_s = max(1, round(after_s * (1.0 + _CHANCE())))
    return Problem(status, title or HTTPStatus(status).phrase, detail, headers={"Retry-After": str(wait_s)})


def shown(value: object) -> str:
    """A value as an answer shows it: short, and in one line."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def install(app: FastAPI) -> None:
    """Have every error of ``app`` answered as a problem."""

    @app.exception_handler(Problem)
    async def _(_request: Request, problem: Problem) -> Response:
        return problem.response()

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        phrase = HTTPStatus(error.status_code).phrase
        detail = str(error.detail)
        if error.status_code == 404 and detail == phrase:
            detail = f"there is no {shown(request.url.path)} here; /openapi.json lists what there is"
        elif error.status_code == 405:
            detail = f"{request.method} is not what {shown(request.url.path)} takes; the Allow header says what is"
        headers = dict(error.headers) if error.headers else None
        return Problem(error.status_code, phrase, detail, headers=headers).response()

    @app.exception_handler(RequestValidationError)
    async def _(_request: Request, error: RequestValidationError) -> Response:
        wrong = [
            {"where": ".".join(str(part) for part in each["loc"]), "message": str(each["msg"])}
            for each in error.errors()[:10]
        ]
        first = wrong[0] if wrong else {"where": "the request", "message": "is not valid"}
        detail = f"{first['where']}: {first['message']}"
        return Problem(422, "Invalid value", detail, errors=wrong).response()

    @app.exception_handler(StoreError)
    async def _(_request: Request, error: StoreError) -> Response:
        log.warning("the database does not answer: %s", error)
        after_s = error.retry_after_s if isinstance(error, StoreUnavailableError) else RETRY_AFTER_S
        return later(503, "the database does not answer", after_s).response()

    @app.exception_handler(Exception)
    async def _(request: Request, error: Exception) -> Response:
        log.error("a defect of Tachograph at %s %s", request.method, request.scope.get("route_path", request.url.path))
        log.debug("the defect", exc_info=error)
        detail = "a defect of Tachograph; the collector's log says where"
        return Problem(500, HTTPStatus(500).phrase, detail).response()
