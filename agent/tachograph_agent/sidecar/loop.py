"""The agent's loop: read what is new, ship it, confirm it, delete what is confirmed.

One batch is on its way at a time. It is written down before it is sent (``Positions.pending``), and confirmed when the
collector has said that it is stored; a segment is deleted when all of it is confirmed and its writer is done with it.
So whatever dies, nothing recorded is lost; what is sent twice goes by the same name. Confirmations are written down
with the next batch, or when there is none: one sync to disk a batch.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tachograph_agent.sidecar import deadletter
from tachograph_agent.sidecar.batch import STEP_MARK, Batch, batch_of, halves, has_lifecycle
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.liveness import Liveness
from tachograph_agent.sidecar.losses import losses
from tachograph_agent.sidecar.own_events import OwnEvents
from tachograph_agent.sidecar.ship import Answer, Backoff, Fate
from tachograph_agent.sidecar.status import Status
from tachograph_agent.spool.follow import Follower
from tachograph_agent.spool.positions import Positions, Range

BATCH_BYTES = 2 * 1024 * 1024
LEAST_BATCH_BYTES = 64 * 1024
FLUSH_S = 5.0
POLL_S = 0.25
"""How often the spool is looked at: a death is told within this, and news of a life sent."""
STATUS_S = 1.0
log = logging.getLogger("tachograph.agent")


class Sends(Protocol):
    """One batch on its way, as ``Sender`` does it."""

    def start(self, batch: Batch) -> None:
        """Begin to send."""
        ...

    def take(self) -> Answer | None:
        """The answer, once; None while there is none."""
        ...

    def prepare(self, batch: Batch) -> None:
        """Do now what can be done before a batch is sent."""
        ...


class Loop:
    """Moves events from a spool to a collector. ``tick`` does what is due and gives the seconds until more may be.

    Not thread-safe. Raises nothing for what a spool, a disk or a collector does: it says it once and goes on.
    """

    def __init__(
        self,
        spool: Path,
        state_directory: Path,
        sender: Sends,
        node: str,
        *,
        own: OwnEvents | None = None,
        counters: Counters | None = None,
        flush_s: float = FLUSH_S,
        batch_bytes: int = BATCH_BYTES,
        max_bytes_per_s: float = 64 * 1024 * 1024,
        chance: random.Random | None = None,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self.node = node
        self.counters = counters if counters is not None else Counters()
        self.own = own or OwnEvents(spool, node, unix_clock)
        self.positions = Positions.load(state_directory / "positions.json")
        self.follower = Follower(spool, self.positions.marks, self.own.is_ours)
        self.follower.on_lost = lambda path, lines: self.drop(lines, f"{path} was deleted before it was sent")
        self.liveness = Liveness(self.follower, self.own)
        self.backoff = Backoff(chance or random.Random())
        self.status = Status()
        self._state_directory = state_directory
        self._sender = sender
        self._flush_s = flush_s
        self._batch_bytes = batch_bytes
        self._max_bytes_per_s = max_bytes_per_s
        self._unix_clock = unix_clock
        self._held: list[tuple[Range, bytes]] = []
        self._held_bytes = 0
        self._is_held_urgent = False
        self._queue: deque[Batch] = deque()
        """Batches to be sent before anything new: the one that an earlier agent sent, halves of one too large."""
        self._is_on_its_way = False
        self._is_dirty = False
        self._next_flush_s: float | None = None
        self._next_try_s = 0.0
        self._sent_s = 0.0
        self._next_status_s = 0.0
        self._said: set[str] = set()
        self._is_resumed = False
        if self.positions.problem:
            log.warning("%s", self.positions.problem)

    def tick(self, now_s: float, *, drain: bool = False) -> float:
        """Do what is due at ``now_s`` (monotonic); ``drain`` ships without waiting for more. Seconds until the next."""
        self._hear(now_s)
        self.follower.poll()
        if not self._is_resumed:
            self._resume()
        self._judge()
        self._read()
        self._say_problems()
        is_busy = self._ship(now_s, drain=drain)
        if self._is_dirty and not is_busy:
            self._save()
        if now_s >= self._next_status_s:
            self._clear()
            self.status = self._look_at_self()
            self._next_status_s = now_s + STATUS_S
        if self._is_on_its_way:
            return POLL_S
        if self._queue or self._is_due(now_s, drain=drain):
            return min(max(self._next_try_s - now_s, 0.0), POLL_S)
        return POLL_S

    @property
    def is_empty(self) -> bool:
        """Whether everything in the spool is confirmed, but for lines that are being written."""
        return not (self._queue or self._held or self._is_dirty or self.follower.unread_bytes())

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is awaited."""
        return self._is_on_its_way

    def segments_in_use(self) -> set[str]:
        """Segments with lines that are held in memory or on their way."""
        parts = [part for part, _ in self._held] + [part for batch in self._queue for part in batch.ranges]
        return {part.segment for part in parts}

    # -- what to send ------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Send the batch of an earlier agent again whose answer is not known: the same bytes under the same name."""
        self._is_resumed = True
        pending = self.positions.pending
        parts = [(part, data) for part in pending if (data := self.follower.again(part)) is not None]
        if parts and len(parts) == len(pending):
            self._queue.append(batch_of(self.node, parts))
            for part in pending:
                followed = self.follower.followed[part.segment]
                followed.read = max(followed.read, part.end)

    def _judge(self) -> None:
        if self.liveness.look(self._unix_clock()):
            self._save()
        num_told = self.liveness.tell()
        if num_told:
            self.counters.deaths += num_told
            self._is_dirty = True
            self.follower.poll()  # so that they go with what is read now

    def _read(self) -> None:
        if self._held_bytes >= self._batch_bytes // 2:
            return
        for part, data in self.follower.read(self._batch_bytes - self._held_bytes):
            self._held.append((part, data))
            self._held_bytes += len(data)
            self._is_held_urgent = self._is_held_urgent or has_lifecycle(data)
            self.counters.lines_read += data.count(b"\n")
            self.liveness.note_steps(self.follower.followed[part.segment], data)

    def _is_due(self, now_s: float, *, drain: bool) -> bool:
        """Whether the lines held go now: steps may wait for more, news of a life may not."""
        if not self._held:
            self._next_flush_s = None
            return False
        if self._next_flush_s is None:
            self._next_flush_s = now_s + self._flush_s * self.backoff.chance.uniform(0.8, 1.2)
        is_full = self._held_bytes >= self._batch_bytes // 2
        return drain or is_full or self._is_held_urgent or now_s >= self._next_flush_s

    def _pack(self) -> None:
        parts, self._held, self._held_bytes, self._is_held_urgent = self._held, [], 0, False
        self._next_flush_s = None
        batch = batch_of(self.node, parts)
        self.counters.torn_lines += batch.num_torn
        self._queue.append(batch)

    # -- sending -----------------------------------------------------------------------------------------------------

    def _ship(self, now_s: float, *, drain: bool) -> bool:
        """Send the next batch if it may go. True if the positions were written down with it, or it is still away."""
        # While one is away the next is packed: a backlog then waits for nothing but the collector.
        if len(self._queue) <= self._is_on_its_way and self._is_due(now_s, drain=drain):
            if self._is_on_its_way and self._held_bytes < self._batch_bytes // 2:
                return False
            self._pack()
            if self._is_on_its_way:
                self._sender.prepare(self._queue[-1])
        if self._is_on_its_way or now_s < self._next_try_s:
            return False
        if not self._queue:
            return False
        batch = self._queue[0]
        if self._is_dirty or self.positions.pending != batch.ranges:
            self.positions.pending = batch.ranges
            self._save()
        self._is_on_its_way, self._sent_s = True, now_s
        self._sender.start(batch)
        self.counters.batches_sent += 1
        return True

    def _hear(self, now_s: float) -> None:
        """What became of the batch on its way, if that is known by now."""
        answer = self._sender.take() if self._is_on_its_way else None
        if answer is None:
            return
        self._is_on_its_way = False
        batch = self._queue[0]
        match answer.fate:
            case Fate.STORED:
                self._stored(batch, answer)
                self._next_try_s = self._sent_s + len(batch.lines) / self._max_bytes_per_s
            case Fate.TOO_LARGE:
                self._split(batch, answer)
            case Fate.REFUSED:
                self._refused(batch, answer)
            case Fate.LATER | Fate.NOT_ALLOWED:
                self.counters.retries += 1
                self._next_try_s = now_s + self.backoff.delay_s(answer)
                self._say_once(
                    answer.fate.value, "events are not taken (%s); kept in the spool, tried again", answer.detail
                )

    def _stored(self, batch: Batch, answer: Answer) -> None:
        if self.backoff.num_failures:
            log.info("events are taken again after %d failed attempts", self.backoff.num_failures)
        self.backoff.succeeded()
        self._said -= {Fate.LATER.value, Fate.NOT_ALLOWED.value}
        self.counters.events_stored += answer.num_accepted
        self.counters.events_rejected += answer.num_rejected
        self.counters.bytes_sent += len(batch.lines)
        self.counters.last_stored_unix_s = self._unix_clock()
        if answer.num_rejected:
            reasons = "; ".join(answer.reasons)
            self._say_once("rejected", "%d events were rejected one by one: %s", answer.num_rejected, reasons)
        self._confirm(batch)

    def _confirm(self, batch: Batch) -> None:
        self._queue.popleft()
        self.positions.confirm(batch.ranges)
        self._is_dirty = True

    def _split(self, batch: Batch, answer: Answer) -> None:
        parts = [(part, data) for part in batch.ranges if (data := self.follower.again(part)) is not None]
        smaller = halves(self.node, parts) if len(parts) == len(batch.ranges) else []
        if len(smaller) < 2:
            self._refused(batch, answer)
            return
        self.counters.batches_split += 1
        self._batch_bytes = max(LEAST_BATCH_BYTES, min(self._batch_bytes, len(batch.lines) // 2))
        self._queue.popleft()
        self._queue.extendleft(reversed(smaller))

    def _refused(self, batch: Batch, answer: Answer) -> None:
        self.counters.batches_refused += 1
        path = deadletter.keep(self._state_directory / "dead-letter", batch, answer.detail)
        if path is None:
            self.drop(batch.lines, "the collector refused it and the disk the dead letter")
        where = "not kept" if path is None else f"kept in {path}"
        log.error("%d events were refused for good (%s); %s", batch.num_lines, answer.detail, where)
        self._confirm(batch)

    def drop(self, lines: bytes, why: str) -> None:
        """Count lines that are given up, and say so in a ``gap`` of each run that they are of."""
        num_steps, num_lines = lines.count(STEP_MARK), lines.count(b"\n")
        self.counters.dropped["step"] += num_steps
        self.counters.dropped["lifecycle"] += num_lines - num_steps
        now_unix_s = self._unix_clock()
        for loss in losses(lines):
            # Told at the time of what is missing, so that the minutes after it are not taken for incomplete too.
            t = min(now_unix_s, now_unix_s if loss.last_unix_s is None else loss.last_unix_s)
            self.own.write("gap", t=t, run=loss.run, dropped=loss.num_events, since=loss.first_unix_s, detail=why)
        log.error("%d events are lost: %s", num_lines, why)

    # -- what is done ------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        """Delete segments that the collector has whole, whose writer is gone, and about whom all is told."""
        for followed in list(self.follower.followed.values()):
            if not followed.mark.is_settled or followed.is_stuck:
                continue
            if self.follower.final_size(followed) == followed.mark.offset:
                self.follower.remove(followed)
                self._is_dirty = True

    def _look_at_self(self) -> Status:
        behind = [known for known in self.follower.followed.values() if known.size > known.mark.offset]
        return Status(
            self.liveness.live_runs(),
            sum(known.size - known.mark.offset for known in behind),
            len(self.follower.followed),
            min((known.changed_unix_s for known in behind), default=None),
        )

    def _save(self) -> None:
        try:
            self.positions.save()
            self._said.discard("positions")
        except OSError as error:
            # Shipping goes on: what is sent again after a restart, the collector recognises event by event.
            self._say_once("positions", "positions can't be written: %s", error)
        self._is_dirty = False

    def _say_problems(self) -> None:
        for key, problem in self.follower.problems.items():
            self._say_once(key, "%s", problem)

    def _say_once(self, key: str, message: str, *arguments: object) -> None:
        """Say a thing once, not at each try."""
        if key in self._said:
            return
        self._said.add(key)
        log.warning(message, *arguments)

    def close(self) -> None:
        """Write down what is confirmed and let all files go."""
        self.own.close()
        self._clear()
        self._save()
        self.follower.close()
