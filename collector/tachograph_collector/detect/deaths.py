"""The incidents of nodes that are dead or were never heard of (``dead_node``): one a node, or one of many at once.

Kept apart from the run's other incidents, since they are judged by arrival: on the database's clock, not the agents'.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from tachograph_collector.detect.course import SECOND_US
from tachograph_collector.detect.verdict import Cost, Evidence, Incident, Severity, incident_id

NAME: Final = "dead_node"
RENEW_US: Final = 60 * SECOND_US
"""An open incident says so often what it has cost by now."""
BASIS: Final = "time that training stood still since the last step"
NEVER_HEARD: Final = "see whether its agent runs and reaches this collector ('tachograph-agent check' on the node says)"


class Deaths:
    """Those of one run. Times are arrivals, in microseconds; ``last_step_us`` is when any rank's last step came."""

    def __init__(self, run: str, incidents: Iterable[Incident], num_verdicts: int) -> None:
        self._run = run
        self._open = {incident.subject: incident for incident in incidents}
        self._changed: dict[str, Incident] = {}
        self.num_verdicts = num_verdicts
        """How many incidents there were."""

    def is_open(self, node: str | None) -> bool:
        """Whether there is one of this node; of many at once for None."""
        return subject_of(node) in self._open

    def open(self) -> list[Incident]:
        """Those that are open."""
        return list(self._open.values())

    def take_changed(self) -> list[Incident]:
        """Those opened, renewed or cleared since the last call, as they are now."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    @property
    def has_changed(self) -> bool:
        """Whether ``take_changed`` has any."""
        return bool(self._changed)

    def say(
        self,
        at_us: int,
        since_us: int,
        node: str | None,
        severity: Severity,
        summary: str,
        evidence: Evidence,
        *,
        last_step_us: int | None,
        attempt: str | None = None,
    ) -> None:
        """Open one, unless it is open."""
        subject = subject_of(node)
        if subject in self._open:
            return
        incident = Incident(
            incident_id=incident_id(self._run, NAME, subject, since_us),
            run=self._run,
            detector=NAME,
            subject=subject,
            severity=severity,
            opened_us=since_us,
            found_us=at_us,
            updated_us=at_us,
            summary=summary,
            evidence=evidence,
            attempt=attempt,
            node=node,
            advice=_advice(node) if severity == "critical" else NEVER_HEARD,
        )
        self.num_verdicts += 1
        self._keep(structs.replace(incident, cost=_cost(incident, at_us, last_step_us)))

    def renew(self, at_us: int, last_step_us: int | None) -> None:
        """Say of those that are open what they have cost by now, now and then."""
        for incident in self.open():
            if at_us - incident.updated_us >= RENEW_US:
                self._keep(structs.replace(incident, updated_us=at_us, cost=_cost(incident, at_us, last_step_us)))

    def clear(self, at_us: int, node: str | None, outcome: str, last_step_us: int | None) -> None:
        """That of a node is over; nothing happens where there is none."""
        incident = self._open.pop(subject_of(node), None)
        if incident is None:
            return
        cost = None if outcome.startswith("withdrawn") else _cost(incident, at_us, last_step_us)
        cleared = structs.replace(incident, cleared_us=at_us, updated_us=at_us, outcome=outcome, cost=cost)
        self._changed[incident.incident_id] = cleared

    def _keep(self, incident: Incident) -> None:
        self._open[incident.subject] = self._changed[incident.incident_id] = incident


def subject_of(node: str | None) -> str:
    """Whom an incident is about: a node, or the run where many died at once."""
    return "run" if node is None else f"node {node}"


def _cost(incident: Incident, at_us: int, last_step_us: int | None) -> Cost | None:
    """How long training has stood still for it: next to nothing while other ranks step on.

    Where a step came since, as the next attempt's first, the longest that it had been by then.
    """
    if incident.severity != "critical" or last_step_us is None:
        return None
    known_s = incident.cost.wall_s or 0.0 if incident.cost is not None else 0.0
    return Cost(wall_s=max(known_s, (at_us - last_step_us) / SECOND_US), basis=BASIS)


def _advice(node: str | None) -> str:
    if node is None:
        return "look for what they share, such as a switch, a rack or the way to here, before nodes are drained"
    return f"drain {node}, replace it, and start again without it"
