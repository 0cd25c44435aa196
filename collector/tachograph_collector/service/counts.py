"""What this collector has done since it started, counted where it happens. Written by one thread, read by others."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from tachograph_collector.service.gather import Commit

COMMIT_BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Counts:
    """A watcher of commits."""

    accepted_events: int = 0
    rejected_events: int = 0
    stored_batches: int = 0
    duplicate_batches: int = 0
    failed_commits: int = 0
    commit_seconds: float = 0.0
    commits_by_bound: list[int] = field(default_factory=lambda: [0] * (len(COMMIT_BOUNDS_S) + 1))
    """How many took up to each of ``COMMIT_BOUNDS_S`` and longer than the one before; the last: longer than all."""

    def count(self, commit: Commit) -> None:
        """Add one commit."""
        if commit.problem is not None:
            self.failed_commits += 1
            return
        self.commits_by_bound[bisect_left(COMMIT_BOUNDS_S, commit.took_s)] += 1
        self.commit_seconds += commit.took_s
        for outcome in commit.outcomes:
            if outcome.duplicate:
                self.duplicate_batches += 1
                continue
            self.stored_batches += 1
            self.accepted_events += outcome.accepted
            self.rejected_events += outcome.rejected
