"""A made-up incident, by which one sees what a sink makes of a real one."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tachograph_collector.detect.verdict import Cost, Evidence, Incident, incident_id
from tachograph_collector.sinks.telling import Telling
from tachograph_collector.store.incident_reader import StoredIncident
from tachograph_collector.store.keys import RunKey

_AGO_US: Final = 300_000_000
RUN: Final = "tachograph-test"


def trial(now_us: int, public_url: str | None) -> list[Telling]:
    """That it is open since five minutes, and that it is over."""
    opened_us = now_us - _AGO_US
    incident = Incident(
        incident_id=incident_id(RUN, "test", "node n3", opened_us),
        run=RUN,
        detector="test",
        subject="node n3",
        severity="warning",
        opened_us=opened_us,
        found_us=opened_us + 30_000_000,
        updated_us=now_us,
        summary="node n3 is slower than the others <by 23 %> & so is every rank",
        evidence=Evidence(value=1.23, baseline=1.0, threshold=1.1, num_samples=300, unit="ratio"),
        node="n3",
        attempt="1",
        advice="nothing: this only shows how an incident would look here",
        cost=Cost(wall_s=56.0, gpu_hours=4.0, basis="made up"),
    )
    is_over = replace(incident, cleared_us=now_us, outcome="recovered")
    return [
        Telling(event="opened", stored=_stored(incident, now_us), now_us=now_us, public_url=public_url, is_test=True),
        Telling(
            event="cleared",
            stored=_stored(is_over, now_us + 1),
            now_us=now_us,
            told="warning",
            public_url=public_url,
            is_test=True,
        ),
    ]


def _stored(incident: Incident, changed_us: int) -> StoredIncident:
    return StoredIncident(
        key=RunKey(0, 0),
        incident=incident,
        origin="live",
        changed_us=changed_us,
        acknowledged=None,
        silenced_by=None,
    )
