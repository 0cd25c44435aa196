"""Folds a run anew from its stored events, and says whether what is derived from them was right.

Works beside running collectors: it takes the run's lease from whoever has it, whose fence is an old one from then on,
and gives it back when it is done.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from sqlalchemy import delete

from tachograph_collector.detect.fleet import FleetSettings
from tachograph_collector.live import leases
from tachograph_collector.live.folder import RunFolder
from tachograph_collector.live.pace import Pace
from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.runs import get_run
from tachograph_collector.store.schema import ledger_states

MAX_TURNS = 1_000_000


class RebuildError(StoreError):
    """The run can't be folded anew; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of it."""

    name: str
    num_events: int
    num_minutes_added: int
    """Minutes that should have been booked and were not."""
    num_minutes_revised: int
    """Minutes that were booked differently; each has a revision more now."""
    num_incidents: int
    """Incidents that were missing or told otherwise. Those that are not found now stay: people were told of them."""
    differed: bool
    """Whether any finished book, segment, attempt, restart or checkpoint differed."""

    @property
    def equal(self) -> bool:
        """Whether the tables held just what the events say."""
        return not (self.differed or self.num_minutes_added or self.num_minutes_revised or self.num_incidents)


def rebuild(
    database: Database, run: RunKey, pace: Pace | None = None, thresholds: FleetSettings | None = None
) -> Rebuilt:
    """Compute the run's derived rows from its first event on, and write those that differ from what is stored.

    A run that still runs is booked up to now, so that it has changed by itself. Raises ``RebuildError`` if there is no
    such run, ``RunRefusedError`` where its events don't suffice, ``LeaseLostError`` if somebody else rebuilds it too,
    ``StoreUnavailableError``.
    """
    with database.write() as connection:
        stored = get_run(connection, run)
        if stored is None:
            raise RebuildError(f"there is no run {run.run_id} of tenant {run.tenant_id}; nothing of it was ever stored")
        holder = f"rebuild/{secrets.token_hex(6)}"
        lease = leases.acquire(connection, run, holder, database.now_us(connection), by_force=True)
        assert lease is not None
    settings = None if thresholds is None else thresholds.of(stored.name)
    folder = RunFolder(database, lease, stored.name, Pace() if pace is None else pace, settings=settings)
    try:
        folder.open(from_scratch=True)
        num_events = num_minutes = num_revised = num_incidents = 0
        differed = False
        for _ in range(MAX_TURNS):
            turn = folder.turn()
            num_events += turn.num_events
            num_minutes += turn.num_minutes
            num_revised += turn.num_revised
            num_incidents += turn.num_incidents
            differed |= turn.differed
            if not turn.more and not folder.detecting.is_busy:
                break
        with database.write() as connection:
            leases.hold(connection, folder.lease, database.now_us(connection))
            connection.execute(
                delete(ledger_states).where(
                    ledger_states.c.tenant_id == run.tenant_id, ledger_states.c.run_id == run.run_id
                )
            )
        folder.save()
    finally:
        with database.write() as connection:
            now_us = database.now_us(connection)
            leases.release(connection, folder.lease, now_us)
    return Rebuilt(stored.name, num_events, num_minutes, num_revised, num_incidents, differed)
