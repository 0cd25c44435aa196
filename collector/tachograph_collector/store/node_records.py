"""Reads what is held against each node of a tenant over its runs, and for how long each was in them.

Failures are from ``restarts`` (what broke first, by node), the rest from ``incidents``, and application's Xids that one
GPU has shown in several runs from the events themselves, since no run alone shows them. How long a node was in runs is
from ``nodes``: from its first word to its last, by arrival; time in two runs at once counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, and_, or_, select
from tachograph_agent.events import Health

from tachograph_collector.detect.suspicion import DAY_US, Kind, Mark
from tachograph_collector.detect.xids import xids_of
from tachograph_collector.store.incident_tables import incidents
from tachograph_collector.store.rows import event_of
from tachograph_collector.store.schema import books, events, nodes, restarts, runs

MAX_XIDS: Final = 50_000
"""Events of Xids that are looked at, the newest; more is said."""
MAX_DETAIL: Final = 300
KINDS: Final[dict[str, Kind]] = {
    "xid": "xid",
    "node_health": "health",
    "straggler": "straggler",
    "straggler_episode": "episode",
    "silent_corruption": "corruption",
}
"""Incidents that are held against their node, by detector."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A node in a run, from its first word to its last."""

    node: str
    run: str
    origin: str
    first_heard_us: int
    last_heard_us: int
    state: str


@dataclass(frozen=True, slots=True)
class Records:
    """All that is known of a tenant's nodes in a window."""

    marks: list[Mark]
    stays: list[Stay]
    is_cut: bool
    """There were more Xids than are looked at."""

    def exposure_us(self, since_us: int, until_us: int) -> dict[str, int]:
        """How long each node was in runs within the window, microseconds; no time counts twice."""
        by_node: dict[str, list[tuple[int, int]]] = {}
        for stay in self.stays:
            begin, end = max(stay.first_heard_us, since_us), min(stay.last_heard_us, until_us)
            if begin < end:
                by_node.setdefault(stay.node, []).append((begin, end))
        return {node: _length(sorted(spans)) for node, spans in by_node.items()}

    def runs(self) -> dict[str, list[str]]:
        """The runs that each node was in."""
        found: dict[str, list[str]] = {}
        for stay in self.stays:
            found.setdefault(stay.node, []).append(stay.run)
        return found


def _length(spans: Sequence[tuple[int, int]]) -> int:
    length, until = 0, -1
    for begin, end in spans:
        length += max(0, end - max(begin, until))
        until = max(until, end)
    return length


def read_records(
    connection: Connection, tenant_id: int, origins: Sequence[str], since_us: int, until_us: int
) -> Records:
    """Marks and stays of a tenant's nodes in runs of these origins, from ``since_us`` up to ``until_us``."""
    xids, is_cut = _application_xids(connection, tenant_id, origins, since_us, until_us)
    marks = [
        *_failures(connection, tenant_id, origins, since_us, until_us),
        *_incidents(connection, tenant_id, origins, since_us, until_us),
        *xids,
    ]
    return Records(marks, _stays(connection, tenant_id, origins, since_us, until_us), is_cut)


def _failures(
    connection: Connection, tenant_id: int, origins: Sequence[str], since_us: int, until_us: int
) -> list[Mark]:
    c, b = restarts.c, books.c
    same = and_(b.tenant_id == c.tenant_id, b.run_id == c.run_id, b.generation == c.generation)
    query = (
        select(c.node, c.at_us, c.category, c.inferred, c.detail, b.name, b.generation)
        .join(books, same)
        .where(c.tenant_id == tenant_id, b.origin.in_(origins), c.node.is_not(None), c.how == "failure")
        .where(c.at_us >= since_us, c.at_us < until_us)
    )
    return [
        Mark(
            row.node,
            row.at_us,
            "dead" if row.inferred else "failure",
            row.name if row.generation == 1 else f"{row.name}#{row.generation}",
            ": ".join(filter(None, (row.category, row.detail)))[:MAX_DETAIL],
        )
        for row in connection.execute(query)
    ]


def _incidents(
    connection: Connection, tenant_id: int, origins: Sequence[str], since_us: int, until_us: int
) -> list[Mark]:
    c = incidents.c
    query = (
        select(c.node, c.opened_us, c.detector, c.severity, c.summary, runs.c.name)
        .join(runs, and_(runs.c.tenant_id == c.tenant_id, runs.c.run_id == c.run_id))
        .where(c.tenant_id == tenant_id, c.origin.in_(origins), c.node.is_not(None), c.detector.in_(KINDS))
        .where(c.opened_us >= since_us, c.opened_us < until_us, c.is_replayed.is_(False))
        .where(or_(c.outcome.is_(None), c.outcome.not_like("withdrawn%")))
    )
    return [
        Mark(
            row.node,
            row.opened_us,
            KINDS[row.detector],
            row.name,
            row.summary[:MAX_DETAIL],
            is_warning=row.severity != "critical" and row.detector in ("xid", "node_health"),
        )
        for row in connection.execute(query)
    ]


def _application_xids(
    connection: Connection, tenant_id: int, origins: Sequence[str], since_us: int, until_us: int
) -> tuple[list[Mark], bool]:
    """Those that one GPU has shown in two runs within a day; in two attempts of one run they are an incident."""
    e = events.c
    query = (
        select(e.body, e.t_us, runs.c.name)
        .join(runs, and_(runs.c.tenant_id == e.tenant_id, runs.c.run_id == e.run_id))
        .where(e.tenant_id == tenant_id, runs.c.origin.in_(origins), e.kind == "health", e.node.is_not(None))
        .where(runs.c.last_received_us >= since_us, e.t_us >= since_us, e.t_us < until_us, e.body.contains('"xid"'))
        .order_by(e.t_us.desc(), e.run_id, e.seq)
        .limit(MAX_XIDS + 1)
    )
    rows = connection.execute(query).all()
    seen: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for row in rows[:MAX_XIDS]:
        event = _health(row.body)
        for xid in xids_of(event) if event is not None and event.node is not None and event.check == "xid" else ():
            if event is not None and event.node is not None and xid.worth == "application":
                seen.setdefault((event.node, str(event.gpu)[:100]), []).append((row.t_us, row.name, xid.number))
    marks = []
    for (node, gpu), shown in seen.items():
        marks += [
            Mark(node, at_us, "application_xid", run, f"Xid {number} on {gpu}, which shows such in other runs, too")
            for at_us, run, number in shown
            if any(other != run and abs(other_us - at_us) <= DAY_US for other_us, other, _ in shown)
        ]
    return marks, len(rows) > MAX_XIDS


def _health(body: Any) -> Health | None:
    try:
        event = event_of(body)
    except ValueError:
        return None
    return event if isinstance(event, Health) else None


def _stays(connection: Connection, tenant_id: int, origins: Sequence[str], since_us: int, until_us: int) -> list[Stay]:
    c = nodes.c
    query = (
        select(c.node, runs.c.name, runs.c.origin, c.first_heard_us, c.last_heard_us, c.state)
        .join(runs, and_(runs.c.tenant_id == c.tenant_id, runs.c.run_id == c.run_id))
        .where(c.tenant_id == tenant_id, runs.c.origin.in_(origins))
        .where(c.last_heard_us >= since_us, c.first_heard_us < until_us)
        .order_by(c.node, c.first_heard_us, runs.c.name)
    )
    return [Stay(*row) for row in connection.execute(query)]
