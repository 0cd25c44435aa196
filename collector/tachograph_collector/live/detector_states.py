"""The detectors' saved state, in the same transaction as the ledger's and as of the same event."""

from __future__ import annotations

from sqlalchemy import Connection, Row, delete, select

from tachograph_collector.live.watching import STATE_VERSION
from tachograph_collector.store.folded import upsert
from tachograph_collector.store.incident_tables import detector_states
from tachograph_collector.store.keys import RunKey


def read_detectors(connection: Connection, run: RunKey) -> Row[int, str, bytes] | None:
    """``seq``, ``version`` and ``data`` of what was saved last."""
    c = detector_states.c
    query = select(c.seq, c.version, c.data).where(c.tenant_id == run.tenant_id, c.run_id == run.run_id)
    return connection.execute(query).one_or_none()


def save_detectors(connection: Connection, run: RunKey, seq: int, at_us: int, data: bytes | None) -> None:
    """Save a state; None: there is none, and an older one would no longer go with the ledger's."""
    c = detector_states.c
    if data is None:
        connection.execute(delete(detector_states).where(c.tenant_id == run.tenant_id, c.run_id == run.run_id))
        return
    row = {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "seq": seq,
        "saved_us": at_us,
        "version": STATE_VERSION,
        "data": data,
    }
    upsert(connection, detector_states, [row])
