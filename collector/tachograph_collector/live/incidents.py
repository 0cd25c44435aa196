"""The rows of a run's incidents: written where they differ, and none left open that nobody holds open any more.

What a crash or another version of the detectors forgot is still in the table. An incident found there open is *taken
up*: when the detectors say the same of the same subject again, that goes on in its row, whatever moment they now take
for its beginning; when they don't, it is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from sqlalchemy import Connection

from tachograph_collector.detect.board import Sight
from tachograph_collector.detect.verdict import Incident
from tachograph_collector.store.folded import text_of, upsert
from tachograph_collector.store.incident_rows import differs, incident_of_row, incident_row, open_rows, rows_of
from tachograph_collector.store.incident_tables import incidents, sights
from tachograph_collector.store.keys import RunKey

GRACE_US: Final = 900_000_000
"""An incident that was taken up is closed when it was not seen again for so long: longer than any detector warms up."""
NOT_SEEN_AGAIN: Final = "not seen again by detectors that began afresh"

_Key = tuple[str, str]


class IncidentRows:
    """What is to be written of one run's incidents, and which are open. Thrown away when a transaction fails."""

    def __init__(self, run: RunKey, name: str) -> None:
        self._run = run
        self._name = name
        self._open: dict[str, Incident] = {}
        self._waiting: dict[str, Incident] = {}
        self._taken_up: dict[_Key, Incident] = {}
        self._taken_up_us: int | None = None
        self._stored_as: dict[str, str] = {}
        """Ids of incidents that go on in the row of another."""

    def take_up(self, connection: Connection) -> None:
        """Learn which are open in the table."""
        for row in open_rows(connection, self._run):
            incident = incident_of_row(self._name, row)
            self._open[incident.incident_id] = self._taken_up[_key(incident)] = incident

    def note(self, changed: Iterable[Incident]) -> None:
        """Remember incidents as they are now, in the order in which they became so, until they are written."""
        for incident in changed:
            before = self._taken_up.get(_key(incident))
            if before is not None and before.incident_id == incident.incident_id:
                del self._taken_up[_key(incident)]
            elif before is not None and incident.cleared_us is None:
                del self._taken_up[_key(incident)]
                self._stored_as[incident.incident_id] = before.incident_id
            one = self._as_stored(incident)
            self._waiting[one.incident_id] = one

    def note_held(self, held: Iterable[Incident]) -> None:
        """Note what a saved state holds: what is open, and what was open when it was last written."""
        self.note([one for one in held if one.cleared_us is None or one.incident_id in self._open])

    def _as_stored(self, incident: Incident) -> Incident:
        known = self._stored_as.get(incident.incident_id)
        if known is not None:
            before = self._waiting.get(known) or self._open.get(known) or incident
            incident = msgspec.structs.replace(
                incident, incident_id=known, opened_us=before.opened_us, found_us=before.found_us
            )
        cause = incident.consequence_of
        if cause in self._stored_as:
            incident = msgspec.structs.replace(incident, consequence_of=self._stored_as[cause])
        return incident

    def close_forgotten(self, now_us: int, *, at_once: bool) -> None:
        """Close what was taken up and not seen again, after a while or ``at_once``: all that will be judged was."""
        if self._taken_up and self._taken_up_us is None:
            self._taken_up_us = now_us
        if self._taken_up and (at_once or now_us - (self._taken_up_us or now_us) >= GRACE_US):
            for one in self._taken_up.values():
                self._close(one, now_us, NOT_SEEN_AGAIN)
            self._taken_up.clear()

    def close_all(self, ended_us: int) -> None:
        """The run is over, and so is whatever was still open of it."""
        for one in [*(self._open | self._waiting).values()]:
            if one.cleared_us is None:
                self._close(one, ended_us, "run ended")
        self._taken_up.clear()

    def _close(self, one: Incident, at_us: int, outcome: str) -> None:
        at_us = max(at_us, one.opened_us)
        self._waiting[one.incident_id] = msgspec.structs.replace(
            one, cleared_us=at_us, updated_us=max(at_us, one.updated_us), outcome=outcome
        )

    def write(self, connection: Connection, origin: str, at_us: int) -> tuple[int, int]:
        """Write what differs from the table; gives how many rows those were, and how many of them are new."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return 0, 0
        stored = rows_of(connection, self._run, list(waiting))
        common = {
            "tenant_id": self._run.tenant_id,
            "run_id": self._run.run_id,
            "origin": origin,
            "changed_us": at_us,
        }
        rows = []
        for incident_id, incident in waiting.items():
            row = incident_row(incident)
            if incident_id not in stored or differs(row, stored[incident_id]):
                rows.append(common | row)
            if incident.cleared_us is None:
                self._open[incident_id] = incident
            else:
                self._open.pop(incident_id, None)
        upsert(connection, incidents, rows)
        return len(rows), sum(incident_id not in stored for incident_id in waiting)

    def open(self) -> tuple[Incident, ...]:
        """Those that are open, as they were last written, by when they began."""
        return tuple(sorted(self._open.values(), key=lambda one: (one.opened_us, one.detector, one.subject)))


def write_sights(connection: Connection, run: RunKey, sights_now: Mapping[str, Sight], at_us: int) -> None:
    """Write how well each detector sees the run."""
    rows = [
        {
            "tenant_id": run.tenant_id,
            "run_id": run.run_id,
            "detector": detector,
            "state": sight.state,
            "reason": text_of(sight.reason),
            "num_evaluations": sight.num_evaluations,
            "num_verdicts": sight.num_verdicts,
            "at_us": at_us,
        }
        for detector, sight in sights_now.items()
    ]
    upsert(connection, sights, rows)


def _key(incident: Incident) -> _Key:
    return incident.detector, incident.subject
