"""Silences: of which incidents nobody is to be told, and until when.

Patterns are a shell's (``*``, ``?``, ``[...]``), upper and lower case differ. They are held against names here rather
than in SQL: a tenant has few silences that hold at a time, and the databases differ in their patterns.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Connection, Row, and_, insert, or_, select, update

from tachograph_collector.detect.verdict import Incident
from tachograph_collector.store.incident_tables import silences


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """One silence; None leaves a side open. It holds from ``from_us`` until just before ``until_us`` or its end."""

    silence_id: str
    run_pattern: str | None
    detector: str | None
    subject: str | None
    """A shell pattern."""
    node: str | None
    from_us: int
    until_us: int
    author: str
    why: str
    created_us: int
    ended_us: int | None
    """When it was taken back before its time."""

    def state(self, at_us: int) -> str:
        """``active``, ``pending`` (it is still to begin), ``ended`` (taken back) or ``expired``."""
        if self.ended_us is not None and self.ended_us <= at_us:
            return "ended"
        if at_us < self.from_us:
            return "pending"
        return "active" if at_us < self.until_us else "expired"

    def covers(self, incident: Incident) -> bool:
        """Whether it is about that incident, whenever."""
        return (
            (self.run_pattern is None or fnmatchcase(incident.run, self.run_pattern))
            and self.detector in {None, incident.detector}
            and (self.subject is None or fnmatchcase(incident.subject, self.subject))
            and self.node in {None, incident.node}
        )


def silence_of(holding: Iterable[Silence], incident: Incident) -> Silence | None:
    """The first of these that is about the incident."""
    return next((each for each in holding if each.covers(incident)), None)


def silences_at(connection: Connection, tenant_id: int, at_us: int) -> list[Silence]:
    """The silences that hold at that time, the one that lasts longest first."""
    c = silences.c
    query = select(silences).where(c.tenant_id == tenant_id, c.from_us <= at_us, c.until_us > at_us)
    query = query.where(or_(c.ended_us.is_(None), c.ended_us > at_us)).order_by(c.until_us.desc(), c.silence_id)
    return [_silence(row) for row in connection.execute(query)]


def read_silences(
    connection: Connection,
    tenant_id: int,
    limit: int,
    after: tuple[int, str] | None = None,
    *,
    is_over: bool | None = None,
    at_us: int,
) -> list[Silence]:
    """Silences, the newest first; ``is_over``: only those that hold no longer at that time, or only the others."""
    c = silences.c
    query = select(silences).where(c.tenant_id == tenant_id)
    if after is not None:
        created_us, silence_id = after
        query = query.where(or_(c.created_us < created_us, and_(c.created_us == created_us, c.silence_id > silence_id)))
    if is_over is not None:
        over = or_(c.until_us <= at_us, and_(c.ended_us.is_not(None), c.ended_us <= at_us))
        query = query.where(over if is_over else ~over)
    query = query.order_by(c.created_us.desc(), c.silence_id).limit(limit)
    return [_silence(row) for row in connection.execute(query)]


def find_silences(connection: Connection, tenant_id: int, id_prefix: str, limit: int) -> Sequence[Silence]:
    """Silences whose id begins so."""
    c = silences.c
    query = select(silences).where(c.tenant_id == tenant_id, c.silence_id.startswith(id_prefix, autoescape=True))
    return [_silence(row) for row in connection.execute(query.order_by(c.silence_id).limit(limit))]


def add_silence(
    connection: Connection,
    tenant_id: int,
    *,
    run_pattern: str | None,
    detector: str | None,
    subject: str | None,
    node: str | None,
    from_us: int,
    until_us: int,
    author: str,
    why: str,
    now_us: int,
    silence_id: str | None = None,
) -> Silence:
    """Let nobody be told of these incidents from ``from_us`` until ``until_us``.

    What comes with a ``silence_id`` that is known already was sent twice: what is known is given back.
    """
    if silence_id is not None:
        c = silences.c
        known = select(silences).where(c.tenant_id == tenant_id, c.silence_id == silence_id)
        row = connection.execute(known).first()
        if row is not None:
            return _silence(row)
    silence = Silence(
        silence_id=silence_id or secrets.token_hex(8),
        run_pattern=run_pattern,
        detector=detector,
        subject=subject,
        node=node,
        from_us=from_us,
        until_us=until_us,
        author=author,
        why=why,
        created_us=now_us,
        ended_us=None,
    )
    values = {name: getattr(silence, name) for name in Silence.__slots__}
    connection.execute(insert(silences).values(tenant_id=tenant_id, **values))
    return silence


def end_silence(connection: Connection, tenant_id: int, silence_id: str, *, now_us: int) -> None:
    """Take a silence back now. One that is over already stays as it was."""
    c = silences.c
    connection.execute(
        update(silences)
        .where(c.tenant_id == tenant_id, c.silence_id == silence_id, c.ended_us.is_(None), c.until_us > now_us)
        .values(ended_us=now_us)
    )


def _silence(row: Row[Any]) -> Silence:
    return Silence(**{name: getattr(row, name) for name in Silence.__slots__})
