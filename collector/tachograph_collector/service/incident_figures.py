"""What is flagged of runs, and how well each detector sees them, read for metrics: all runs in three questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, func, select, tuple_

from tachograph_collector.detect.verdict import SEVERITIES, Severity
from tachograph_collector.store.incident_tables import incidents, sights
from tachograph_collector.store.keys import RunKey

MAX_OPEN: Final = 20
"""Open incidents of a run with a series of their own: the gravest, of these the oldest."""
_AT_ONCE: Final = 200
_READ_AT_MOST: Final = 5000


@dataclass(frozen=True, slots=True)
class Open:
    """One incident that is open."""

    detector: str
    severity: str
    subject: str
    node: str | None
    opened_us: int


@dataclass(frozen=True, slots=True)
class Seen:
    """How well one detector sees the run."""

    detector: str
    state: str
    """``armed``, ``eligible`` or ``blind``."""
    num_evaluations: int
    num_verdicts: int


@dataclass(slots=True)
class Flagged:
    """One run's incidents and sights."""

    open: list[Open] = field(default_factory=list)
    num_open: dict[tuple[str, str], int] = field(default_factory=dict)
    """By detector and severity."""
    num_opened: dict[tuple[str, Severity], int] = field(default_factory=dict)
    """By detector and severity: those that were at least so grave at any time, so that it never falls."""
    seen: list[Seen] = field(default_factory=list)


def read_flagged(connection: Connection, runs: Sequence[RunKey]) -> dict[RunKey, Flagged]:
    """What is flagged of each of these runs."""
    found: dict[RunKey, Flagged] = defaultdict(Flagged)
    for some in _chunks(runs):
        _read_open(connection, some, found)
        _count_opened(connection, some, found)
        _read_sights(connection, some, found)
    for flagged in found.values():
        flagged.open = gravest(flagged.open)
    return dict(found)


def gravest(open_now: Sequence[Open]) -> list[Open]:
    """Those that have a series of their own."""
    return sorted(open_now, key=lambda one: (-_rank(one.severity), one.opened_us, one.detector, one.subject))[:MAX_OPEN]


def _rank(severity: str) -> int:
    return next((place for place, name in enumerate(SEVERITIES) if name == severity), -1)


def _read_open(connection: Connection, runs: Sequence[RunKey], found: dict[RunKey, Flagged]) -> None:
    c = incidents.c
    query = select(c.tenant_id, c.run_id, c.detector, c.severity, c.subject, c.node, c.opened_us)
    query = query.where(_among(incidents, runs), c.cleared_us.is_(None)).order_by(c.opened_us).limit(_READ_AT_MOST)
    for row in connection.execute(query):
        flagged = found[RunKey(row.tenant_id, row.run_id)]
        flagged.open.append(Open(row.detector, row.severity, row.subject, row.node, row.opened_us))
        key = (row.detector, row.severity)
        flagged.num_open[key] = flagged.num_open.get(key, 0) + 1


def _count_opened(connection: Connection, runs: Sequence[RunKey], found: dict[RunKey, Flagged]) -> None:
    c = incidents.c
    query = select(c.tenant_id, c.run_id, c.detector, c.severity, func.count().label("num"))
    query = query.where(_among(incidents, runs)).group_by(c.tenant_id, c.run_id, c.detector, c.severity)
    for row in connection.execute(query):
        num_opened = found[RunKey(row.tenant_id, row.run_id)].num_opened
        for severity in SEVERITIES[: _rank(row.severity) + 1]:
            num_opened[row.detector, severity] = num_opened.get((row.detector, severity), 0) + int(row.num)


def _read_sights(connection: Connection, runs: Sequence[RunKey], found: dict[RunKey, Flagged]) -> None:
    c = sights.c
    query = select(sights).where(_among(sights, runs)).order_by(c.detector)
    for row in connection.execute(query):
        flagged = found[RunKey(row.tenant_id, row.run_id)]
        flagged.seen.append(Seen(row.detector, row.state, row.num_evaluations, row.num_verdicts))
        for severity in SEVERITIES:
            flagged.num_opened.setdefault((row.detector, severity), 0)


def _among(table: Table, runs: Sequence[RunKey]) -> ColumnElement[bool]:
    return tuple_(table.c.tenant_id, table.c.run_id).in_([tuple(each) for each in runs])


def _chunks(runs: Sequence[RunKey]) -> Iterator[Sequence[RunKey]]:
    return (runs[begin : begin + _AT_ONCE] for begin in range(0, len(runs), _AT_ONCE))
