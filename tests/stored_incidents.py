"""Incidents as a collector has them, put into a database by hand: for tests of who reads them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert
from tachograph_collector.detect import Cost, Evidence, Incident
from tachograph_collector.detect.verdict import incident_id
from tachograph_collector.store.incident_rows import incident_row
from tachograph_collector.store.incident_tables import incidents
from tachograph_collector.store.keys import RunKey

SECOND = 1_000_000


def incident(run: str = "r", detector: str = "straggler", subject: str = "rank 7", **more: Any) -> Incident:
    """An open straggler unless told otherwise; ``opened_us`` is second 1000."""
    opened_us = more.pop("opened_us", 1000 * SECOND)
    told: dict[str, Any] = {
        "incident_id": incident_id(run, detector, subject, opened_us),
        "severity": "warning",
        "found_us": opened_us + 60 * SECOND,
        "updated_us": opened_us + 90 * SECOND,
        "summary": f"{subject} is 20 % slower than the others",
        "evidence": Evidence(value=1.2, baseline=1.0, threshold=1.1, num_samples=50, unit="s", more={"first_step": 3}),
        "cost": Cost(wall_s=120.0, gpu_hours=0.5, money=1.25, basis="steps slower by 20 %"),
        "advice": "drain node n3",
        "node": "n3",
        "rank": 7,
    }
    return Incident(run=run, detector=detector, subject=subject, opened_us=opened_us, **(told | more))


def put(connection: Connection, run: RunKey, one: Incident, *, origin: str = "live", changed_us: int = 5) -> Incident:
    """Write its row."""
    whose = {"tenant_id": run.tenant_id, "run_id": run.run_id, "origin": origin, "changed_us": changed_us}
    connection.execute(insert(incidents).values(**whose, **incident_row(one)))
    return one
