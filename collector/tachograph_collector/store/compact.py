"""Packs what came in pieces of seconds into one piece per attempt, node and stretch of time, without losing an event.

A reader that stands before a piece packed together reads what it was made of, perhaps some of it once more; one that
stands behind it has read it all. Pieces are packed together only up to the number from which whoever folds the run
would go on after a crash. Each transaction locks the row that says so (``ledger_states``), so that several collectors
never pack the same pieces; who finds it locked leaves the run to the other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import SMALL
from tachograph_collector.store.rows import HEARTBEAT, STEP, heartbeats_row, samples_of, steps_row
from tachograph_collector.store.schema import ledger_states, runs, samples

STRETCH_US: Final = 600_000_000
"""Ten minutes, by the end of a piece."""
LATE_US: Final = 3_600_000_000
"""Stretches that ended up to an hour ago are looked at again, for what came late. What comes later stays as it came."""
MAX_EVENTS: Final = 50_000
"""In one piece: what a reader has to unpack to see one event of it."""
PIECES_AT_ONCE: Final = 500
"""Packed together in one transaction, so that none lasts long."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done."""

    num_before: int = 0
    """Pieces that were packed together."""
    num_after: int = 0
    """Pieces that they became."""
    done: bool = True
    """Nothing is left to be done now."""


@dataclass(frozen=True, slots=True)
class _Due:
    run: RunKey
    until_seq: int
    since_us: int | None
    until_us: int


class _Piece(NamedTuple):
    """A row of ``samples`` without what is in it."""

    seq: int
    first_seq: int
    received_us: int
    num: int
    attempt: str | None
    node: str | None


class Compactor:
    """Packs pieces together, run by run and stretch by stretch, a little at each call. Not thread-safe."""

    def __init__(self, database: Database, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic_s = monotonic_s
        self._round: Iterator[tuple[int, int]] | None = None

    def work(self, for_s: float) -> Compacted:
        """Go on for about so long, or until nothing is left to be done. Raises ``StoreUnavailableError``."""
        give_up_at_s = self._monotonic_s() + for_s
        this_round = self._one_round() if self._round is None else self._round
        self._round = None  # should anything be raised, the next call begins anew
        num_before = num_after = 0
        for before, after in this_round:
            num_before += before
            num_after += after
            if self._monotonic_s() >= give_up_at_s:
                self._round = this_round
                return Compacted(num_before, num_after, done=False)
        return Compacted(num_before, num_after)

    def _one_round(self) -> Iterator[tuple[int, int]]:
        with self._database.read() as connection:
            found = _due(connection, self._database.now_us(connection))
        for due in found:
            for kind in (STEP, HEARTBEAT):
                yield from self._one_kind(due, kind)
            with self._database.write() as connection:
                state = ledger_states.c
                mine = and_(state.tenant_id == due.run.tenant_id, state.run_id == due.run.run_id)
                connection.execute(update(ledger_states).where(mine).values(compacted_us=due.until_us))

    def _one_kind(self, due: _Due, kind: str) -> Iterator[tuple[int, int]]:
        since_us = due.since_us
        while True:
            with self._database.read() as connection:
                number = _next_stretch(connection, due, kind, since_us)
                if number is None:
                    return
                bundles = list(_bundles(_pieces(connection, due, kind, number)))
            for some in _at_once(bundles):
                with self._database.write() as connection:
                    if not _lock(connection, due):
                        return
                    packed = [bundle for bundle in some if _pack_together(connection, due.run, kind, bundle)]
                yield sum(map(len, packed)), len(packed)
            since_us = (number + 1) * STRETCH_US


def _due(connection: Connection, now_us: int) -> list[_Due]:
    """Runs of which something came in since they were last looked at, those with a saved ledger only.

    Each is looked at once a stretch.
    """
    until_us = now_us // STRETCH_US * STRETCH_US
    state = ledger_states.c
    query = (
        select(state.tenant_id, state.run_id, state.seq, state.compacted_us)
        .join(runs, and_(runs.c.tenant_id == state.tenant_id, runs.c.run_id == state.run_id))
        .where(
            or_(
                state.compacted_us.is_(None),
                and_(state.compacted_us < until_us, state.compacted_us <= runs.c.last_received_us + LATE_US),
            )
        )
        .order_by(state.tenant_id, state.run_id)
    )
    return [
        _Due(
            RunKey(tenant_id, run_id),
            seq,
            None if compacted_us is None else (compacted_us - LATE_US) // STRETCH_US * STRETCH_US,
            until_us,
        )
        for tenant_id, run_id, seq, compacted_us in connection.execute(query)
    ]


def _next_stretch(connection: Connection, due: _Due, kind: str, since_us: int | None) -> int | None:
    """The number, since 1970, of the next stretch that holds anything and is over."""
    c = samples.c
    query = select(func.min(c.end_us)).where(
        c.tenant_id == due.run.tenant_id, c.run_id == due.run.run_id, c.kind == kind, c.end_us < due.until_us
    )
    if since_us is not None:
        query = query.where(c.end_us >= since_us)
    first_us = connection.execute(query).scalar()
    return None if first_us is None else int(first_us) // STRETCH_US


def _pieces(connection: Connection, due: _Due, kind: str, number: int) -> list[list[_Piece]]:
    """The pieces of one stretch by attempt and node, each in the order of their numbers, without what is in them."""
    c = samples.c
    query = (
        select(c.seq, c.first_seq, c.received_us, c.num, c.attempt, c.node)
        .where(
            c.tenant_id == due.run.tenant_id,
            c.run_id == due.run.run_id,
            c.kind == kind,
            c.end_us >= number * STRETCH_US,
            c.end_us < (number + 1) * STRETCH_US,
            c.seq <= due.until_seq,
            c.num < MAX_EVENTS // 2,
        )
        .order_by(c.seq)
    )
    places: defaultdict[tuple[str | None, str | None], list[_Piece]] = defaultdict(list)
    for row in connection.execute(query):
        piece = _Piece(*row)
        places[piece.attempt, piece.node].append(piece)
    return list(places.values())


def _bundles(places: Sequence[Sequence[_Piece]]) -> Iterator[list[_Piece]]:
    """Pieces that become one: as many in a row as hold no more than ``MAX_EVENTS``; never one alone."""
    for pieces in places:
        bundle: list[_Piece] = []
        num = 0
        for piece in pieces:
            if len(bundle) == PIECES_AT_ONCE or (bundle and num + piece.num > MAX_EVENTS):
                if len(bundle) > 1:
                    yield bundle
                bundle, num = [], 0
            bundle.append(piece)
            num += piece.num
        if len(bundle) > 1:
            yield bundle


def _at_once(bundles: Sequence[list[_Piece]]) -> Iterator[list[list[_Piece]]]:
    some: list[list[_Piece]] = []
    num = 0
    for bundle in bundles:
        if some and num + len(bundle) > PIECES_AT_ONCE:
            yield some
            some, num = [], 0
        some.append(bundle)
        num += len(bundle)
    if some:
        yield some


def _lock(connection: Connection, due: _Due) -> bool:
    """Keep other collectors from packing this run's pieces until the commit; False if one is at it."""
    c = ledger_states.c
    query = select(c.seq).where(c.tenant_id == due.run.tenant_id, c.run_id == due.run.run_id)
    seq = connection.execute(query.with_for_update(skip_locked=True)).scalar()
    return seq is not None and seq >= due.until_seq


def _pack_together(connection: Connection, run: RunKey, kind: str, bundle: Sequence[_Piece]) -> bool:
    """Put one piece in the place of several, if they are all there still; it has the last one's number."""
    c = samples.c
    first_us, last_us = bundle[0].received_us, bundle[-1].received_us
    mine = and_(
        c.tenant_id == run.tenant_id,
        c.run_id == run.run_id,
        c.seq.in_([piece.seq for piece in bundle]),
        c.received_us.between(first_us, last_us),
    )
    found = connection.execute(select(c.first_seq, c.data).where(mine).order_by(c.seq)).all()
    if [row.first_seq for row in found] != [piece.first_seq for piece in bundle]:
        return False  # another collector was here since they were listed
    events: list[Any] = []
    for row in found:
        events += samples_of(kind, row.data)
    whole = steps_row(events, SMALL) if kind == STEP else heartbeats_row(events, SMALL)
    whole |= {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "seq": bundle[-1].seq,
        "first_seq": min(piece.first_seq for piece in bundle),
        "received_us": last_us,
    }
    connection.execute(delete(samples).where(mine))
    connection.execute(insert(samples).values(whole))
    return True
