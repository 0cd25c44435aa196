"""An incident as plain data, the same wherever it goes as JSON: ``--incidents``, the API, webhooks."""

from __future__ import annotations

import math
from typing import Any, Final

from tachograph_collector.detect.verdict import Cost, Evidence, Incident

_SECOND: Final = 1_000_000


def incident_object(incident: Incident) -> dict[str, Any]:
    """One incident; instants (``..._at``) are seconds since 1970. A number that JSON has no word for is None."""
    plain: dict[str, Any] = {
        "incident_id": incident.incident_id,
        "run": incident.run,
        "detector": incident.detector,
        "subject": incident.subject,
        "severity": incident.severity,
    }
    for name in ("opened", "found", "updated", "cleared"):
        us = getattr(incident, f"{name}_us")
        plain[f"{name}_at"] = None if us is None else us / _SECOND
    for name in ("outcome", "summary", "advice", "attempt", "node", "rank", "is_replayed", "is_withdrawn"):
        plain[name] = getattr(incident, name)
    plain["consequence_of"] = incident.consequence_of
    plain["cost"] = None if incident.cost is None else cost_object(incident.cost)
    plain["evidence"] = evidence_object(incident.evidence)
    return plain


def cost_object(cost: Cost) -> dict[str, Any]:
    """Seconds of the whole job, GPU-hours, money, and what is counted."""
    numbers = {name: finite(getattr(cost, name)) for name in ("wall_s", "gpu_hours", "money")}
    return {**numbers, "basis": cost.basis or None}


def evidence_object(evidence: Evidence) -> dict[str, Any]:
    """The numbers that every detector has, and beside them those that only this one knows."""
    plain = {name: finite(getattr(evidence, name)) for name in ("value", "baseline", "threshold", "num_samples")}
    plain["unit"] = evidence.unit or None
    return plain | {name: finite(value) for name, value in evidence.more.items()}


def finite(value: Any) -> Any:
    """The value, None in the place of a number that is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
