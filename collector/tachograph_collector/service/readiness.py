"""Whether this collector can do its work now: each part that was looked at, and why one can't.

A ledger that lags is told and does not make the collector unready: taking it from behind its load balancer would stop
what arrives, too, and one run that can't be folded would end the ingest of all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, and_, func, or_, select

from tachograph_collector.service.state import Service
from tachograph_collector.store.database import StoreError, StoreUnavailableError
from tachograph_collector.store.schema import leases, runs

ANSWER_WITHIN_S: Final = 3.0
REMEMBERED_S: Final = 2.0
FULL: Final = 0.9
LAG_S: Final = 15.0
"""A ledger further behind than this is said to lag."""


log = logging.getLogger("tachograph.service")


@dataclass(frozen=True, slots=True)
class Check:
    """One part. ``why`` is empty where all is well; ``told`` are its numbers."""

    name: str
    why: str
    told: dict[str, Any]
    is_needed: bool = True


@dataclass(frozen=True, slots=True)
class Readiness:
    """All parts."""

    checks: tuple[Check, ...]

    @property
    def is_ready(self) -> bool:
        """Whether requests should be sent here."""
        return all(not check.why for check in self.checks if check.is_needed)

    def to_dict(self) -> dict[str, Any]:
        """As it is answered."""
        status = "ready" if self.is_ready else "not ready"
        return {
            "status": status,
            "checks": {
                check.name: {"ok": not check.why} | ({"why": check.why} if check.why else {}) | check.told
                for check in self.checks
            },
        }


class Looker:
    """Looks, at most once in ``REMEMBERED_S``, however often it is asked. Belongs to one event loop."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._last: tuple[Check, ...] = ()
        self._looked_s = float("-inf")
        self._look: asyncio.Task[tuple[Check, ...]] | None = None

    async def readiness(self) -> Readiness:
        """What is found now; what only this process knows is always of now."""
        if self._clock() - self._looked_s >= REMEMBERED_S:
            await self._look_at_database()
        return Readiness((*self._own(), *self._last))

    async def _look_at_database(self) -> None:
        if self._look is None:
            self._look = asyncio.create_task(asyncio.to_thread(_database_checks, self._service))
        done, _ = await asyncio.wait({self._look}, timeout=ANSWER_WITHIN_S)
        if not done:
            # The thread that waits for the database stays; no second one joins it.
            self._last = (Check("database", f"no answer within {ANSWER_WITHIN_S:g} s", {}),)
            return
        look, self._look = self._look, None
        if look is not None:
            self._last = look.result()
            self._looked_s = self._clock()

    def _own(self) -> tuple[Check, ...]:
        service = self._service
        waiting_bytes = service.waiting.num_bytes
        is_full = waiting_bytes > FULL * service.waiting.max_bytes
        queue = {"waiting_batches": len(service.gather), "waiting_bytes": waiting_bytes}
        stopping = "it was told to stop" if service.is_stopping else ""
        why = "what waits to be stored fills its memory" if is_full else ""
        if not service.gather.is_alive:
            why = "the thread that stores has ended"
        return (Check("running", stopping, {}), Check("queue", why, queue), *self._thresholds())

    def _thresholds(self) -> tuple[Check, ...]:
        """A file of thresholds that can't be used is told; those that were read before it hold."""
        found = self._service.keeper.snapshot().thresholds
        if found.path is None:
            return ()
        read_at = None if found.read_us is None else found.read_us / 1e6
        # Nobody needs a token to ask, so nobody is told what stands where.
        why = "its file can't be used as it is now; the log says why" if found.fault else ""
        return (Check("thresholds", why, {"read_at": read_at}, is_needed=False),)


def _database_checks(service: Service) -> tuple[Check, ...]:
    database = service.database
    try:
        with database.read() as connection:
            lag = _lag(connection, database.now_us(connection))
        service.check_schema(database)
    except StoreUnavailableError:
        return (Check("database", "it does not answer", {}),)
    except StoreError as error:
        log.warning("%s", error)
        why = "it is not the one that this version works with; the log says which it is"
        return (Check("database", "", {}), Check("schema", why, {}))
    return (Check("database", "", {}), Check("schema", "", {}), lag)


def _lag(connection: Connection, now_us: int) -> Check:
    """How far the ledgers are behind what was stored, over all collectors of the database."""
    joined = runs.outerjoin(leases, and_(leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id))
    behind = or_(leases.c.folded_seq.is_(None), leases.c.folded_seq < runs.c.last_seq)
    query = select(func.count(), func.min(runs.c.last_received_us)).select_from(joined).where(behind)
    num_behind, oldest_us = connection.execute(query).one()
    lag_s = max(0.0, (now_us - oldest_us) / 1e6) if num_behind else 0.0
    why = f"{num_behind} runs have events that are not booked yet" if lag_s > LAG_S else ""
    return Check("ledger", why, {"runs_behind": num_behind, "lag_s": round(lag_s, 3)}, is_needed=False)
