"""Writes what operators say of incidents: notes, and that somebody takes care of one. Only ever added to."""

from __future__ import annotations

import secrets

from sqlalchemy import ColumnElement, Connection, Table, insert, select, update

from tachograph_collector.store.incident_reader import StoredIncident
from tachograph_collector.store.incident_tables import incident_notes, incidents


def add_note(
    connection: Connection, stored: StoredIncident, *, author: str, text: str, now_us: int, note_id: str | None = None
) -> None:
    """Write down what somebody has to say. What comes with a ``note_id`` that is known already was sent twice."""
    if note_id is not None:
        c = incident_notes.c
        known = select(c.note_id).where(*_of(incident_notes, stored), c.note_id == note_id)
        if connection.execute(known).first() is not None:
            return
    _add(connection, stored, author, "annotated", text, now_us, note_id)


def acknowledge(connection: Connection, stored: StoredIncident, *, author: str, text: str | None, now_us: int) -> None:
    """Write down that somebody takes care of it, as which the incident counts as changed.

    Of one that is acknowledged already, only what is said is written down, if anything is.
    """
    if stored.acknowledged is not None:
        if text is not None:
            add_note(connection, stored, author=author, text=text, now_us=now_us)
        return
    _changed(connection, stored, now_us)
    _add(connection, stored, author, "acknowledged", text, now_us)


def unacknowledge(
    connection: Connection, stored: StoredIncident, *, author: str, text: str | None, now_us: int
) -> None:
    """Take the acknowledgement back, as which the incident counts as changed. As ``acknowledge`` otherwise."""
    if stored.acknowledged is None:
        if text is not None:
            add_note(connection, stored, author=author, text=text, now_us=now_us)
        return
    _changed(connection, stored, now_us)
    _add(connection, stored, author, "unacknowledged", text, now_us)


def _add(
    connection: Connection,
    stored: StoredIncident,
    author: str,
    what: str,
    text: str | None,
    now_us: int,
    note_id: str | None = None,
) -> None:
    connection.execute(
        insert(incident_notes).values(
            tenant_id=stored.key.tenant_id,
            run_id=stored.key.run_id,
            incident_id=stored.incident.incident_id,
            note_id=note_id or f"{now_us:016x}{secrets.token_hex(8)}",
            at_us=now_us,
            author=author,
            what=what,
            text=text,
        )
    )


def _changed(connection: Connection, stored: StoredIncident, now_us: int) -> None:
    connection.execute(update(incidents).where(*_of(incidents, stored)).values(changed_us=now_us))


def _of(table: Table, stored: StoredIncident) -> tuple[ColumnElement[bool], ...]:
    return (
        table.c.tenant_id == stored.key.tenant_id,
        table.c.run_id == stored.key.run_id,
        table.c.incident_id == stored.incident.incident_id,
    )
