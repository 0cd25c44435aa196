"""The agent's loop: read what is new, ship it, confirm it, delete what is confirmed.

One batch is on its way at a time. It is written down before it is sent (``Positions.pending``), and confirmed when the
collector has said that it is stored; a segment is deleted when all of it is confirmed and its writer is done with it.
So whatever dies, nothing recorded is lost; what is sent twice goes by the same name.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from pathlib import Path

from tachograph_agent.sidecar import deadletter
from tachograph_agent.sidecar.batch import Batch, batch_of, halves, has_lifecycle
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.ship import Answer, Backoff, Fate, Shipper
from tachograph_agent.spool.follow import Follower
from tachograph_agent.spool.positions import Positions, Range

BATCH_BYTES = 1024 * 1024
FLUSH_S = 5.0
log = logging.getLogger("tachograph.agent")


class Loop:
    """Moves events from a spool to a collector. ``tick`` does what is due and gives the seconds until more may be.

    Not thread-safe. Raises nothing for what a spool, a disk or a collector does: it says it once and goes on.
    """

    def __init__(
        self,
        spool: Path,
        state_directory: Path,
        shipper: Shipper,
        node: str,
        *,
        flush_s: float = FLUSH_S,
        batch_bytes: int = BATCH_BYTES,
        max_bytes_per_s: float = 64 * 1024 * 1024,
        chance: random.Random | None = None,
    ) -> None:
        self.node = node
        self.counters = Counters()
        self.positions = Positions.load(state_directory / "positions.json")
        self.follower = Follower(spool, self.positions.confirmed)
        self.backoff = Backoff(chance or random.Random())
        self._state_directory = state_directory
        self._shipper = shipper
        self._flush_s = flush_s
        self._batch_bytes = batch_bytes
        self._max_bytes_per_s = max_bytes_per_s
        self._held: list[tuple[Range, bytes]] = []
        self._held_bytes = 0
        self._queue: deque[Batch] = deque()
        """Batches to be sent before anything new: the one that an earlier agent sent, halves of one too large."""
        self._next_flush_s = 0.0
        self._next_try_s = 0.0
        self._said: set[str] = set()
        self._resumed = False

    def tick(self, now_s: float, *, drain: bool = False) -> float:
        """Do what is due at ``now_s`` (monotonic); ``drain`` ships without waiting for more. Seconds until the next."""
        self.follower.poll()
        self._say_problems()
        if not self._resumed:
            self._resume()
        self._read()
        if now_s < self._next_try_s:
            return min(0.5, self._next_try_s - now_s)
        batch = self._queue[0] if self._queue else self._next_batch(now_s, drain=drain)
        if batch is None:
            self._clear()
            return 0.2 if self._held else 0.5
        self._send(batch, now_s)
        return 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything in the spool is confirmed."""
        return not (self._queue or self._held or self.follower.unread_bytes())

    # -- what to send ------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Send the batch of an earlier agent again whose answer is not known: the same bytes under the same name."""
        self._resumed = True
        parts = [(part, data) for part in self.positions.pending if (data := self.follower.again(part)) is not None]
        if parts and tuple(part for part, _ in parts) == self.positions.pending:
            self._queue.append(batch_of(self.node, parts))

    def _read(self) -> None:
        for part, data in self.follower.read(self._batch_bytes - self._held_bytes):
            self._held.append((part, data))
            self._held_bytes += len(data)
            self.counters.lines_read += data.count(b"\n")

    def _next_batch(self, now_s: float, *, drain: bool) -> Batch | None:
        """The lines held, if they are due: steps may wait for more, news of a life may not."""
        if not self._held:
            self._next_flush_s = now_s + self._flush_s * self.backoff.chance.uniform(0.8, 1.2)
            return None
        urgent = drain or self._held_bytes >= self._batch_bytes // 2 or now_s >= self._next_flush_s
        if not urgent and not any(has_lifecycle(data) for _, data in self._held):
            return None
        parts, self._held, self._held_bytes = self._held, [], 0
        batch = batch_of(self.node, parts)
        self._queue.append(batch)
        self._next_flush_s = now_s + self._flush_s * self.backoff.chance.uniform(0.8, 1.2)
        return batch

    # -- sending -----------------------------------------------------------------------------------------------------

    def _send(self, batch: Batch, now_s: float) -> None:
        if self.positions.pending != batch.ranges:
            self.positions.pending = batch.ranges
            self._save()
        answer = self._shipper.send(batch) if batch.lines else Answer(Fate.STORED)
        self.counters.batches_sent += 1
        match answer.fate:
            case Fate.STORED:
                self._stored(batch, answer)
                self._next_try_s = now_s + len(batch.lines) / self._max_bytes_per_s
            case Fate.TOO_LARGE:
                self._split(batch, answer)
            case Fate.REFUSED:
                self._refused(batch, answer)
            case Fate.LATER | Fate.NOT_ALLOWED:
                self.counters.retries += 1
                self._next_try_s = now_s + self.backoff.delay_s(answer)
                self._say_once(answer.fate.value, "%s; kept in the spool, tried again: %s", answer)

    def _stored(self, batch: Batch, answer: Answer) -> None:
        self.backoff.succeeded()
        self._said.discard(Fate.LATER.value)
        self._said.discard(Fate.NOT_ALLOWED.value)
        self.counters.events_stored += answer.num_accepted
        self.counters.events_rejected += answer.num_rejected
        self.counters.bytes_sent += len(batch.lines)
        self.counters.last_stored_unix_s = time.time()
        if answer.num_rejected:
            self._say_once("rejected", "%s; the collector keeps them for inspection: %s", answer)
        self._confirm(batch)

    def _confirm(self, batch: Batch) -> None:
        self._queue.popleft()
        self.positions.confirm(batch.ranges)
        self._clear()
        self._save()

    def _split(self, batch: Batch, answer: Answer) -> None:
        parts = [(part, data) for part in batch.ranges if (data := self.follower.again(part)) is not None]
        smaller = halves(self.node, batch, parts) if parts else [batch]
        if len(smaller) == 1:
            self._refused(batch, answer)
            return
        self._queue.popleft()
        self._queue.extendleft(reversed(smaller))

    def _refused(self, batch: Batch, answer: Answer) -> None:
        self.counters.batches_refused += 1
        path = deadletter.keep(self._state_directory / "dead-letter", batch, answer.detail)
        log.error("%d events were refused for good (%s); kept in %s", batch.num_lines, answer.detail, path)
        self._confirm(batch)

    # -- what is done ------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        """Delete segments that the collector has whole and that nobody writes any more."""
        for followed in list(self.follower.followed.values()):
            confirmed = self.positions.confirmed.get(followed.name, 0)
            if confirmed >= followed.size > 0 and self.follower.final_size(followed) == confirmed:
                self.follower.remove(followed)

    def _save(self) -> None:
        try:
            self.positions.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            self.positions.save()
        except OSError as error:
            # Shipping goes on: what is sent again after a restart, the collector recognises event by event.
            self._say_once("positions", "positions can't be written: %s", error.strerror)

    def _say_problems(self) -> None:
        for problem in self.follower.problems.values():
            self._say_once(problem, "%s", problem)
        self.counters.torn_lines = self.follower.num_torn_lines

    def _say_once(self, key: str, message: str, *arguments: object) -> None:
        """Say a thing once, not at each try: an answer as its fate and detail."""
        if key in self._said:
            return
        self._said.add(key)
        flat = [part for argument in arguments for part in _parts(argument)]
        log.warning(message, *flat)


def _parts(argument: object) -> tuple[object, ...]:
    return (argument.fate.value, argument.detail or argument.reasons) if isinstance(argument, Answer) else (argument,)
