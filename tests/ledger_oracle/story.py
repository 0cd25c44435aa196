"""What the oracle works with and what it answers: pieces of work, claims on time, resumes, one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tachograph_agent.events import AnyEvent, RunStart

from ledger_oracle.attempts import Attempt, Span
from ledger_oracle.order import SECOND
from ledger_oracle.spans import Stretches

ACCOUNTS: Final = ("kept", "checkpoint", "lost", "restart")
PRIORITY: Final = {"checkpoint": 3, "lost": 2, "kept": 1, "restart": 0}
"""Where messy events would book a moment twice: checkpoint before work, lost before kept, work before restart."""
TIES: Final = ("lost", "restart", "checkpoint", "kept")
STALL_US: Final = 30 * SECOND
FOREVER: Final = (1 << 60, 0)

Place = tuple[int, int]
"""Where in the run something was executed: (attempt, number of rollbacks before it in that attempt)."""


@dataclass
class Piece:
    """Executed steps ``low + 1 .. high`` and the time that they own, stalls taken out."""

    place: Place
    low: int
    high: int
    owned: Stretches
    at_risk_always: bool = False


@dataclass
class Claim:
    """A stretch of time and the account that it is claimed for."""

    start: int
    end: int
    account: str
    sub: str
    attempt: int
    cause: str | None = None
    at_risk: bool = False
    weight: int = 0


@dataclass
class Resume:
    """From ``place`` on the run works on from step ``r``."""

    place: Place
    r: int
    cause: str | None


@dataclass
class OracleMinute:
    """One UTC minute."""

    start_us: int
    us: dict[str, int]
    label: str
    incomplete: bool


@dataclass
class OracleBooks:
    """What one run's events come to."""

    run: str
    status: str
    spans: list[tuple[int, int, str]]
    wall_us: int
    accounts_us: dict[str, int]
    subs_us: dict[str, int]
    lost_by_cause_us: dict[str, int]
    at_risk_us: int | None
    attempts: list[tuple[str, int, int, str]]
    num_attempts: int
    num_failures: int
    num_planned_stops: int
    num_unexplained_stops: int
    num_rollbacks: int
    steps: int
    segments: list[Claim]
    minutes: list[OracleMinute]
    num_minutes: dict[str, int]
    gpu_us: dict[str, int] | None


@dataclass
class Run:
    """One run's segments, after a name was divided into ``name``, ``name#2`` and so on."""

    name: str
    spans: list[Span]
    events: list[AnyEvent]
    claims: list[Claim] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, in order."""
        return [a for s in self.spans for a in s.attempts]

    @property
    def status(self) -> str:
        """The status of the last segment."""
        return self.spans[-1].status

    @property
    def unseen(self) -> bool:
        """Whether the source can't show saves."""
        return any(isinstance(e, RunStart) and e.checkpoints == "unseen" for s in self.spans for e in s.events)
