"""What is done now and then beside everything else: partitions ahead, retention, and this collector's sign of life.

Each job has its own time between two turns, with some chance in it, so that several collectors don't do the same at
the same moment. Any number of them may: each job is one that can be done twice. A job that fails is told, and has its
next turn all the same.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from sqlalchemy import delete, insert, update

from tachograph_collector.service.settings import Settings
from tachograph_collector.store.compact import Compactor
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.partitions import make_partitions
from tachograph_collector.store.prune import Retention, prune
from tachograph_collector.store.schema import replicas

ALIVE_EVERY_S: Final = 10.0
PARTITIONS_EVERY_S: Final = 3600.0
PRUNE_EVERY_S: Final = 3600.0
COMPACT_EVERY_S: Final = 10.0
COMPACT_FOR_S: Final = 3.0
"""Of each turn; what is left over is done in the next ones."""
GONE_AFTER_US: Final = 86_400_000_000
"""A collector that gave no sign of life for a day is forgotten."""
CHANCE: Final = random.Random().random
"""Its own, since another thread may have set the shared one to repeat what it does."""

log = logging.getLogger("tachograph.service")


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done every ``every_s`` seconds, a fifth more or less, the first time at once."""

    name: str
    every_s: float
    do: Callable[[], object]


class Upkeep:
    """The thread that does the jobs, one after the other. ``turn`` does what is due now, for tests."""

    def __init__(
        self,
        jobs: Sequence[Job],
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = CHANCE,
        *,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._jobs = list(jobs)
        self._clock = clock
        self._chance = chance
        self._at_end = Job("the word of its end", 0.0, at_end)
        self._due_s = {job.name: clock() for job in self._jobs}
        self._failed: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="tachograph-upkeep", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End after the job that is being done, and do what belongs to the end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._do(self._at_end)

    def _run(self) -> None:
        while not self._stop.wait(max(0.0, self.turn())):
            pass

    def turn(self) -> float:
        """Do all that is due; the seconds until something is."""
        for job in self._jobs:
            if self._due_s[job.name] > self._clock() or self._stop.is_set():
                continue
            self._do(job)
            self._due_s[job.name] = self._clock() + job.every_s * (0.8 + 0.4 * self._chance())
        return min(self._due_s.values(), default=ALIVE_EVERY_S) - self._clock()

    def _do(self, job: Job) -> None:
        try:
            job.do()
        except StoreUnavailableError as error:
            if self._failed.get(job.name) != str(error):
                log.warning("%s could not be done: %s", job.name, error)
            self._failed[job.name] = str(error)
        except Exception:
            log.exception("a defect of Tachograph: %s could not be done", job.name)
        else:
            if self._failed.pop(job.name, None) is not None:
                log.info("%s is done again", job.name)


def jobs_for(settings: Settings, database: Database) -> list[Job]:
    """The jobs of a collector."""
    compactor = Compactor(database)
    return [
        Job("the sign of life", ALIVE_EVERY_S, lambda: say_alive(database, settings.replica)),
        Job("making partitions", PARTITIONS_EVERY_S, lambda: _make_partitions(database)),
        Job("packing stored steps together", COMPACT_EVERY_S, lambda: compactor.work(COMPACT_FOR_S)),
        Job("deleting what is old", PRUNE_EVERY_S, lambda: _prune(database, retention_of(settings))),
    ]


def retention_of(settings: Settings) -> Retention:
    """How long each kind is kept."""

    def us(seconds: float | None) -> int | None:
        return None if seconds is None else round(seconds * 1e6)

    return Retention(
        steps_us=us(settings.keep_steps_s),
        heartbeats_us=us(settings.keep_heartbeats_s),
        events_us=us(settings.keep_events_s),
        batches_us=us(settings.keep_batches_s),
        rejected_us=us(settings.keep_rejected_s),
    )


def _prune(database: Database, retention: Retention) -> None:
    report = prune(database, retention)
    taken = [f"{num} {kind}" for kind, num in report.num_rows.items() if num] + report.partitions
    if taken:
        log.info("deleted what was old: %s", ", ".join(taken))


def _make_partitions(database: Database) -> None:
    made = make_partitions(database)
    if made:
        log.info("made %s", ", ".join(made))


def say_alive(database: Database, replica: str) -> None:
    """Write down that this collector is here, and forget those that are long gone."""
    with database.write() as connection:
        now_us = database.now_us(connection)
        seen = connection.execute(update(replicas).where(replicas.c.replica == replica).values(seen_us=now_us))
        if not seen.rowcount:
            row = {"replica": replica, "started_us": now_us, "seen_us": now_us, "version": version("tachograph")}
            connection.execute(insert(replicas).values(row))
        connection.execute(delete(replicas).where(replicas.c.seen_us < now_us - GONE_AFTER_US))


def say_gone(database: Database, replica: str) -> None:
    """Write down that this collector is not here any more."""
    with database.write() as connection:
        connection.execute(delete(replicas).where(replicas.c.replica == replica))
