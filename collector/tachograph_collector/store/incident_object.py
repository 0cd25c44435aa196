"""A stored incident as plain data, for the API and sinks: what ``--incidents`` has, and what operators made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from tachograph_collector.detect.incident_json import incident_object
from tachograph_collector.store.incident_reader import Note, StoredIncident


def stored_object(
    stored: StoredIncident, public_url: str | None = None, notes: Sequence[Note] | None = None
) -> dict[str, Any]:
    """One incident; ``notes`` only where they are given, ``url`` None where our own address isn't known."""
    note = stored.acknowledged
    plain = incident_object(stored.incident)
    plain |= {
        "origin": stored.origin,
        "is_open": stored.is_open,
        "acknowledged": None if note is None else {"at": note.at_us / 1e6, "author": note.author},
        "is_silenced": stored.is_silenced,
        "url": incident_url(public_url, stored.incident.incident_id),
    }
    if notes is not None:
        plain["notes"] = [note_object(each) for each in notes]
    return plain


def note_object(note: Note) -> dict[str, Any]:
    """One note: when, who, what (``acknowledged``, ``unacknowledged``, ``annotated``) and the words, if any."""
    return {"at": note.at_us / 1e6, "author": note.author, "what": note.what, "text": note.text}


def incident_url(public_url: str | None, incident_id: str) -> str | None:
    """The page of an incident; None where the collector's own address isn't known."""
    return None if public_url is None else f"{public_url.rstrip('/')}/#/incidents/{quote(incident_id, safe='')}"
