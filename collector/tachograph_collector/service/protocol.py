"""uvicorn's HTTP connection with one more bound: a request's head must be here in time.

uvicorn times only connections that have been answered. One that is opened and says nothing, or a header a minute, would
be held for ever, and so would a file descriptor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from asyncio.events import TimerHandle

HEAD_WITHIN_S: Final = 15.0
MAX_HEAD_BYTES: Final = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not come, or whose head has no end."""

    _head_timer: TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A client is there; its first request is awaited."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some of a request is here."""
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > MAX_HEAD_BYTES:
            self._head_is_here()
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Its head is here."""
        self._head_is_here()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_WITHIN_S, self._late)

    def _head_is_here(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _late(self) -> None:
        self._head_timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
