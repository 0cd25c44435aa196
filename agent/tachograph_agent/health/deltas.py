"""Counters of hardware as what was added since the last look; one that went back began again from 0."""

from __future__ import annotations

from collections.abc import Hashable, Mapping


class Deltas:
    """Remembers the last values. What is seen for the first time has added nothing: its past is not this run's."""

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}

    def of(self, values: Mapping[Hashable, int]) -> dict[Hashable, int]:
        """What each counter has counted since it was last given; a counter that is not given keeps its last value."""
        added = {}
        for name, value in values.items():
            last = self._last.get(name, value)
            added[name] = value - last if value >= last else value
            self._last[name] = value
        return added
