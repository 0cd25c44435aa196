"""The in-test collector, which can be away for a while and come back with what it had, at the same address."""

from __future__ import annotations

from agent_server.server import Server
from free_ports import free_port


class StubCollector:
    """Stores batches by name; ``go_away`` refuses connections until ``come_back``."""

    def __init__(self) -> None:
        self._server = Server(port=free_port()).__enter__()
        self._port = self._server.port

    @property
    def url(self) -> str:
        """Where agents send to; the same all the time."""
        return f"http://127.0.0.1:{self._port}"

    def go_away(self) -> None:
        """Stop listening."""
        self._server.stop()

    def come_back(self) -> None:
        """Listen again, and know what was stored before."""
        returned = Server(port=self._port)
        # The same dictionary, not a copy: an answer may be on its way in a thread of the one that went.
        returned.batches = self._server.batches
        self._server = returned.__enter__()

    def lines(self) -> list[bytes]:
        """Every line of every batch, each batch once."""
        with self._server.lock:
            return [line for body in self._server.batches.values() for line in body.splitlines()]
