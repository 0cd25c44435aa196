"""Incidents and silences as a collector tells them, as typed records. Instants are Unix seconds, unknown is None."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from tachograph_collector.client.records import UnixSeconds


class Cost(Struct, frozen=True, kw_only=True):
    """What an incident has cost until now."""

    wall_s: float | None = None
    """Of the whole job."""
    gpu_hours: float | None = None
    money: float | None = None
    basis: str | None = None
    """What is counted, in a few words."""


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """Who takes care of an incident, and since when."""

    at: UnixSeconds
    author: str


class Note(Struct, frozen=True, kw_only=True):
    """What an operator said of an incident."""

    at: UnixSeconds
    author: str
    what: str
    """``acknowledged``, ``unacknowledged`` or ``annotated``."""
    text: str | None = None


class Incident(Struct, frozen=True, kw_only=True):
    """What was flagged, what it costs, and what operators made of it."""

    incident_id: str
    run: str
    origin: str = "live"
    detector: str
    subject: str
    severity: str
    is_open: bool
    opened_at: UnixSeconds
    """When it began, as far as can be said."""
    found_at: UnixSeconds
    updated_at: UnixSeconds
    cleared_at: UnixSeconds | None = None
    outcome: str | None = None
    summary: str
    advice: str | None = None
    attempt: str | None = None
    node: str | None = None
    rank: int | None = None
    is_replayed: bool = False
    """It was found in steps that an earlier attempt had done before."""
    is_withdrawn: bool = False
    """Later events showed that nothing was wrong."""
    consequence_of: str | None = None
    """The id of the incident that it follows from."""
    cost: Cost | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    acknowledged: Acknowledgement | None = None
    is_silenced: bool = False
    url: str | None = None


class IncidentWithNotes(Incident, frozen=True, kw_only=True):
    """One incident, with everything that was said of it, in order."""

    notes: list[Note] = field(default_factory=list)


class Silence(Struct, frozen=True, kw_only=True, rename={"since": "from"}):
    """Of which incidents nobody is told, and until when; what is None fits everything."""

    silence_id: str
    state: str
    """``active``, ``pending`` (still to begin), ``ended`` (taken back) or ``expired``."""
    run: str | None = None
    detector: str | None = None
    subject: str | None = None
    node: str | None = None
    since: UnixSeconds
    """``from``, in the answer."""
    until: UnixSeconds
    author: str
    why: str
    created_at: UnixSeconds
    ended_at: UnixSeconds | None = None


class Sight(Struct, frozen=True, kw_only=True):
    """How well one detector sees a run."""

    detector: str
    state: str
    reason: str
    evaluations: int
    verdicts: int
    at: UnixSeconds
