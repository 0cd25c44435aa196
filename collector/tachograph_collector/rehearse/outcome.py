"""What came of a rehearsal: each fault, whether and when it was found, by what, and what was said besides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tachograph_collector.client.incident_records import Incident
from tachograph_collector.synthetic import Label

Verdict = Literal["detected", "missed", "quiet", "false alarm", "not reached"]


class Seen(Struct, frozen=True, kw_only=True):
    """An incident as it was first seen through the API, by the rehearsal's clock."""

    incident: str
    detector: str
    subject: str
    severity: str
    summary: str
    node: str | None
    seen_s: float
    consequence_of: str | None


class Line(Struct, frozen=True, kw_only=True):
    """One fault of one run. Times in seconds since 1970; ``after_s`` from the fault's beginning to when it was seen."""

    run: str
    fault: str
    subject: str | None
    at_s: float
    verdict: Verdict
    detector: str | None = None
    found_subject: str | None = None
    severity: str | None = None
    after_s: float | None = None
    summary: str | None = None
    within_s: float | None = None
    """How soon it was expected."""

    @property
    def is_good(self) -> bool:
        """Whether it is as it should be."""
        return self.verdict in {"detected", "quiet"}


def seen_of(incident: Incident, now_s: float) -> Seen:
    """An incident as one sees it now."""
    return Seen(
        incident=incident.incident_id,
        detector=incident.detector,
        subject=incident.subject,
        severity=incident.severity,
        summary=incident.summary,
        node=incident.node,
        seen_s=now_s,
        consequence_of=incident.consequence_of,
    )


def found_by(label: Label, seen: Iterable[Seen]) -> Seen | None:
    """The first incident that finds the fault."""
    finding = [it for it in seen if label.finds(it.detector, it.subject, it.seen_s, it.node)]
    return min(finding, key=lambda it: it.seen_s) if finding else None


def line_of(run: str, label: Label, seen: list[Seen], within_s: float, now_s: float) -> Line:
    """What became of one fault until ``now_s``."""
    subject = label.subjects[0] if label.subjects else None
    found = found_by(label, seen)
    verdict: Verdict
    if not label.detectors:
        verdict = "quiet"  # what was said all the same is a line of its own
    elif found is not None:
        verdict = "detected"
    else:
        verdict = "missed" if now_s >= label.at_s + within_s else "not reached"
    if now_s < label.at_s:
        verdict = "not reached"
    return Line(
        run=run,
        fault=label.fault,
        subject=subject,
        at_s=label.at_s,
        verdict=verdict,
        detector=None if found is None else found.detector,
        found_subject=None if found is None else found.subject,
        severity=None if found is None else found.severity,
        after_s=None if found is None else found.seen_s - label.at_s,
        summary=None if found is None else found.summary,
        within_s=within_s if label.detectors else None,
    )


def false_alarms(
    run: str, labels: list[Label], seen: list[Seen], known: frozenset[tuple[str, str]] = frozenset()
) -> list[Line]:
    """Incidents that no fault explains, nor another incident that one does."""
    explained = {it.incident for it in seen if (it.detector, it.subject) in known}
    explained |= {
        it.incident
        for it in seen
        if any(label.explains(it.detector, it.subject, it.seen_s, it.node) for label in labels)
    }
    return [
        Line(
            run=run,
            fault="none",
            subject=None,
            at_s=it.seen_s,
            verdict="false alarm",
            detector=it.detector,
            found_subject=it.subject,
            severity=it.severity,
            summary=it.summary,
        )
        for it in seen
        if it.incident not in explained and it.consequence_of not in explained
    ]
