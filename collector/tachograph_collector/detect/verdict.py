"""What a detector says: one incident, with its evidence, and what changed about it."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from msgspec import Struct, field

Severity = Literal["info", "warning", "critical"]
What = Literal["opened", "updated", "cleared"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The numbers behind a verdict, in ``unit``; None where there is none."""

    value: float | None = None
    baseline: float | None = None
    threshold: float | None = None
    num_samples: int | None = None
    unit: str = ""
    more: dict[str, float | int | str | list[int] | None] = field(default_factory=dict)
    """What only this detector knows; names end in their unit."""


class Cost(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an incident has cost until now; None where it isn't known."""

    wall_s: float | None = None
    """Of the whole job: time that was lost, or by which it was slower."""
    gpu_hours: float | None = None
    money: float | None = None
    """In the unit of the run's ``price_per_gpu_hour``."""
    basis: str = ""
    """What is counted, in a few words: ``steps slower by 12 %``, ``work since the last checkpoint``."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What a detector sees now of one subject. ``subject`` is ``run``, ``rank 7`` or ``node n3``."""

    detector: str
    subject: str
    severity: Severity
    since_us: int
    """Where the stretch of time began that it is about."""
    summary: str
    evidence: Evidence
    advice: str
    """What to do, for who is woken by it."""
    node: str | None = None
    rank: int | None = None
    cost: Cost | None = None
    consequence_of: str | None = None
    """The id of the incident that it follows from."""


class Incident(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was wrong, from when it began until it was over. Times in microseconds since 1970."""

    incident_id: str
    """The same for the same run, detector, subject and beginning."""
    run: str
    detector: str
    subject: str
    severity: Severity
    """The worst it has been; of a failure that training has resumed from, what is left of it."""
    opened_us: int
    """When it began, as far as can be said; it was found at ``found_us``."""
    found_us: int
    updated_us: int
    summary: str
    evidence: Evidence
    attempt: str | None = None
    node: str | None = None
    rank: int | None = None
    advice: str | None = None
    cleared_us: int | None = None
    outcome: str | None = None
    """How it ended: ``recovered``, ``lingering``, ``attempt ended`` ...; ``withdrawn`` and why if it was none."""
    is_replayed: bool = False
    """It was found in steps that an earlier attempt had done before."""
    cost: Cost | None = None
    consequence_of: str | None = None
    """The id of the incident that it follows from: who is told of that one need not be told of this."""

    @property
    def is_withdrawn(self) -> bool:
        """Whether later events showed that nothing was wrong."""
        return self.outcome is not None and self.outcome.startswith("withdrawn")


class Change(Struct, frozen=True):
    """An incident as it is now, and what became of it."""

    what: What
    incident: Incident


def incident_id(run: str, detector: str, subject: str, opened_us: int) -> str:
    """40 hexadecimal digits."""
    return hashlib.sha256(f"{run}/{detector}/{subject}/{opened_us}".encode()).hexdigest()[:40]
