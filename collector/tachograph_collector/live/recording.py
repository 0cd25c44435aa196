"""Judges a loaded recording as the finished log that it is: all of it, in the order of its own time, from the store.

In whatever order it was loaded, and however long it is: only what overlaps in time is held in memory. It goes on a
little at each call, so that other runs have their turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select
from tachograph_agent.events import Heartbeat

from tachograph_collector.detect import Detectors, Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.detect_columns import detect_columns
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import unpack_heartbeats
from tachograph_collector.store.rows import HEARTBEAT, STEP, event_of
from tachograph_collector.store.schema import events, samples

ROWS_AT_ONCE: Final = 200
PENDING: Final = 100_000
"""Step records that are held before what is certainly complete of them is judged."""


class _Place(NamedTuple):
    """A row, by the time at which what is in it begins."""

    begin_us: int
    is_steps: bool
    seq: int
    received_us: int


class PackedTogetherError(Exception):
    """Rows were packed together meanwhile: the reading begins anew."""


class Recording:
    """One reading of the run's events up to number ``until_seq``. Not thread-safe."""

    def __init__(
        self,
        database: Database,
        run: RunKey,
        name: str,
        until_seq: int,
        settings: Settings | None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._run = run
        self._name = name
        self._until_seq = until_seq
        self._monotonic_s = monotonic_s
        self.detectors = Detectors(settings)
        """Complete, but for the last look, once ``work`` says so."""
        self._reading = self._read()

    def work(self, for_s: float) -> bool:
        """Go on for about so long; True when all was read.

        Raises ``PackedTogetherError`` and ``StoreUnavailableError``, after which another ``Recording`` begins anew.
        """
        give_up_at_s = self._monotonic_s() + for_s
        return all(self._monotonic_s() < give_up_at_s for _ in self._reading)

    def _read(self) -> Iterator[None]:
        with self._database.read() as connection:
            places = sorted([*self._places(connection, events), *self._places(connection, samples)])
            self.detectors.add(self._any_heartbeat(connection))
        for begin in range(0, len(places), ROWS_AT_ONCE):
            some = places[begin : begin + ROWS_AT_ONCE]
            with self._database.read() as connection:
                found = {True: self._rows(connection, samples, some), False: self._rows(connection, events, some)}
            self.detectors.add([event_of(found[False][one.seq]) for one in some if not one.is_steps])
            for one in some:
                if one.is_steps:
                    self.detectors.add_steps(self._name, detect_columns(found[True][one.seq]))
            if self.detectors.num_pending > PENDING and begin + ROWS_AT_ONCE < len(places):
                self.detectors.look(places[begin + ROWS_AT_ONCE].begin_us - 1, is_complete=True)
            yield

    def _places(self, connection: Connection, table: Any) -> list[_Place]:
        c = table.c
        begin_us = c.start_us if table is samples else c.t_us
        query = select(begin_us, c.seq, c.received_us).where(
            c.tenant_id == self._run.tenant_id, c.run_id == self._run.run_id, c.seq <= self._until_seq
        )
        if table is samples:
            query = query.where(c.kind == STEP)
        return [_Place(row[0], table is samples, row[1], row[2]) for row in connection.execute(query)]

    def _any_heartbeat(self, connection: Connection) -> list[Heartbeat]:
        """One, if there is any: detectors only want to know whether agents were there."""
        c = samples.c
        query = select(c.data).where(
            c.tenant_id == self._run.tenant_id, c.run_id == self._run.run_id, c.kind == HEARTBEAT
        )
        data = connection.execute(query.limit(1)).scalar()
        return [] if data is None else unpack_heartbeats(data)[:1]

    def _rows(self, connection: Connection, table: Any, some: Sequence[_Place]) -> dict[int, Any]:
        mine = [one for one in some if one.is_steps == (table is samples)]
        if not mine:
            return {}
        c = table.c
        query = select(c.seq, c.data if table is samples else c.body).where(
            c.tenant_id == self._run.tenant_id,
            c.run_id == self._run.run_id,
            c.seq.in_([one.seq for one in mine]),
            c.received_us.between(min(one.received_us for one in mine), max(one.received_us for one in mine)),
        )
        found = {row[0]: row[1] for row in connection.execute(query)}
        if len(found) < len(mine):
            raise PackedTogetherError
        return found
