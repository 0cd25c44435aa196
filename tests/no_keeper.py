"""A keeper that folds nothing, for tests of routes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tachograph_collector.live.snapshot import Fold, LiveSnapshot
from tachograph_collector.store.keys import RunKey


class NoKeeper:
    """Folds nothing."""

    holder = ""

    def __init__(self) -> None:
        self.watchers: list[Callable[[Fold], None]] = []

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def wake(self, runs: Iterable[RunKey]) -> None:
        """Nobody to wake."""

    def snapshot(self) -> LiveSnapshot:
        """Nothing is folded."""
        return LiveSnapshot()
