"""Tells by how much this node's clock differs from the collector's: measured with each batch, never applied."""

from __future__ import annotations

from collections.abc import Callable

from tachograph_agent.sidecar.own_events import OwnEvents
from tachograph_agent.sidecar.status import Status

EVERY_S = 300.0


class ClockOffset:
    """Writes a ``health`` event (check ``clock``, value in seconds) every five minutes for each live run."""

    def __init__(self, own: OwnEvents, offset_s: Callable[[], float | None], status: Callable[[], Status]) -> None:
        self._own = own
        self._offset_s = offset_s
        self._status = status
        self._next_s = 0.0

    def watch(self, now_s: float) -> None:
        """Write what is due at ``now_s``; nothing while no exchange has measured it, or no run is here."""
        offset_s = self._offset_s()
        runs = self._status().runs
        if now_s < self._next_s or offset_s is None or not runs:
            return
        self._next_s = now_s + EVERY_S
        for live in runs.values():
            self._own.write(
                "health",
                run=live.run,
                attempt=live.attempt,
                check="clock",
                value=round(offset_s, 6),
                severity="info",
                detail="the collector's clock less this node's",
            )
