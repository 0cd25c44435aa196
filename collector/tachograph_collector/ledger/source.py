"""Where the ledger re-reads a stretch of a run's past: a file now, stored rows in the collector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tachograph_agent.events import AnyEvent


class StepSource(Protocol):
    """Gives events again that the ledger was fed before.

    The ledger keeps lifecycle events and the newest steps itself. It asks for older steps only when an event arrives
    for a stretch that it has already folded, or when a run resumes at a step inside such a stretch.
    """

    def read(self, run: str, since_us: int) -> Iterable[AnyEvent]:
        """Every event of ``run`` fed so far whose ``t`` is at or after ``since_us``, in any order, repeats allowed."""
        ...
