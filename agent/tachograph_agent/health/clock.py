"""The check of the clock: how far it is from the collector's, and whether it was set while the agent looked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tachograph_agent.health.finding import Finding

WARNING_S, CRITICAL_S = 2.0, 30.0


class NodeClock:
    """``offset_s`` gives the collector's clock less this node's as measured, None while it is not known."""

    name = "clock"
    every_s = 30.0
    timeout_s = 10.0

    def __init__(
        self,
        offset_s: Callable[[], float | None],
        unix_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._offset_s = offset_s
        self._unix_clock = unix_clock
        self._monotonic = monotonic
        self._last_base_s: float | None = None

    def look(self) -> Iterable[Finding]:
        """An offset that is large, and a step of the clock since the last look."""
        found = []
        base_s = self._unix_clock() - self._monotonic()
        last_s, self._last_base_s = self._last_base_s, base_s
        if last_s is not None and abs(base_s - last_s) > WARNING_S:
            set_s = base_s - last_s
            detail = f"the clock was set by {set_s:+.3f} s"
            found.append(Finding("clock", _severity(set_s), detail, round(set_s, 3), subject="set", lasts=False))
        offset_s = self._offset_s()
        if offset_s is not None and abs(offset_s) > WARNING_S:
            detail = f"the collector's clock less this node's is {offset_s:+.3f} s"
            found.append(Finding("clock", _severity(offset_s), detail, round(offset_s, 3), subject="offset"))
        return found


def _severity(seconds: float) -> str:
    return "critical" if abs(seconds) > CRITICAL_S else "warning"
