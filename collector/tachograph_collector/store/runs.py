"""Which runs there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import runs


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is stored: when something last came of it, and up to which sequence number."""

    key: RunKey
    name: str
    origin: str
    first_received_us: int
    last_received_us: int
    last_seq: int
    delay_us: int | None
    """How late its newest events came, from their ``t`` to their arrival; None before the first."""


def find_run(connection: Connection, tenant_id: int, name: str) -> StoredRun | None:
    """The tenant's run of that name; None if nothing of it was ever stored."""
    row = connection.execute(_runs().where(runs.c.tenant_id == tenant_id, runs.c.name == name)).first()
    return None if row is None else _run(row)


def get_run(connection: Connection, key: RunKey) -> StoredRun | None:
    """The run by its key; None if there is none."""
    row = connection.execute(_runs().where(runs.c.tenant_id == key.tenant_id, runs.c.run_id == key.run_id)).first()
    return None if row is None else _run(row)


def list_runs(
    connection: Connection, tenant_id: int, *, after: str | None = None, limit: int = 1000
) -> list[StoredRun]:
    """The tenant's runs by name, those after the name ``after``, at most ``limit``."""
    query = _runs().where(runs.c.tenant_id == tenant_id).order_by(runs.c.name).limit(limit)
    if after is not None:
        query = query.where(runs.c.name > after)
    return [_run(row) for row in connection.execute(query)]


def _runs() -> Select[Any]:
    c = runs.c
    return select(
        c.tenant_id, c.run_id, c.name, c.origin, c.first_received_us, c.last_received_us, c.last_seq, c.delay_us
    )


def _run(row: Row[*tuple[Any, ...]]) -> StoredRun:
    tenant, run_id, name, origin, first_received_us, last_received_us, last_seq, delay_us = row
    return StoredRun(RunKey(tenant, run_id), name, origin, first_received_us, last_received_us, last_seq, delay_us)
