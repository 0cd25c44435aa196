"""Plays deliveries into a collector when they arrive, as agents would send them, on a thread of its own.

What is due goes out several times a second, one request a run. However it ends, ``close`` tells of each run that it is
over and of each of its nodes that it says good-bye, so that a collector that goes on holds nothing against it.
"""

from __future__ import annotations

import gzip
import heapq
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

from tachograph_agent.events import Heartbeat, KnownEvent, RunEnd, encode

from tachograph_collector.client import Client
from tachograph_collector.client.errors import ClientError
from tachograph_collector.synthetic import Delivery

TICK_S: Final = 0.25
ORIGIN: Final = "rehearsal"
AGENT: Final = "tachograph-rehearse"
ENDS_WITHIN_S: Final = 10.0


class Played:
    """One run's deliveries, and what was told of it."""

    def __init__(self, run: str, deliveries: Iterable[Delivery]) -> None:
        self.run = run
        self._deliveries: Iterator[Delivery] = iter(deliveries)
        self.next = next(self._deliveries, None)
        self.nodes: dict[str, None] = {}
        self.has_begun = self.is_over = False
        self.attempt: int | str | None = None

    def take(self) -> list[KnownEvent]:
        """The events of the next delivery."""
        assert self.next is not None, "only what is due is taken"
        events = self.next.events
        self.next = next(self._deliveries, None)
        self.has_begun = True
        for event in events:
            if isinstance(event, Heartbeat) and event.node is not None:
                self.nodes[event.node] = None
                self.attempt = event.attempt
            self.is_over = self.is_over or isinstance(event, RunEnd)
        return events


class Player:
    """Plays runs. ``start`` returns at once; ``failure`` is what ended it early."""

    def __init__(self, client: Client, runs: Iterable[Played]) -> None:
        self._client = client
        self._runs = list(runs)
        self._stop = threading.Event()
        self._prefix = f"rehearse-{os.urandom(8).hex()}"
        self._num_batches = 0
        self._thread: threading.Thread | None = None
        self.failure: ClientError | None = None
        self.late_s = 0.0
        """How late something was sent, at worst."""
        self.num_sent = 0
        self.num_rejected = 0
        self.reasons: list[str] = []

    def start(self) -> None:
        """Play from a thread."""
        self._thread = threading.Thread(target=self._play, name="tachograph-rehearse", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether everything was played, or nothing more will be."""
        return self._thread is not None and not self._thread.is_alive()

    def close(self) -> None:
        """Stop playing, and close what was begun."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(ENDS_WITHIN_S)
        now_s = time.time()
        for one in self._runs:
            if not one.has_begun or one.is_over:
                continue
            last: list[KnownEvent] = [RunEnd(t=now_s, run=one.run, status="cancelled")]
            for node in one.nodes:
                beat = Heartbeat(t=now_s, run=one.run, node=node, attempt=one.attempt, ranks_alive=0)
                beat.unknown_fields = {"goodbye": True}
                last.append(beat)
            try:
                self._send(last)
            except ClientError as error:
                self.failure = self.failure or error
            one.is_over = True

    def _play(self) -> None:
        waiting = [(one.next.arrives_s, place) for place, one in enumerate(self._runs) if one.next is not None]
        heapq.heapify(waiting)
        try:
            while waiting and not self._stop.is_set():
                now_s = time.time()
                due: dict[int, list[KnownEvent]] = {}
                while waiting and waiting[0][0] <= now_s:
                    at_s, place = heapq.heappop(waiting)
                    self.late_s = max(self.late_s, now_s - at_s - TICK_S)
                    one = self._runs[place]
                    due.setdefault(place, []).extend(one.take())
                    if one.next is not None:
                        heapq.heappush(waiting, (one.next.arrives_s, place))
                for events in due.values():
                    self._send(events)
                self._stop.wait(TICK_S)
        except ClientError as error:
            self.failure = error

    def _send(self, events: list[KnownEvent]) -> None:
        self._num_batches += 1
        body = b"".join(encode(event) + b"\n" for event in events)
        sent = self._client.send(
            gzip.compress(body, 1, mtime=0),
            f"{self._prefix}-{self._num_batches}",
            encoding="gzip",
            origin=ORIGIN,
            agent=AGENT,
        )
        self.num_sent += sent.accepted
        self.num_rejected += sent.rejected
        self.reasons += sent.reasons[: 5 - len(self.reasons)]
