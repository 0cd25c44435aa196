"""Incidents for the page: what was flagged, when, what it cost, what to do, and the numbers behind it.

Words come from logs and from detectors that quote logs; each goes through ``visible`` here, and through the template's
escaping behind it.
"""

from __future__ import annotations

from typing import Any, Final

from tachograph_collector.report.flagged import Flagged, by_weight, cost_words, evidence_words, lasted_words
from tachograph_collector.report.incident_lines import heading
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.text import visible

MAX_INCIDENTS: Final = 100
_ROLES: Final = {"critical": "lost", "warning": "restart"}
"""The colour of the style that stands for each severity; the word beside it says the same."""


def incidents_view(run: RunReport) -> dict[str, Any] | None:
    """What the template shows; None where nobody looked, or nothing was found."""
    real = [one for one in run.incidents or () if not one.is_withdrawn]
    if not real:
        return None
    shown = by_weight(real)[:MAX_INCIDENTS]
    rest = len(real) - len(shown)
    words = {one.incident_id: visible(one.summary, 120) for one in real}
    return {
        "heading": heading(run.incidents or ()),
        "shown": [_view(run, one, words) for one in shown],
        "left_out": f"and {rest:,} more: --incidents FILE has them all" if rest else "",
    }


def _view(run: RunReport, one: Flagged, words: dict[str, str]) -> dict[str, Any]:
    remarks = ["In steps that an earlier attempt had done before."] if one.is_replayed else []
    if one.consequence_of is not None:
        remarks += [f"It follows from: {words.get(one.consequence_of, 'another incident')}."]
    return {
        "role": _ROLES.get(one.severity, "info"),
        "severity": visible(one.severity, 20),
        "summary": visible(one.summary, 300),
        "when": run.when(one.opened_us, with_seconds=True) + (" UTC" if run.has_clock else ""),
        "lasted": lasted_words(one),
        "detector": visible(one.detector, 50).replace("_", " "),
        "subject": "" if one.subject == "run" else visible(one.subject, 120),
        "advice": None if one.advice is None else visible(one.advice, 500),
        "cost": cost_words(one.cost),
        "remarks": remarks,
        "evidence": evidence_words(one.evidence),
    }
