"""The short way in: ``POST /v1/events`` goes past the router, whose search costs more than the whole of the route.

Everything else of it is as for other routes: the guard looks first, and a defect is answered as one.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tachograph_collector.service.guard import Guard
from tachograph_collector.service.ingest import Events
from tachograph_collector.service.settings import Settings

PATH: Final = "/v1/events"


class Front:
    """ASGI middleware, to be added last, so that it is the outermost."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._events = Guard(Events(), settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST":
            await self._events(scope, receive, send)
        else:
            await self._app(scope, receive, send)
