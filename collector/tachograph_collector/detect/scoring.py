"""How well incidents agree with what is known to be wrong: hits, misses, false alarms, and the time until found.

Labels say what is wrong with a run, from when, and by which detectors it may be said. Strict: what was said twice of
one thing is false the second time, and what was withdrawn later had been said all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field

from tachograph_collector.detect.verdict import Incident

SECOND_US: Final = 1_000_000


class Expected(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. ``detectors``: any of them may say it; it is counted in the row of the first."""

    detectors: tuple[str, ...]
    since_us: int
    subjects: tuple[str, ...] = ()
    """``rank 7``, ``node n3``, ``run``: whom it may be said of; anyone where empty."""
    until_us: int | None = None
    """Found later is missed."""
    also: tuple[str, ...] = ()
    """Who may lawfully speak because of it, not counted: a detector (``job_slow`` of a straggler), or one about a
    subject (``straggler/rank 7`` of a node whose ranks are named one after the other)."""

    def is_met_by(self, incident: Incident) -> bool:
        """Whether ``incident`` says this."""
        return (
            incident.detector in self.detectors
            and (not self.subjects or incident.subject in self.subjects)
            and self.since_us <= incident.found_us
            and (self.until_us is None or incident.found_us <= self.until_us)
        )

    def excuses(self, incident: Incident) -> bool:
        """Whether ``incident`` may be said because of this."""
        names = (incident.detector, f"{incident.detector}/{incident.subject}")
        return incident.found_us >= self.since_us and any(name in self.also for name in names)


class Hit(Struct, frozen=True):
    """Something wrong and the incident that says so."""

    expected: Expected
    incident: Incident

    @property
    def delay_us(self) -> int:
        """From when it began until it was found."""
        return self.incident.found_us - self.expected.since_us


class Score(Struct):
    """One run's incidents against its labels."""

    hits: list[Hit] = field(default_factory=list)
    missed: list[Expected] = field(default_factory=list)
    false: list[Incident] = field(default_factory=list)
    again: list[Incident] = field(default_factory=list)
    """Said a second time of what had been said; these count as false."""


def score(incidents: Iterable[Incident], expected: Sequence[Expected]) -> Score:
    """Match each incident with the first label that it meets; in the order in which they were found."""
    result, open_labels = Score(), list(expected)
    for incident in sorted(incidents, key=lambda one: (one.found_us, one.detector, one.subject)):
        label = next((one for one in open_labels if one.is_met_by(incident)), None)
        if label is not None:
            open_labels.remove(label)
            result.hits.append(Hit(label, incident))
        elif any(one.excuses(incident) for one in expected):
            continue
        elif any(one.is_met_by(incident) for one in expected):
            result.again.append(incident)
        else:
            result.false.append(incident)
    result.missed = open_labels
    return result


class Tally(Struct):
    """What many runs' scores come to for one detector."""

    num_expected: int = 0
    num_hits: int = 0
    num_false: int = 0
    """What nothing was wrong with, or what had been said before."""
    delays_s: list[float] = field(default_factory=list)
    delays_steps: list[int] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        """Hits among all that was said; None where nothing was."""
        said = self.num_hits + self.num_false
        return self.num_hits / said if said else None

    @property
    def recall(self) -> float | None:
        """Hits among all that was wrong; None where nothing was."""
        return self.num_hits / self.num_expected if self.num_expected else None

    def delay_s(self, quantile: float) -> float | None:
        """Seconds until found, at a quantile; None where nothing was found."""
        return float(np.quantile(self.delays_s, quantile, method="higher")) if self.delays_s else None

    def delay_steps(self, quantile: float) -> int | None:
        """Steps that ended until then."""
        return int(np.quantile(self.delays_steps, quantile, method="higher")) if self.delays_steps else None


def added(tallies: Iterable[Tally]) -> Tally:
    """All of them together."""
    whole = Tally()
    for one in tallies:
        whole.num_expected += one.num_expected
        whole.num_hits += one.num_hits
        whole.num_false += one.num_false
        whole.delays_s += one.delays_s
        whole.delays_steps += one.delays_steps
    return whole


class Scoreboard:
    """Adds up scores by detector."""

    def __init__(self, settle_s: float = 0.0, at_once: Collection[str] = ()) -> None:
        """``settle_s``: how old events must be to be judged live; added to every delay but of detectors ``at_once``."""
        self.tallies: dict[str, Tally] = {}
        self._settle_s = settle_s
        self._at_once = at_once

    def _of(self, detector: str) -> Tally:
        return self.tallies.setdefault(detector, Tally())

    def add(self, one: Score, step_ends_us: Sequence[int] = ()) -> None:
        """Take a run's score. ``step_ends_us``: when its steps ended, ascending, to count delays in steps by."""
        ends = np.asarray(step_ends_us, dtype=np.int64)
        for hit in one.hits:
            tally = self._of(hit.expected.detectors[0])
            tally.num_expected += 1
            tally.num_hits += 1
            settle_s = 0.0 if hit.incident.detector in self._at_once else self._settle_s
            tally.delays_s.append(hit.delay_us / SECOND_US + settle_s)
            if len(ends):
                begin, end = np.searchsorted(ends, [hit.expected.since_us, hit.incident.found_us], side="right")
                tally.delays_steps.append(int(end - begin))
        for label in one.missed:
            self._of(label.detectors[0]).num_expected += 1
        for incident in (*one.false, *one.again):
            self._of(incident.detector).num_false += 1
