"""Gathers the batches that wait into one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey


class Gather:
    """Batches that wait for the database, and the thread that stores all of them at once."""

    def __init__(self, database: Database, wake: Callable[[Iterable[RunKey]], None], max_waiting_bytes: int) -> None:
        self._database = database
        self._wake = wake
        self._max_waiting_bytes = max_waiting_bytes

    def start(self) -> None:
        """Begin to store."""

    def stop(self, timeout_s: float) -> None:
        """Store what was taken, then end."""
