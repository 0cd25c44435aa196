"""Packs what came in pieces of seconds into one piece per attempt, node and stretch of time, without losing an event.

A reader that stands before a piece packed together reads what it was made of, perhaps some of it once more; one that
stands behind it has read it all. So pieces are packed together only up to the number from which whoever folds the run
would go on after a crash, and only in a transaction of who holds the run's lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select

from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import SMALL
from tachograph_collector.store.rows import STEP, heartbeats_row, samples_of, steps_row
from tachograph_collector.store.schema import samples

STRETCH_US: Final = 600_000_000
"""Ten minutes, by the end of a piece."""
MAX_EVENTS: Final = 50_000
"""In one piece: what a reader has to unpack to see one event of it."""
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one call did."""

    num_before: int
    """Pieces that were packed together."""
    num_after: int
    """Pieces that they became."""
    more: bool
    """There may be more to do at once."""


def compact(
    connection: Connection,
    run: RunKey,
    until_seq: int,
    until_us: int,
    *,
    since_us: int | None = None,
    max_stretches: int = 64,
) -> Compacted:
    """Pack together the run's pieces numbered up to ``until_seq`` in stretches that are over at ``until_us``.

    Call it in a transaction in which the run's lease was checked, with ``until_seq`` that of the saved ledger state.
    ``since_us``: stretches that were over then are known to be done. One call takes at most ``max_stretches``, each of
    one attempt, node and kind.
    """
    c = samples.c
    stretch = c.end_us // STRETCH_US
    mine = (c.tenant_id == run.tenant_id) & (c.run_id == run.run_id) & (c.seq <= until_seq)
    query = (
        select(c.kind, c.attempt, c.node, stretch.label("stretch"))
        .where(mine, c.end_us < until_us // STRETCH_US * STRETCH_US, c.num < MAX_EVENTS // 2)
        .group_by(c.kind, c.attempt, c.node, stretch)
        .having(func.count() > 1)
        .order_by(stretch)
        .limit(max_stretches)
    )
    if since_us is not None:
        query = query.where(c.end_us >= since_us // STRETCH_US * STRETCH_US)
    found = connection.execute(query).all()
    num_before = num_after = 0
    for kind, attempt, node, number in found:
        place = (c.kind == kind) & c.attempt.is_not_distinct_from(attempt) & c.node.is_not_distinct_from(node)
        in_stretch = (c.end_us >= number * STRETCH_US) & (c.end_us < (number + 1) * STRETCH_US)
        pieces = connection.execute(
            select(c.seq, c.first_seq, c.received_us, c.num, c.data)
            .where(mine, place, in_stretch, c.num < MAX_EVENTS // 2)
            .order_by(c.seq)
        ).all()
        for some in _bundles(pieces):
            _pack_together(connection, run, kind, some)
            num_before += len(some)
            num_after += 1
    return Compacted(num_before, num_after, more=len(found) == max_stretches)


def _bundles(pieces: Sequence[Row[Any]]) -> Iterator[Sequence[Row[Any]]]:
    """Pieces that become one: as many in a row as hold no more than ``MAX_EVENTS``; never one alone."""
    bundle: list[Row[Any]] = []
    num = 0
    for piece in pieces:
        if bundle and num + piece.num > MAX_EVENTS:
            if len(bundle) > 1:
                yield bundle
            bundle, num = [], 0
        bundle.append(piece)
        num += piece.num
    if len(bundle) > 1:
        yield bundle


def _pack_together(connection: Connection, run: RunKey, kind: str, pieces: Sequence[Row[Any]]) -> None:
    """Put one piece in the place of several. It has the last one's number, so that no reader passes it over."""
    events: list[Any] = []
    for piece in pieces:
        events += samples_of(kind, piece.data)
    row = steps_row(events, SMALL) if kind == STEP else heartbeats_row(events, SMALL)
    c = samples.c
    numbers = [piece.seq for piece in pieces]
    first_us, last_us = pieces[0].received_us, pieces[-1].received_us
    for start in range(0, len(numbers), _AT_ONCE):
        connection.execute(
            delete(samples).where(
                c.tenant_id == run.tenant_id,
                c.run_id == run.run_id,
                c.seq.in_(numbers[start : start + _AT_ONCE]),
                c.received_us.between(first_us, last_us),
            )
        )
    row |= {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "seq": numbers[-1],
        "first_seq": min(piece.first_seq for piece in pieces),
        "received_us": last_us,
    }
    connection.execute(insert(samples).values(row))
