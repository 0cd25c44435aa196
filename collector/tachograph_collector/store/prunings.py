"""What of a run was pruned and is no longer there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import prunings

EVENT: Final = "event"
"""The kind of everything that is neither a step nor a heartbeat."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What came in before ``before_us`` of one kind (step, heartbeat, event) is gone since ``at_us``."""

    kind: str
    before_us: int
    at_us: int


def prunings_of(connection: Connection, run: RunKey) -> list[Pruned]:
    """All that was pruned of the run, by kind; empty if nothing was."""
    c = prunings.c
    query = (
        select(c.kind, c.before_us, c.at_us)
        .where(c.tenant_id == run.tenant_id, c.run_id == run.run_id)
        .order_by(c.kind)
    )
    return [Pruned(*row) for row in connection.execute(query)]


def pruned_before(connection: Connection, run: RunKey, kind: str) -> int | None:
    """Until when what came in of this kind was pruned, microseconds since 1970; None if nothing was."""
    c = prunings.c
    query = select(c.before_us).where(c.tenant_id == run.tenant_id, c.run_id == run.run_id, c.kind == kind)
    return connection.execute(query).scalar()
