"""Reads incidents as operators and sinks see them: what was flagged, who took note of it, and whether it is silenced.

``StoredIncident.incident`` is the detectors' own record. Whether an incident is silenced depends on when one asks;
every reader takes that time, the database's clock for who wants to know it now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from tachograph_collector.detect.verdict import Incident
from tachograph_collector.store.incident_rows import incident_of_row
from tachograph_collector.store.incident_tables import incident_notes, incidents, sights
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.name_patterns import like
from tachograph_collector.store.schema import runs
from tachograph_collector.store.silences import Silence, silence_of, silences_at

T = TypeVar("T")

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Note:
    """What an operator said of an incident."""

    note_id: str
    at_us: int
    author: str
    what: str
    """``acknowledged``, ``unacknowledged`` or ``annotated``."""
    text: str | None


@dataclass(frozen=True, slots=True)
class StoredIncident:
    """An incident as it stands in the database, with what operators made of it."""

    key: RunKey
    incident: Incident
    origin: str
    """``live``, ``replay`` or ``rehearsal``: who is paged is told of live ones only."""
    changed_us: int
    """When its row was last written, or it was acknowledged or that was taken back; on the database's clock."""
    acknowledged: Note | None
    """The note that acknowledged it, unless that was taken back."""
    silenced_by: str | None
    """A silence that held at the time that was asked for."""

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.incident.cleared_us is None

    @property
    def is_silenced(self) -> bool:
        """Whether nobody was to be told of it at the time that was asked for."""
        return self.silenced_by is not None


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents; None leaves a side open. A window takes what was open at any time in it."""

    run: RunKey | None = None
    run_pattern: str | None = None
    """A name, in which ``*`` and ``?`` may stand for any characters and any one."""
    detectors: Sequence[str] | None = None
    severities: Sequence[str] | None = None
    origins: Sequence[str] | None = None
    node: str | None = None
    is_open: bool | None = None
    since_us: int | None = None
    until_us: int | None = None


class IncidentPlace(NamedTuple):
    """A place in the list of incidents, what began last first."""

    opened_us: int
    run_id: int
    incident_id: str


def place_of(stored: StoredIncident) -> IncidentPlace:
    """Where an incident is in the list."""
    return IncidentPlace(stored.incident.opened_us, stored.key.run_id, stored.incident.incident_id)


def read_incidents(
    connection: Connection,
    tenant_id: int,
    which: IncidentFilter,
    limit: int,
    after: IncidentPlace | None = None,
    *,
    at_us: int,
) -> list[StoredIncident]:
    """Up to ``limit`` incidents of a tenant, what began last first, beginning behind ``after``."""
    c = incidents.c
    query = _filtered(_query().where(c.tenant_id == tenant_id), connection, which)
    if after is not None:
        query = query.where(
            or_(
                c.opened_us < after.opened_us,
                and_(c.opened_us == after.opened_us, c.run_id > after.run_id),
                and_(c.opened_us == after.opened_us, c.run_id == after.run_id, c.incident_id > after.incident_id),
            )
        )
    query = query.order_by(c.opened_us.desc(), c.run_id, c.incident_id).limit(limit)
    return _stored(connection, connection.execute(query).all(), at_us)


def find_incidents(
    connection: Connection, tenant_id: int, id_prefix: str, limit: int, *, at_us: int
) -> list[StoredIncident]:
    """Incidents whose id begins so; the one of exactly that id alone, where there is one."""
    c = incidents.c
    query = _query().where(c.tenant_id == tenant_id)
    rows = connection.execute(query.where(c.incident_id == id_prefix)).all()
    if not rows:
        begins = func.substr(c.incident_id, 1, len(id_prefix)) == id_prefix
        rows = connection.execute(query.where(begins).order_by(c.opened_us.desc(), c.incident_id).limit(limit)).all()
    return _stored(connection, rows, at_us)


def read_incident(connection: Connection, key: RunKey, incident_id: str, *, at_us: int) -> StoredIncident | None:
    """One incident by its whole key; None if it isn't there."""
    c = incidents.c
    query = _query().where(c.tenant_id == key.tenant_id, c.run_id == key.run_id, c.incident_id == incident_id)
    return next(iter(_stored(connection, connection.execute(query).all(), at_us)), None)


def changed_since(connection: Connection, changed_us: int, limit: int, *, at_us: int) -> list[StoredIncident]:
    """Incidents of all tenants that changed at or after ``changed_us``, in that order.

    At, too: several may change in one microsecond, and one that was written then may be committed later than another.
    Who asks remembers what it has seen.
    """
    c = incidents.c
    query = _query().where(c.changed_us >= changed_us)
    query = query.order_by(c.changed_us, c.tenant_id, c.run_id, c.incident_id).limit(limit)
    return _stored(connection, connection.execute(query).all(), at_us)


def read_notes(connection: Connection, key: RunKey, incident_id: str) -> list[Note]:
    """What operators said of an incident, in the order in which they did."""
    c = incident_notes.c
    query = select(incident_notes).where(
        c.tenant_id == key.tenant_id, c.run_id == key.run_id, c.incident_id == incident_id
    )
    return [_note(row) for row in connection.execute(query.order_by(c.at_us, c.note_id))]


def num_open(connection: Connection, tenant_id: int, run_ids: Sequence[int]) -> dict[int, int]:
    """How many incidents of each of these runs are open; runs without any are not in it."""
    c = incidents.c
    found: dict[int, int] = {}
    for some in _chunks(run_ids):
        query = select(c.run_id, func.count()).where(c.tenant_id == tenant_id, c.run_id.in_(some))
        query = query.where(c.cleared_us.is_(None)).group_by(c.run_id)
        found |= {row[0]: row[1] for row in connection.execute(query)}
    return found


def read_sights(connection: Connection, key: RunKey) -> Sequence[Row[Any]]:
    """How well each detector sees a run: rows of ``sights``, by detector."""
    c = sights.c
    query = select(sights).where(c.tenant_id == key.tenant_id, c.run_id == key.run_id)
    return connection.execute(query.order_by(c.detector)).all()


# -- rows ----------------------------------------------------------------------------------------------------------


def _query() -> Select[Any]:
    of_its_run = and_(runs.c.tenant_id == incidents.c.tenant_id, runs.c.run_id == incidents.c.run_id)
    return select(incidents, runs.c.name.label("run_name")).join(runs, of_its_run)


def _filtered(query: Select[Any], connection: Connection, which: IncidentFilter) -> Select[Any]:
    c = incidents.c
    conditions: list[ColumnElement[bool]] = []
    if which.run is not None:
        conditions += [c.run_id == which.run.run_id]
    if which.run_pattern is not None:
        conditions += [like(connection, runs.c.name, which.run_pattern)]
    for column, allowed in ((c.detector, which.detectors), (c.severity, which.severities), (c.origin, which.origins)):
        if allowed is not None:
            conditions += [column.in_(allowed)]
    if which.node is not None:
        conditions += [c.node == which.node]
    if which.is_open is not None:
        conditions += [c.cleared_us.is_(None) if which.is_open else c.cleared_us.is_not(None)]
    if which.since_us is not None:
        conditions += [or_(c.cleared_us.is_(None), c.cleared_us >= which.since_us)]
    if which.until_us is not None:
        conditions += [c.opened_us < which.until_us]
    return query.where(*conditions)


def _stored(connection: Connection, rows: Sequence[Row[Any]], at_us: int) -> list[StoredIncident]:
    acknowledged = _acknowledged(connection, rows)
    holding = {each: silences_at(connection, each, at_us) for each in {row.tenant_id for row in rows}}
    return [
        _one(row, acknowledged.get((row.tenant_id, row.run_id, row.incident_id)), holding[row.tenant_id])
        for row in rows
    ]


def _one(row: Row[Any], acknowledged: Note | None, holding: Sequence[Silence]) -> StoredIncident:
    incident = incident_of_row(row.run_name, row)
    silence = silence_of(holding, incident)
    return StoredIncident(
        key=RunKey(row.tenant_id, row.run_id),
        incident=incident,
        origin=row.origin,
        changed_us=row.changed_us,
        acknowledged=acknowledged,
        silenced_by=None if silence is None else silence.silence_id,
    )


def _acknowledged(connection: Connection, rows: Sequence[Row[Any]]) -> dict[tuple[int, int, str], Note]:
    """The notes that acknowledge these incidents and were not taken back."""
    c = incident_notes.c
    newest: dict[tuple[int, int, str], Note] = {}
    for tenant_id in {row.tenant_id for row in rows}:
        for some in _chunks([row.incident_id for row in rows if row.tenant_id == tenant_id]):
            query = select(incident_notes).where(c.tenant_id == tenant_id, c.incident_id.in_(some))
            query = query.where(c.what.in_(("acknowledged", "unacknowledged"))).order_by(c.at_us, c.note_id)
            for row in connection.execute(query):
                newest[row.tenant_id, row.run_id, row.incident_id] = _note(row)
    return {key: note for key, note in newest.items() if note.what == "acknowledged"}


def _note(row: Row[Any]) -> Note:
    return Note(row.note_id, row.at_us, row.author, row.what, row.text)


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """A statement has only so many parameters."""
    return (values[begin : begin + _AT_ONCE] for begin in range(0, len(values), _AT_ONCE))
