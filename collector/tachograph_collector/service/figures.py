"""Prepares what a scrape shows, in a thread of its own, so that a scrape reads no database and computes nothing.

Every few seconds the runs whose lease this collector holds are read anew where they changed, and their series are
written as text, one text a tenant. What takes longer (the model, the slowest ranks) has a second thread: one run at a
time, each at most once a minute, and never more than a tenth of that thread's time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from sqlalchemy import Connection, and_, func, or_, select

from tachograph_collector.ledger.books import Details
from tachograph_collector.live.leases import LEASE_US
from tachograph_collector.model.advice import Predicted
from tachograph_collector.model.judge import judge
from tachograph_collector.service.incident_figures import Flagged, read_flagged
from tachograph_collector.service.run_figures import (
    Busy,
    Forecast,
    Held,
    Newest,
    RunFigures,
    held_runs,
    read_figures,
    read_newest,
    refreshed,
)
from tachograph_collector.service.run_metrics import RunMetrics
from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.folded_reader import (
    FoldedKey,
    read_attempts,
    read_checkpoints,
    read_restarts,
    read_segments,
)
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import leases, runs

EVERY_S: Final = 4.0
MOST_S: Final = 8.0
"""Less often than every so many seconds it is never done, since what is shown must be of a lease that holds."""
SHOWN_FOR_S: Final = LEASE_US / 1e6
"""What was prepared longer ago isn't shown: another collector may fold, and show, these runs by now."""
MAX_RUNS: Final = 200
"""Runs with series at once; the newest, if there are more. Own metrics say how many are left out."""
JUDGED_EVERY_S: Final = 60.0
REST: Final = 9.0
"""After a judgement that took so long, none for so many times as long."""
PAUSE_S: Final = 0.02
"""Within a judgement, for requests to have their turn: they and it share Python's lock."""

log = logging.getLogger("tachograph.service")


class Lag(NamedTuple):
    """How far the ledgers are behind what was stored, over all collectors of the database."""

    num_runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was prepared last. ``texts``: by tenant, in Prometheus' text format."""

    at_s: float
    shown: Sequence[RunFigures] = ()
    texts: Mapping[int, bytes] = field(default_factory=dict)
    num_held: int = 0
    num_left_out: int = 0
    lag: Lag | None = None


@dataclass(slots=True)
class _Slow:
    """What takes longer to find out about a run, and when it was."""

    busy: Busy = field(default_factory=Busy)
    newest: Newest = field(default_factory=Newest)
    forecast: Forecast = field(default_factory=Forecast)
    found_s: float = float("-inf")
    version: int = -1


class Figures:
    """Keeps ``prepared`` up to date, from ``start`` to ``stop``: ``look`` is a round, ``judge_one`` the longer work."""

    def __init__(
        self,
        database: Database,
        holder: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        origins: Sequence[str] = ("live",),
    ) -> None:
        self._origins = origins
        self._database = database
        self._holder = holder
        self._clock = clock
        self._known: dict[FoldedKey, RunFigures] = {}
        self._slow: dict[FoldedKey, _Slow] = {}
        self._fences: dict[RunKey, int] = {}
        self._stopping = threading.Event()
        self._paused_s = 0.0
        self._threads: list[threading.Thread] = []
        self.prepared = Prepared(clock())
        self.num_failed = 0
        """Rounds that failed; what was prepared before them stays."""

    @property
    def age_s(self) -> float:
        """How long ago it was prepared."""
        return self._clock() - self.prepared.at_s

    def shown_now(self) -> Sequence[RunFigures]:
        """The runs behind ``texts_now``, of all tenants."""
        return self.prepared.shown if self.age_s <= SHOWN_FOR_S else ()

    def texts_now(self) -> Mapping[int, bytes]:
        """The series by tenant, if they were prepared lately."""
        return self.prepared.texts if self.age_s <= SHOWN_FOR_S else {}

    def start(self) -> None:
        """Begin."""
        for name, work in (("tachograph-figures", self._read_on), ("tachograph-judge", self._judge_on)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(10.0)

    def _read_on(self) -> None:
        wait_s = 0.0
        while not self._stopping.wait(wait_s):
            began_s = self._clock()
            self._guarded(self.look)
            # Where reading takes long, it is done less often.
            wait_s = min(max(EVERY_S, 10 * (self._clock() - began_s)), MOST_S)

    def _judge_on(self) -> None:
        wait_s = 1.0
        while not self._stopping.wait(wait_s):
            began_s, self._paused_s = self._clock(), 0.0
            self._guarded(self.judge_one)
            wait_s = max(1.0, REST * (self._clock() - began_s - self._paused_s))

    def _pause(self) -> None:
        began_s = self._clock()
        self._stopping.wait(PAUSE_S)
        self._paused_s += self._clock() - began_s

    def _guarded(self, work: Callable[[], object]) -> None:
        """Whatever goes wrong is counted and said, and the next round tries again."""
        try:
            work()
        except StoreError as error:
            self.num_failed += 1
            log.debug("metrics can't be prepared: %s", error)
        except Exception:
            self.num_failed += 1
            log.exception("a defect of Tachograph while preparing metrics")

    def look(self) -> None:
        """Read what changed, and write the series. Raises ``StoreError`` where the database can't be read."""
        at_s = self._clock()
        with self._database.read() as connection:
            now_us = self._database.now_us(connection)
            held = held_runs(connection, self._holder, now_us, MAX_RUNS + 1, self._fences, self._origins)
            found: dict[FoldedKey, RunFigures] = {}
            for one in held[:MAX_RUNS]:
                figures = self._read(connection, one)
                if figures is not None:
                    found[one.key] = figures
            found = _with_flagged(connection, found)
            lag = _lag(connection, now_us)
            num_held = _num_held(connection, self._holder, now_us)
        self._fences = {one.key.run: one.fence for one in held[:MAX_RUNS]}
        self._known = found
        for key in set(self._slow) - set(found):
            self._slow.pop(key, None)
        complete = self._complete()
        self.prepared = Prepared(
            at_s=at_s,
            shown=complete,
            texts=_texts(complete),
            num_held=num_held,
            num_left_out=max(1, num_held - MAX_RUNS) if len(held) > MAX_RUNS else 0,
            lag=lag,
        )

    def _read(self, connection: Connection, held: Held) -> RunFigures | None:
        known = self._known.get(held.key)
        if known is not None and known.version == held.version:
            return refreshed(connection, known, held)
        return read_figures(connection, held)

    def judge_one(self) -> bool:
        """Do the longer work for the run that waited longest for it; False if none is due."""
        due_s = self._clock() - JUDGED_EVERY_S
        waiting = [
            (slow.found_s, figures)
            for key, figures in self._known.items()
            if (slow := self._slow.get(key, _Slow())).found_s <= due_s and slow.version != figures.version
        ]
        if not waiting:
            return False
        figures = min(waiting, key=lambda pair: pair[0])[1]
        self._slow[figures.key] = self._closer(figures)
        return True

    def _closer(self, figures: RunFigures) -> _Slow:
        found = _Slow(found_s=self._clock(), version=figures.version)
        try:
            with self._database.read() as connection:
                details = _details(connection, figures.key)
                found.busy, found.newest = read_newest(connection, figures.key.run, self._pause)
            found.forecast = forecast(figures, details)
        except StoreError:
            raise
        except Exception:
            # One run whose numbers the model can't take must not take the metrics of all others with it.
            log.exception("a defect of Tachograph while judging run %r", figures.books.run)
        return found

    def _complete(self) -> list[RunFigures]:
        """All runs, with what was found out about them last."""
        told = []
        for key, figures in self._known.items():
            slow = self._slow.get(key, _Slow())
            told.append(replace(figures, busy=slow.busy, newest=slow.newest, forecast=slow.forecast))
        return told


def _with_flagged(connection: Connection, found: Mapping[FoldedKey, RunFigures]) -> dict[FoldedKey, RunFigures]:
    """With what is flagged of each run, on its newest generation alone: incidents are the run's, by name."""
    newest: dict[RunKey, int] = {}
    for key in found:
        newest[key.run] = max(key.generation, newest.get(key.run, 0))
    flagged = read_flagged(connection, list(newest))
    return {
        key: replace(each, flagged=flagged.get(key.run, Flagged()) if newest[key.run] == key.generation else Flagged())
        for key, each in found.items()
    }


def _texts(shown: Sequence[RunFigures]) -> dict[int, bytes]:
    by_tenant: dict[int, list[RunFigures]] = defaultdict(list)
    for figures in shown:
        by_tenant[figures.key.run.tenant_id].append(figures)
    return {tenant_id: written(found) for tenant_id, found in by_tenant.items()}


def written(found: Sequence[RunFigures]) -> bytes:
    """The series of these runs in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunMetrics(found))
    return generate_latest(registry)


def _details(connection: Connection, key: FoldedKey) -> Details:
    return Details(
        attempts=list(read_attempts(connection, key).values()),
        interruptions=list(read_restarts(connection, key).values()),
        checkpoints=list(read_checkpoints(connection, key).values()),
        anomalies=[],
        minutes=[],
        segments=read_segments(connection, key),
    )


def forecast(figures: RunFigures, details: Details) -> Forecast:
    """What the model finds; without the interval in use and enough failures it finds nothing."""
    judged = judge(figures.books, details)
    if judged is None:
        return Forecast()
    measured, advice = judged.measured, judged.advice
    interval_s = measured.interval_s
    if advice is None:
        return Forecast(interval_s=interval_s)
    mtbf_s = measured.mtbf_s
    low_s, high_s = measured.mtbf_interval_s
    best_low_s, best_high_s = advice.best_range_s
    return Forecast(
        interval_s=interval_s,
        mtbf_s=None if mtbf_s is None else (mtbf_s, low_s, high_s),
        best_s=(advice.best.tau_s, best_low_s, best_high_s),
        in_use_goodput=_bounded(advice.in_use),
        best_goodput=_bounded(advice.best),
    )


def _bounded(predicted: Predicted) -> tuple[float, float, float]:
    return predicted.goodput, predicted.low, predicted.high


def _lag(connection: Connection, now_us: int) -> Lag:
    joined = runs.outerjoin(leases, and_(leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id))
    behind = or_(leases.c.folded_seq.is_(None), leases.c.folded_seq < runs.c.last_seq)
    query = select(func.count(), func.min(runs.c.last_received_us)).select_from(joined).where(behind)
    num, oldest_us = connection.execute(query).one()
    return Lag(int(num), max(0.0, (now_us - oldest_us) / 1e6) if num else 0.0)


def _num_held(connection: Connection, holder: str, now_us: int) -> int:
    query = select(func.count()).where(leases.c.holder == holder, leases.c.until_us > now_us)
    return int(connection.execute(query).scalar_one())
