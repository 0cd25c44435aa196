"""Reads step samples as columns for who draws them: which pieces there are in a window, and then piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import StepColumns, step_columns
from tachograph_collector.store.schema import books, samples

_PIECES_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class StepsAsked:
    """Which steps: of a window (from ``since_us``, before ``until_us``), of nodes and of an attempt; None for all."""

    run: RunKey
    since_us: int | None = None
    until_us: int | None = None
    nodes: Sequence[str] | None = None
    attempt: str | None = None


@dataclass(frozen=True, slots=True)
class StepsThere:
    """What the pieces that may hold such steps have together; times of the first and last record, None if none."""

    num_records: int
    first_us: int | None
    last_us: int | None


def _chosen(query: Select[Any], asked: StepsAsked) -> Select[Any]:
    c = samples.c
    query = query.where(c.tenant_id == asked.run.tenant_id, c.run_id == asked.run.run_id, c.kind == "step")
    if asked.since_us is not None:
        query = query.where(c.end_us >= asked.since_us)
    if asked.until_us is not None:
        query = query.where(c.start_us < asked.until_us)
    if asked.nodes is not None:
        query = query.where(c.node.in_(asked.nodes))
    if asked.attempt is not None:
        query = query.where(c.attempt == asked.attempt)
    return query


def steps_there(connection: Connection, asked: StepsAsked) -> StepsThere:
    """How many records the pieces hold, and from when to when, without opening them."""
    c = samples.c
    query = select(func.coalesce(func.sum(c.num), 0), func.min(c.start_us), func.max(c.end_us))
    num, first_us, last_us = connection.execute(_chosen(query, asked)).one()
    return StepsThere(int(num), first_us, last_us)


def step_pieces(connection: Connection, asked: StepsAsked) -> Iterator[StepColumns]:
    """The pieces, one after the other; a piece may hold steps outside of the window, too."""
    query = _chosen(select(samples.c.data), asked)
    for data in connection.execute(query, execution_options={"yield_per": _PIECES_AT_ONCE}).scalars():
        yield step_columns(data)


def generation_window(connection: Connection, run: RunKey, generation: int) -> tuple[int | None, int | None]:
    """From when to when samples of a run are those of this generation; None where no other follows or precedes."""
    query = select(books.c.generation, books.c.start_us).where(
        books.c.tenant_id == run.tenant_id, books.c.run_id == run.run_id
    )
    starts = {row[0]: row[1] for row in connection.execute(query)}
    return (starts.get(generation) if generation > 1 else None), starts.get(generation + 1)
