"""Gives the node's health checks their turn, and tells what they find to every run that has ranks here.

A finding is the node's: each such run is told it, without an attempt, since it belongs to the one that ran at its time.
A run whose last rank has just gone still counts, because a GPU that dies takes its ranks with it before the kernel's
line is read. With no run at all a finding is logged and counted; what lasts is told to the next run when it begins, as
is what can't be seen here.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tachograph_agent.health.runner import Health
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.own_events import OwnEvents
from tachograph_agent.sidecar.status import Status

REMEMBERED_S = 60.0
"""As in heartbeats."""
NUM_TIMES = 1000
log = logging.getLogger("tachograph.agent")


class NodeHealth:
    """``watch`` is given a turn at each look at the spool; it never blocks and raises nothing."""

    def __init__(
        self,
        own: OwnEvents,
        health: Health,
        status: Callable[[], Status],
        counters: Counters,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._own = own
        self._health = health
        self._status = status
        self._counters = counters
        self._seen_s: dict[str, float] = {}
        """Runs that are told, and when they last had ranks here."""
        self._unix_clock = unix_clock
        self._times: deque[float] = deque(maxlen=NUM_TIMES)

    def watch(self, now_s: float) -> None:
        """Start the looks that are due at ``now_s`` (monotonic) and tell what others have found."""
        here = {live.run for live in self._status().runs.values() if live.alive}
        begun = sorted(here - self._seen_s.keys())
        self._seen_s.update(dict.fromkeys(here, now_s))
        for run in [run for run, seen_s in self._seen_s.items() if now_s - seen_s > REMEMBERED_S]:
            del self._seen_s[run]
        for told in self._health.open() if begun else ():
            self._tell(begun, told)
        for told in self._health.run_due(now_s):
            self._say(told)
            self._tell(sorted(self._seen_s), told)

    def _say(self, told: Mapping[str, Any]) -> None:
        """Once a finding, however many runs are told."""
        severity, check = str(told["severity"]), str(told["check"])
        if severity == "info":
            log.info("health, %s: %s", check, told["detail"])
            return
        self._counters.findings[check, severity] += 1
        log.warning("health, %s, %s: %s", check, severity, told["detail"])

    def _tell(self, runs: Iterable[str], told: Mapping[str, Any]) -> None:
        fields = {name: value for name, value in told.items() if name != "t"}
        # Two findings of one node at one time would be one event, whatever they say: they are a microsecond apart.
        t = round(told.get("t", self._unix_clock()), 6)
        while t in self._times:
            t = round(t + 1e-6, 6)
        self._times.append(t)
        for run in runs:
            self._own.write("health", t=t, run=run, **fields)
