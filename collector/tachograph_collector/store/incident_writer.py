"""Writes what operators say of incidents: notes, and that somebody takes care of one. Only ever added to.

``incident_row`` is the row of an incident itself, for whoever finds them.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, update

from tachograph_collector.detect.incident_json import cost_object, finite
from tachograph_collector.detect.verdict import Incident
from tachograph_collector.store.incident_reader import Note, StoredIncident
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import incident_notes, incidents


def add_note(connection: Connection, stored: StoredIncident, *, author: str, text: str, now_us: int) -> Note:
    """Write down what somebody has to say."""
    return _add(connection, stored, author, "annotated", text, now_us)


def acknowledge(
    connection: Connection, stored: StoredIncident, *, author: str, text: str | None, now_us: int
) -> Note | None:
    """Write down that somebody takes care of it, as which the incident counts as changed.

    Of one that is acknowledged already, only what is said is written down; None if nothing is.
    """
    if stored.acknowledged is not None:
        return None if text is None else add_note(connection, stored, author=author, text=text, now_us=now_us)
    _changed(connection, stored, now_us)
    return _add(connection, stored, author, "acknowledged", text, now_us)


def unacknowledge(
    connection: Connection, stored: StoredIncident, *, author: str, text: str | None, now_us: int
) -> Note | None:
    """Take the acknowledgement back, as which the incident counts as changed. As ``acknowledge`` otherwise."""
    if stored.acknowledged is None:
        return None if text is None else add_note(connection, stored, author=author, text=text, now_us=now_us)
    _changed(connection, stored, now_us)
    return _add(connection, stored, author, "unacknowledged", text, now_us)


def incident_row(key: RunKey, origin: str, incident: Incident, *, changed_us: int) -> dict[str, Any]:
    """The row of ``incidents``. Evidence keeps the detectors' form; numbers that JSON has no word for become null."""
    evidence = msgspec.to_builtins(incident.evidence)
    more = {name: finite(value) for name, value in evidence.pop("more", {}).items()}
    return {
        "tenant_id": key.tenant_id,
        "run_id": key.run_id,
        "incident_id": incident.incident_id,
        "origin": origin,
        "detector": incident.detector,
        "subject": incident.subject,
        "severity": incident.severity,
        "opened_us": incident.opened_us,
        "found_us": incident.found_us,
        "updated_us": incident.updated_us,
        "cleared_us": incident.cleared_us,
        "outcome": incident.outcome,
        "summary": incident.summary,
        "evidence": {name: finite(value) for name, value in evidence.items()} | {"more": more},
        "cost": None if incident.cost is None else cost_object(incident.cost),
        "advice": incident.advice,
        "consequence_of": incident.consequence_of,
        "attempt": incident.attempt,
        "node": incident.node,
        "rank": incident.rank,
        "is_replayed": incident.is_replayed,
        "changed_us": changed_us,
    }


def _add(connection: Connection, stored: StoredIncident, author: str, what: str, text: str | None, now_us: int) -> Note:
    # In the id, time comes first: notes of one microsecond are told apart, and none comes before an older one.
    note = Note(f"{now_us:016x}{secrets.token_hex(8)}", now_us, author, what, text)
    connection.execute(
        insert(incident_notes).values(
            tenant_id=stored.key.tenant_id,
            run_id=stored.key.run_id,
            incident_id=stored.incident.incident_id,
            note_id=note.note_id,
            at_us=note.at_us,
            author=note.author,
            what=note.what,
            text=note.text,
        )
    )
    return note


def _changed(connection: Connection, stored: StoredIncident, now_us: int) -> None:
    c = incidents.c
    connection.execute(
        update(incidents)
        .where(
            c.tenant_id == stored.key.tenant_id,
            c.run_id == stored.key.run_id,
            c.incident_id == stored.incident.incident_id,
        )
        .values(changed_us=now_us)
    )
