"""From what each look sees to what is told: at the start, on a change, once an hour, and at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tachograph_agent.health.finding import Finding

AGAIN_S = 3600.0
NUM_CLEAR_LOOKS = 2
"""A condition is over when so many looks in a row have not seen it."""
Told = dict[str, Any]
"""The fields of a ``health`` event; without ``t`` it is now."""


@dataclass(slots=True)
class _Condition:
    finding: Finding
    num_seen: int = 0
    num_missed: int = 0
    told_s: float | None = None
    """When it was last told (monotonic); None while it has not been."""
    told_severity: str = ""


class Conditions:
    """The open conditions of one check. Times are monotonic seconds; not thread-safe."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str, str], _Condition] = {}

    def look(self, findings: Iterable[Finding], now_s: float) -> list[Told]:
        """Take all that one look saw; gives what is to be told."""
        told = []
        seen = set()
        for finding in findings:
            if not finding.lasts:
                told.append(fields(finding))
                continue
            key = (finding.check, str(finding.gpu), finding.subject)
            seen.add(key)
            told += self._see(key, finding, now_s)
        for key in [key for key in self._open if key not in seen]:
            told += self._miss(key)
        return told

    def open(self) -> list[Told]:
        """What has been told and is not over, for a run that has just begun."""
        return [fields(known.finding) for known in self._open.values() if known.told_s is not None]

    def _see(self, key: tuple[str, str, str], finding: Finding, now_s: float) -> list[Told]:
        known = self._open.setdefault(key, _Condition(finding))
        known.finding = finding
        known.num_seen += 1
        known.num_missed = 0
        if known.num_seen < finding.num_looks:
            return []
        is_due = known.told_s is None or (finding.severity != "info" and now_s - known.told_s >= AGAIN_S)
        if not is_due and known.told_severity == finding.severity:
            return []
        known.told_s, known.told_severity = now_s, finding.severity
        return [fields(finding)]

    def _miss(self, key: tuple[str, str, str]) -> list[Told]:
        known = self._open[key]
        known.num_missed += 1
        if known.told_s is None:
            del self._open[key]
            return []
        if known.num_missed < NUM_CLEAR_LOOKS:
            return []
        del self._open[key]
        if known.told_severity == "info":
            return []
        return [
            {**fields(known.finding), "severity": "info", "detail": f"cleared: {known.finding.detail}", "open": False}
        ]


def fields(finding: Finding) -> Told:
    """The event's fields; ``open`` tells a condition from something that happened."""
    told: Told = {
        "check": finding.check,
        "gpu": finding.gpu,
        "value": finding.value,
        "severity": finding.severity,
        "detail": finding.detail[:300],
        "t": finding.t,
        "dur": finding.dur,
        "subject": finding.subject or None,
        "open": True if finding.lasts else None,
        **finding.extra,
    }
    return {name: value for name, value in told.items() if value is not None}
