"""Incidents as rows of ``incidents``, and back."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, select

from tachograph_collector.detect.incident_json import finite
from tachograph_collector.detect.verdict import Cost, Evidence, Incident
from tachograph_collector.store.folded import text_of
from tachograph_collector.store.incident_tables import incidents
from tachograph_collector.store.keys import RunKey

_AT_ONCE: Final = 400
"""Rows asked for by one statement."""
_AS_IT_IS: Final = (
    "incident_id", "opened_us", "found_us", "updated_us", "cleared_us", "consequence_of", "rank", "is_replayed",
)  # fmt: skip
_TEXTS: Final = ("detector", "subject", "severity", "outcome", "summary", "advice", "attempt", "node")


def incident_row(incident: Incident) -> dict[str, Any]:
    """The columns of one incident but for the run's, its origin and when it was written."""
    row: dict[str, Any] = {name: getattr(incident, name) for name in _AS_IT_IS}
    for name in _TEXTS:
        value = getattr(incident, name)
        row[name] = None if value is None else text_of(value)
    row["evidence"] = _plain(msgspec.to_builtins(incident.evidence))
    row["cost"] = None if incident.cost is None else _plain(msgspec.to_builtins(incident.cost))
    return row


def incident_of_row(run: str, row: Row[Any]) -> Incident:
    """One incident of the run of that name, as its row has it."""
    told = {name: getattr(row, name) for name in (*_AS_IT_IS, *_TEXTS)}
    cost = None if row.cost is None else msgspec.convert(row.cost, Cost)
    return Incident(run=run, evidence=msgspec.convert(row.evidence, Evidence), cost=cost, **told)


def differs(row: dict[str, Any], stored: Row[Any]) -> bool:
    """Whether the columns of ``incident_row`` are not as they are stored."""
    return any(getattr(stored, name) != value for name, value in row.items())


def open_rows(connection: Connection, run: RunKey) -> list[Row[Any]]:
    """The run's incidents that are not over."""
    query = select(incidents).where(*_of(run), incidents.c.cleared_us.is_(None))
    return list(connection.execute(query.order_by(incidents.c.opened_us, incidents.c.incident_id)))


def rows_of(connection: Connection, run: RunKey, ids: list[str]) -> dict[str, Row[Any]]:
    """Those of the run's incidents that have one of these ids, by id."""
    found: dict[str, Row[Any]] = {}
    for begin in range(0, len(ids), _AT_ONCE):
        query = select(incidents).where(*_of(run), incidents.c.incident_id.in_(ids[begin : begin + _AT_ONCE]))
        found |= {row.incident_id: row for row in connection.execute(query)}
    return found


def _of(run: RunKey) -> tuple[Any, ...]:
    return (incidents.c.tenant_id == run.tenant_id, incidents.c.run_id == run.run_id)


def _plain(value: Any) -> Any:
    """As both databases hold it: no number that JSON has no word for, no text that UTF-8 has none for."""
    if isinstance(value, dict):
        return {text_of(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return text_of(value) if isinstance(value, str) else finite(value)
