"""What the collector says while the demo goes on: looks again and again, tells what is new, and what found each fault.

Every number here is the collector's, but for the time that it took: that is from the fault until the answer showed it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tachograph_collector.client import Client, UnknownRunError
from tachograph_collector.client.client import is_unbooked
from tachograph_collector.client.errors import ClientError
from tachograph_collector.client.incident_records import Incident
from tachograph_collector.client.records import Restart

from demo.cluster import RUN

ASK_EVERY_S = 0.5


@dataclass
class Fault:
    """One thing that was done to the training, and how it was found."""

    what: str
    """In the words of the table at the end."""
    expected: str
    at_s: float
    """By this process's monotonic clock."""
    by: str | None = None
    """What the collector called it; None: it was not found, or not yet."""
    after_s: float | None = None


class Watch:
    """Asks ``client`` about the demo's run; ``say`` gets a line for each thing that is new."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self.faults: list[Fault] = []
        self._client = client
        self._say = say
        self._asked_s = 0.0
        self._open: dict[str, bool] = {}
        self._num_restarts = 0

    def expect(self, what: str, expected: str) -> Fault:
        """From now on it is waited for that the collector says ``expected``: a detector and its subject."""
        fault = Fault(what, expected, time.monotonic())
        self.faults.append(fault)
        return fault

    def look(self) -> None:
        """Ask what is new, if it wasn't asked just now. Of a run that the collector doesn't know yet nothing is."""
        now_s = time.monotonic()
        if now_s - self._asked_s < ASK_EVERY_S:
            return
        self._asked_s = now_s
        run = self._client.run(RUN)
        try:
            restarts, incidents = run.restarts(), run.incidents()
        except UnknownRunError:
            return
        except ClientError as error:
            if is_unbooked(error):
                return
            raise
        for restart in restarts[self._num_restarts :]:
            self._hear(told(restart), f"stopped by {told(restart)}")
        self._num_restarts = len(restarts)
        for incident in sorted(incidents, key=lambda it: it.found_at):
            self._hear_incident(incident)

    def _hear_incident(self, incident: Incident) -> None:
        was_open = self._open.get(incident.incident_id)
        self._open[incident.incident_id] = incident.is_open
        if was_open is None:
            self._hear(f"{incident.detector}, {incident.subject}", f"{incident.severity}: {incident.summary}")
        elif was_open and not incident.is_open:
            self._say(f"           over: {incident.detector}, {incident.subject} ({incident.outcome})")

    def _hear(self, what: str, sentence: str) -> None:
        self._say(f"  collector: {sentence}")
        now_s = time.monotonic()
        for fault in self.faults:
            if fault.by is None and fault.expected == what:
                fault.by, fault.after_s = what, now_s - fault.at_s
                return


def told(restart: Restart) -> str:
    """Who or what stopped an attempt, in few words: ``failure, rank 5``."""
    who = f"rank {restart.rank}" if restart.rank is not None else f"node {restart.node}" if restart.node else "run"
    return f"{restart.how}, {who}"
