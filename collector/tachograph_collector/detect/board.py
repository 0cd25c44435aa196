"""The incidents of one run: one open for each detector and subject, what changed, and how well each detector sees.

A detector says what it sees (``say``) and what is over (``clear``); whether that opens an incident, updates one, or is
news at all is decided here, so that every detector re-arms and repeats itself alike.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field

from tachograph_collector.detect.consequences import cause_of
from tachograph_collector.detect.settings import Common
from tachograph_collector.detect.verdict import (
    SEVERITIES,
    Change,
    Cost,
    Incident,
    Severity,
    Verdict,
    incident_id,
)

SECOND_US: Final = 1_000_000
RECENT: Final = 50
"""Of the incidents that are over so many are looked through for a cause."""
MAX_CLOSED: Final = 10_000
"""Incidents that are over and still held; of more the oldest go, counted."""


class Sight(Struct):
    """How well one detector sees: what it is worth that it says nothing."""

    state: str = "blind"
    """``armed``: it judges; ``eligible``: it will, after warm-up; ``blind``: what it needs is not in the events."""
    reason: str = "nothing was heard yet"
    num_evaluations: int = 0
    num_verdicts: int = 0


class BoardState(Struct):
    """What is saved."""

    open: list[Incident] = field(default_factory=list)
    closed: list[Incident] = field(default_factory=list)
    others: list[Incident] = field(default_factory=list)
    """What was found elsewhere, not told here: it explains what is."""
    num_forgotten: int = 0
    sights: dict[str, Sight] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)


class Board:
    """Keeps the incidents of one run. Not thread-safe."""

    def __init__(self, run: str, settings: Common, state: BoardState | None = None) -> None:
        state = BoardState() if state is None else state
        self._run = run
        self._update_us = round(settings.update_s * SECOND_US)
        self._open = {(one.detector, one.subject): one for one in state.open}
        self._closed = state.closed
        self._others = state.others
        self.num_forgotten = state.num_forgotten
        self.sights = state.sights
        self._changes = state.changes
        self.attempt: str | None = None
        self.is_replayed = False

    def state(self) -> BoardState:
        """What ``__init__`` goes on from."""
        return BoardState(
            list(self._open.values()), self._closed, self._others, self.num_forgotten, self.sights, self._changes
        )

    def sight(self, detector: str, state: str, reason: str = "") -> Sight:
        """Note how well ``detector`` sees."""
        sight = self.sights.setdefault(detector, Sight())
        sight.state, sight.reason = state, reason
        return sight

    def evaluated(self, detector: str, number: int = 1) -> None:
        """``detector`` judged something."""
        sight = self.sights.setdefault(detector, Sight())
        sight.state, sight.reason = "armed", ""
        sight.num_evaluations += number

    def open(self, detector: str, subject: str | None = None) -> list[Incident]:
        """The open incidents of a detector, or of one subject of it."""
        if subject is not None:
            one = self._open.get((detector, subject))
            return [] if one is None else [one]
        return [one for (name, _), one in self._open.items() if name == detector]

    def say(self, at_us: int, verdict: Verdict, *, is_final: bool = False) -> None:
        """Open an incident, or update the one that is open. Updates are spaced out unless ``is_final``."""
        key, since_us = (verdict.detector, verdict.subject), min(verdict.since_us, at_us)
        before = self._open.get(key)
        if before is None:
            incident = Incident(
                incident_id=incident_id(self._run, *key, since_us),
                run=self._run,
                detector=verdict.detector,
                subject=verdict.subject,
                severity=verdict.severity,
                opened_us=since_us,
                found_us=at_us,
                updated_us=at_us,
                summary=verdict.summary,
                evidence=verdict.evidence,
                attempt=self.attempt,
                node=verdict.node,
                rank=verdict.rank,
                advice=verdict.advice,
                is_replayed=self.is_replayed,
                cost=verdict.cost,
                consequence_of=self._cause(verdict),
            )
            self._open[key] = incident
            self.sights.setdefault(verdict.detector, Sight()).num_verdicts += 1
            self._changes.append(Change("opened", incident))
            self._link(incident)
            return
        worse = SEVERITIES.index(verdict.severity) > SEVERITIES.index(before.severity)
        if not worse and not is_final and at_us - before.updated_us < self._update_us:
            return
        self._open[key] = after = msgspec.structs.replace(
            before,
            severity=verdict.severity if worse else before.severity,
            updated_us=at_us,
            summary=verdict.summary,
            evidence=verdict.evidence,
            advice=verdict.advice,
            cost=verdict.cost,
            consequence_of=before.consequence_of or self._cause(verdict),
        )
        self._changes.append(Change("updated", after))

    def recent(self) -> list[Incident]:
        """The open incidents, the last that are over, and those found elsewhere."""
        return [*self._open.values(), *self._closed[-RECENT:], *self._others]

    def know(self, incident: Incident) -> Incident:
        """Take an incident that was found elsewhere, as it is now: what follows from it is said to.

        Gives it back with what it follows from itself.
        """
        before = next((one for one in self._others if one.incident_id == incident.incident_id), None)
        cause_id = incident.consequence_of or (None if before is None else before.consequence_of)
        if cause_id is None:
            cause = cause_of(incident, self.recent())
            cause_id = None if cause is None else cause.incident_id
        is_over = before is not None and incident.cleared_us is not None
        advice = before.advice if before is not None and is_over else incident.advice
        after = msgspec.structs.replace(incident, consequence_of=cause_id, advice=advice)
        self._others = [one for one in self._others if one.incident_id != incident.incident_id][-RECENT + 1 :]
        self._others.append(after)
        self._link(after)
        return after

    def _cause(self, verdict: Verdict) -> str | None:
        if verdict.consequence_of is not None:
            return verdict.consequence_of
        cause = cause_of(verdict, self.recent())
        return None if cause is None else cause.incident_id

    def _link(self, cause: Incident) -> None:
        """What was found before it, and follows from it, is said to."""
        for key, one in list(self._open.items()):
            if one.consequence_of is None and cause_of(one, [cause]) is not None:
                self._open[key] = after = msgspec.structs.replace(one, consequence_of=cause.incident_id)
                self._changes.append(Change("updated", after))
        for place in range(max(0, len(self._closed) - RECENT), len(self._closed)):
            one = self._closed[place]
            if one.consequence_of is None and cause_of(one, [cause]) is not None:
                self._closed[place] = after = msgspec.structs.replace(one, consequence_of=cause.incident_id)
                self._changes.append(Change("updated", after))

    def clear(
        self,
        at_us: int,
        detector: str,
        subject: str,
        outcome: str = "recovered",
        cost: Cost | None = None,
        severity: Severity | None = None,
    ) -> None:
        """What was open of this subject is over; nothing happens where nothing was.

        ``cost`` is what it came to, where that is more than was said last. What is withdrawn has cost nothing.
        ``severity`` is what is left of it, where that is less than it was.
        """
        before = self._open.pop((detector, subject), None)
        if before is None:
            return
        after = msgspec.structs.replace(
            before,
            cleared_us=max(at_us, before.opened_us),
            updated_us=max(at_us, before.updated_us),
            outcome=outcome,
            severity=severity or before.severity,
            cost=None if outcome.startswith("withdrawn") else cost or before.cost,
        )
        self._closed.append(after)
        if len(self._closed) > MAX_CLOSED:
            del self._closed[0]
            self.num_forgotten += 1
        self._changes.append(Change("cleared", after))

    def clear_all(self, at_us: int, detector: str, outcome: str) -> None:
        """All that is open of a detector is over."""
        for one in self.open(detector):
            self.clear(at_us, detector, one.subject, outcome)

    def incidents(self) -> list[Incident]:
        """All of them, by when they began."""
        return sorted([*self._closed, *self._open.values()], key=lambda one: (one.opened_us, one.detector, one.subject))

    def take_changes(self) -> list[Change]:
        """What changed since this was last asked."""
        changes, self._changes = self._changes, []
        return changes
