"""A recorded run into a collector: events in batches whose names are made of what they hold and where it stood.

So the same log sent twice makes the same batches, and what is there already is recognised; that holds for a load that
broke off, too. A run that is recorded live is never written to.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tachograph_agent.events import AnyEvent, encode

from tachograph_collector.client.client import Client
from tachograph_collector.client.errors import ClientError, ProblemError, UnknownRunError
from tachograph_collector.client.records import Sent
from tachograph_collector.report.text import visible

ORIGIN: Final = "replay"
MAX_EVENTS: Final = 10_000
MAX_BYTES: Final = 4 << 20
"""Of one batch, before it is compressed; well below what a collector takes."""
NUM_REASONS: Final = 5
_LEVEL: Final = 1
"""Of gzip: the way to the collector is seldom what a load waits for."""


class LiveRunError(ClientError):
    """The run is one that is recorded live."""


@dataclass(slots=True)
class Uploaded:
    """What a load has done so far."""

    runs: list[str] = field(default_factory=list)
    """In the order in which the log names them."""
    num_accepted: int = 0
    num_rejected: int = 0
    num_known: int = 0
    """Events of batches that were there already."""
    reasons: list[str] = field(default_factory=list)


class Upload:
    """Sends events in order. ``add`` takes as many as come; ``finish`` sends the rest."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lines: list[bytes] = []
        self._num_bytes = 0
        self._num_batches = 0
        self._runs: dict[str, None] = {}
        self.done = Uploaded()

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Send these, or keep them until a batch is full. Raises ``ClientError``; ``LiveRunError`` for a live run."""
        for event in events:
            if event.run not in self._runs:
                self._check(event.run)
                self._runs[event.run] = None
                self.done.runs.append(event.run)
            line = encode(event)
            if self._lines and (len(self._lines) >= MAX_EVENTS or self._num_bytes + len(line) > MAX_BYTES):
                self._flush()
            self._lines.append(line)
            self._num_bytes += len(line) + 1

    def finish(self) -> Uploaded:
        """Send what is left, and say what became of everything."""
        self._flush()
        return self.done

    def _check(self, run: str) -> None:
        try:
            origin = self._client.run(run).place().origin
        except UnknownRunError:
            return
        if origin != ORIGIN:
            sent = f"; {self.done.num_accepted:,} events of other runs were loaded" if self.done.num_accepted else ""
            raise LiveRunError(
                f"{self._client.url} has a run {visible(run, 200)!r} already, of origin {visible(origin, 20)}, which a "
                f"recorded log must not be mixed with; nothing was written to it{sent}. Load the log into another "
                "collector, or rename the run in it"
            )

    def _flush(self) -> None:
        if self._lines:
            self._send(self._lines, str(self._num_batches))
            self._num_batches += 1
            self._lines = []
            self._num_bytes = 0

    def _send(self, lines: Sequence[bytes], place: str) -> None:
        """One batch; in halves where the collector finds it too large."""
        body = b"\n".join([*lines, b""])
        try:
            sent = self._client.send(
                gzip.compress(body, _LEVEL, mtime=0),
                batch_name(place, body),
                encoding="gzip",
                origin=ORIGIN,
                agent="tachograph-replay",
            )
        except ProblemError as error:
            if error.status != 413 or len(lines) < 2:
                raise
            middle = len(lines) // 2
            self._send(lines[:middle], f"{place}.0")
            self._send(lines[middle:], f"{place}.1")
        else:
            self._count(sent, len(lines))

    def _count(self, sent: Sent, num_lines: int) -> None:
        if sent.duplicate:
            self.done.num_known += num_lines
            return
        self.done.num_accepted += sent.accepted
        self.done.num_rejected += sent.rejected
        self.done.reasons += sent.reasons[: NUM_REASONS - len(self.done.reasons)]


def batch_name(place: str, body: bytes) -> str:
    """The name of a batch: the same for the same lines in the same place of a load."""
    told = hashlib.sha256(place.encode() + b"\n" + body)
    return f"replay-{told.hexdigest()[:40]}"


def wait_until_booked(client: Client, runs: Iterable[str], wait: Callable[[], bool]) -> list[str]:
    """Ask until the books tell of all that is stored. The runs of which they don't when ``wait`` says enough."""
    left = list(runs)
    while True:
        left = [run for run in left if not client.run(run).place().is_booked]
        if not left or not wait():
            return left
