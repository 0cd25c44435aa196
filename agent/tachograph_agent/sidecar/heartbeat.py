"""Says that the node's agent is alive: one event a live run, by a timer and a connection of its own.

A heartbeat tells of this moment only: one that the collector does not take is dropped, never stored. Whatever holds up
the spool or the shipping does not hold up the heartbeat. At the agent's end a last one says good-bye, so that a node
whose agent is stopped is not taken for dead.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tachograph_agent.sidecar.batch import Batch
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.sender import Ships
from tachograph_agent.sidecar.ship import Fate
from tachograph_agent.sidecar.status import Status

REMEMBERED_S = 60.0
"""A run whose last rank here is gone is still told about this long, with no rank alive."""


@dataclass(slots=True)
class _Known:
    live: LiveRun
    seen_s: float


class Heartbeat:
    """Builds and sends heartbeats. ``beat`` is one; ``start`` beats from a thread until ``stop``."""

    def __init__(
        self,
        ships: Ships,
        node: str,
        status: Callable[[], Status],
        counters: Counters,
        *,
        interval_s: float = 5.0,
        clock_offset_s: Callable[[], float | None] = lambda: None,
        metrics_address: Callable[[], str | None] = lambda: None,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._ships = ships
        self._node = node
        self._status = status
        self._counters = counters
        self._interval_s = interval_s
        self._clock_offset_s = clock_offset_s
        self._metrics_address = metrics_address
        self._unix_clock = unix_clock
        self._seq = 0
        self._known: dict[tuple[str, int | str | None], _Known] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        # Names of batches must not come again after a restart.
        self._prefix = os.urandom(8).hex()

    def events(self, now_s: float, *, goodbye: bool = False) -> list[dict[str, Any]]:
        """The heartbeats due now, one a run; ``seq`` counts the agent's beats."""
        status = self._status()
        for key, live in status.runs.items():
            self._known[key] = _Known(live, now_s)
        for key, known in list(self._known.items()):
            if now_s - known.seen_s > REMEMBERED_S:
                del self._known[key]
        self._seq += 1
        metrics_address = self._metrics_address() if self._known else None
        told = []
        for key, known in self._known.items():
            alive = status.runs[key].alive if key in status.runs else []
            event = {
                "kind": "heartbeat",
                "t": round(self._unix_clock(), 6),
                "run": known.live.run,
                "attempt": known.live.attempt,
                "node": self._node,
                "seq": self._seq,
                "interval_s": self._interval_s,
                "ranks_alive": len(alive),
                "ranks": sorted(alive),
                "step": known.live.step,
                "queue_bytes": status.unconfirmed_bytes,
                "dropped": sum(self._counters.dropped.values()),
                "clock_offset_s": self._clock_offset_s(),
                "metrics_address": metrics_address,
                "goodbye": True if goodbye else None,
            }
            told.append({name: value for name, value in event.items() if value is not None})
        return told

    def beat(self, now_s: float, *, goodbye: bool = False) -> bool:
        """Send what is due; False if it was dropped."""
        events = self.events(now_s, goodbye=goodbye)
        if not events:
            return True
        lines = b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)
        answer = self._ships.send(Batch(f"beat-{self._prefix}-{self._seq}", (), lines))
        if answer.fate is not Fate.STORED:
            self._counters.heartbeats_dropped += len(events)
            return False
        self._counters.heartbeats_sent += len(events)
        return True

    def start(self) -> None:
        """Beat from a thread; a daemon, since nothing may wait for it."""
        self._thread = threading.Thread(target=self._run, name="tachograph-heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._stop.wait(max(next_s - time.monotonic(), 0.0)):
            self.beat(time.monotonic())
            # Beats that fell into a collector's silence are gone, not made up for.
            next_s = max(next_s + self._interval_s, time.monotonic())

    def stop(self, timeout_s: float) -> None:
        """Stop the timer and say good-bye, within ``timeout_s``."""
        self._stop.set()
        last = threading.Thread(target=self._goodbye, args=(timeout_s,), name="tachograph-goodbye", daemon=True)
        last.start()
        last.join(timeout_s)

    def _goodbye(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return  # the connection is stuck; so would the good-bye be
        self.beat(time.monotonic(), goodbye=True)
