"""A collector's incidents as the reports show them: in microseconds, with evidence in its parts."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from tachograph_collector.client.incident_records import Cost, Incident

_COMMON: Final = ("value", "baseline", "threshold", "num_samples", "unit")


class SeenEvidence(Struct, frozen=True, kw_only=True):
    """The numbers behind an incident, in ``unit``."""

    value: float | None = None
    baseline: float | None = None
    threshold: float | None = None
    num_samples: int | None = None
    unit: str = ""
    more: dict[str, Any] = field(default_factory=dict)


class SeenIncident(Struct, frozen=True, kw_only=True):
    """One incident. Times in microseconds since 1970."""

    incident_id: str
    detector: str
    subject: str
    severity: str
    opened_us: int
    cleared_us: int | None
    outcome: str | None
    summary: str
    advice: str | None
    is_replayed: bool
    is_withdrawn: bool
    consequence_of: str | None
    cost: Cost | None
    evidence: SeenEvidence


def seen(told: Incident) -> SeenIncident:
    """As the reports take it."""
    return SeenIncident(
        incident_id=told.incident_id,
        detector=told.detector,
        subject=told.subject,
        severity=told.severity,
        opened_us=round(told.opened_at * 1e6),
        cleared_us=None if told.cleared_at is None else round(told.cleared_at * 1e6),
        outcome=told.outcome,
        summary=told.summary,
        advice=told.advice,
        is_replayed=told.is_replayed,
        is_withdrawn=told.is_withdrawn,
        consequence_of=told.consequence_of,
        cost=told.cost,
        evidence=_evidence(told.evidence),
    )


def _evidence(told: dict[str, Any]) -> SeenEvidence:
    numbers = {name: _number(told.get(name)) for name in _COMMON[:3]}
    samples, unit = told.get("num_samples"), told.get("unit")
    return SeenEvidence(
        **numbers,
        num_samples=samples if isinstance(samples, int) else None,
        unit=unit if isinstance(unit, str) else "",
        more={name: value for name, value in told.items() if name not in _COMMON},
    )


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
