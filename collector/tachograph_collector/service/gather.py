"""Gathers the batches that wait into one transaction: while one is being committed, the next ones wait together.

Who hands in a batch hears nothing before its transaction is durable. What the database can't take alone is set apart,
so that one batch never holds up those beside it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy.exc import ProgrammingError

from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.writer import Batch, Outcome, store

MAX_EVENTS: Final = 200_000
"""In one transaction, if more than one batch waits; the rest goes into the next."""
FOLLOWS_AFTER_S: Final = 0.05
"""A transaction begins no sooner after the one before began, unless there is much to store: what it costs by itself, in
the database and here, is shared by all that come meanwhile. Nobody waits longer for it than that."""
ENOUGH_EVENTS: Final = 2_000
"""So many are worth a transaction of their own."""
ANSWER_WITHIN_S: Final = 60.0
"""A database that hangs is answered as one that is away."""

_LACKS: Final = frozenset({"42P01", "42703", "42501", "3F000"})
"""PostgreSQL's codes for a table, a column, a right and a schema that is missing."""

log = logging.getLogger("tachograph.service")


class Commit(NamedTuple):
    """One attempt to store what waited: when it began (Unix nanoseconds), how long it took, and what came of it."""

    began_unix_ns: int
    took_s: float
    outcomes: Sequence[Outcome]
    """One a batch; none where nothing was stored."""
    problem: str | None = None


class NotStoredError(Exception):
    """The database refuses this batch for what is in it; another try would end the same way."""


class StoppingError(Exception):
    """The collector is about to end and takes nothing more."""


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Outcome]

    def tell(self, result: Outcome | Exception) -> None:
        """From the storing thread: hand over what became of it."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(_settle, self.answer, result)


def _settle(answer: asyncio.Future[Outcome], result: Outcome | Exception) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


class Gather:
    """Batches that wait for the database, and the thread that stores all of them at once.

    ``put`` belongs to event loops; ``start`` and ``stop`` to whoever owns it.
    """

    def __init__(self, database: Database, wake: Callable[[Iterable[RunKey]], None]) -> None:
        self._database = database
        self._wake = wake
        self._queue: deque[_Waiting] = deque()
        self._num_events = 0
        """In the queue."""
        self._began_s = float("-inf")
        self._some = threading.Condition()
        self.is_stopping = False
        self._thread: threading.Thread | None = None
        self.num_transactions = 0
        self.num_batches = 0
        self.watchers: list[Callable[[Commit], None]] = []
        """Told of each commit by the thread that stores; none of them may raise or wait."""
        self.problem: str | None = None
        """Why the last transaction failed; None after one that did not."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_alive(self) -> bool:
        """Whether the thread that stores is there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to store."""
        self._thread = threading.Thread(target=self._run, name="tachograph-store", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Take nothing more, store what was taken, then end, within ``timeout_s``."""
        with self._some:
            self.is_stopping = True
            self._some.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                log.error("%d batches were taken and not stored; nobody was told that they were", len(self._queue))

    async def put(self, batch: Batch) -> Outcome:
        """Have the batch stored; returns when it is durable.

        Raises ``StoreUnavailableError`` (worth another try), ``NotStoredError`` (not worth one), ``StoppingError``.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        with self._some:
            if self.is_stopping:
                raise StoppingError
            self._queue.append(_Waiting(batch, loop, answer))
            self._num_events += len(batch.events)
            if len(self._queue) == 1 or self._num_events >= ENOUGH_EVENTS:
                self._some.notify()
        timer = loop.call_later(
            ANSWER_WITHIN_S, _settle, answer, StoreUnavailableError("the database has not answered in time")
        )
        try:
            return await answer
        finally:
            timer.cancel()

    def _run(self) -> None:
        while True:
            with self._some:
                while not self._queue and not self.is_stopping:
                    self._some.wait()
                if not self._queue:
                    return
                self._let_gather()
                waiting = self._take()
            if not waiting:
                continue
            try:
                self._store(waiting)
            except Exception:
                log.exception("a defect of Tachograph while storing")
                for each in waiting:
                    each.tell(StoreUnavailableError("a defect; the collector's log says where"))

    def _let_gather(self) -> None:
        """Wait a moment for more, if a transaction has just been and there is little yet."""
        due_s = self._began_s + FOLLOWS_AFTER_S
        while not self.is_stopping and self._num_events < ENOUGH_EVENTS and (left_s := due_s - time.monotonic()) > 0:
            self._some.wait(left_s)
        self._began_s = time.monotonic()

    def _take(self) -> list[_Waiting]:
        """All that wait, up to the bound; those whose client gave up are left out."""
        taken: list[_Waiting] = []
        num_events = 0
        while self._queue:
            if taken and num_events + len(self._queue[0].batch.events) > MAX_EVENTS:
                break
            each = self._queue.popleft()
            self._num_events -= len(each.batch.events)
            if each.answer.done():
                continue
            taken.append(each)
            num_events += len(each.batch.events)
        return taken

    def _store(self, waiting: Sequence[_Waiting]) -> None:
        """One transaction of all; where the database refuses what is in it, one of each, so that one suffers alone."""
        began_unix_ns, began_s = time.time_ns(), time.monotonic()
        try:
            stored = store(self._database, [each.batch for each in waiting])
        except Exception as error:
            away = _away(error)
            if away is not None:
                self._tell_watchers(Commit(began_unix_ns, time.monotonic() - began_s, (), str(away)))
                if self.problem is None:
                    log.warning("nothing can be stored: %s", away)
                self.problem = str(away)
                for each in waiting:
                    each.tell(away)
                return
            if len(waiting) > 1:
                for each in waiting:
                    self._store([each])
                return
            self._tell_watchers(Commit(began_unix_ns, time.monotonic() - began_s, (), type(error).__name__))
            batch = waiting[0].batch
            # Without the traceback, whose last lines would have the values of all its rows.
            log.error("batch %s of %s can't be stored: %s", batch.batch_id, batch.agent, _reason(error))  # noqa: TRY400 - as said
            log.debug("why", exc_info=error)
            waiting[0].tell(NotStoredError(_reason(error)))
            return
        if self.problem is not None:
            log.info("storing again")
        self.problem = None
        self.num_transactions += 1
        self.num_batches += len(waiting)
        self._tell_watchers(Commit(began_unix_ns, time.monotonic() - began_s, stored.outcomes))
        for each, outcome in zip(waiting, stored.outcomes, strict=True):
            each.tell(outcome)
        self._wake(stored.touched)

    def _tell_watchers(self, commit: Commit) -> None:
        for watcher in self.watchers:
            watcher(commit)


def _away(error: Exception) -> StoreUnavailableError | None:
    """The error as one of the database, whatever is to be stored; None where a batch's own values may be to blame.

    What is refused is a dead letter for good, so nobody's batch may be refused for a table or a right that is missing.
    """
    if isinstance(error, StoreUnavailableError):
        return error
    if isinstance(error, StoreError):
        return StoreUnavailableError(str(error))
    if isinstance(error, ProgrammingError) and getattr(error.orig, "sqlstate", None) in _LACKS:
        return StoreUnavailableError(f"the database is not as it should be: {_reason(error)}")
    return None


def _reason(error: Exception) -> str:
    """The first line of it: what follows in a driver's error is the statement and all its values."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
