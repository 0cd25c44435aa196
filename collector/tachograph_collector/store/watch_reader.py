"""Reads what is known of a run besides its books: the run's key, its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, select

from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import books, nodes, runs


def run_key(connection: Connection, tenant_id: int, name: str) -> RunKey | None:
    """The key of the run of that name, booked or not; ``name#2`` is a run of ``name``. None if nothing of it came."""
    query = select(runs.c.run_id).where(runs.c.tenant_id == tenant_id, runs.c.name == name)
    found = connection.execute(query).scalar()
    base, _, number = name.rpartition("#")
    if found is None and base and number.isascii() and number.isdecimal() and len(number) < 5:
        query = (
            select(books.c.run_id)
            .join(runs, and_(runs.c.tenant_id == books.c.tenant_id, runs.c.run_id == books.c.run_id))
            .where(books.c.tenant_id == tenant_id, runs.c.name == base, books.c.generation == int(number))
        )
        found = connection.execute(query).scalar()
    return None if found is None else RunKey(tenant_id, found)


def last_heard(connection: Connection, tenant_id: int, run_ids: Sequence[int]) -> dict[int, int]:
    """When the newest event of each of these runs came in, microseconds since 1970."""
    query = select(runs.c.run_id, runs.c.last_received_us).where(
        runs.c.tenant_id == tenant_id, runs.c.run_id.in_(run_ids)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def read_nodes(
    connection: Connection, run: RunKey, limit: int, after: str | None = None, states: Sequence[str] | None = None
) -> Sequence[Row[Any]]:
    """Rows of ``nodes``, by name."""
    query = select(nodes).where(nodes.c.tenant_id == run.tenant_id, nodes.c.run_id == run.run_id)
    if after is not None:
        query = query.where(nodes.c.node > after)
    if states is not None:
        query = query.where(nodes.c.state.in_(states))
    return connection.execute(query.order_by(nodes.c.node).limit(limit)).all()
