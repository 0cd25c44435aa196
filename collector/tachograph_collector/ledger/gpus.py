"""How many GPUs are held, and how many of them an attempt works with, at each time (rule 10)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from msgspec import Struct, field
from tachograph_agent.events import AllocationEnd, AllocationStart, microseconds


class Allocations(Struct):
    """What the scheduler gave and took back. Without any event, nothing is known of it."""

    events: list[tuple[int, int, str, int | None]] = field(default_factory=list)
    """Time, 0 for an end and 1 for a start, node (empty: none named), GPUs."""
    _times: list[int] = field(default_factory=list)
    _held: list[int | None] = field(default_factory=list)
    stale: bool = False

    def copy(self) -> Allocations:
        """The same, to be added to."""
        return Allocations(list(self.events), stale=True)

    def add(self, event: AllocationStart | AllocationEnd) -> int | None:
        """Take one event; gives the time that it changes, None if it is a repeat."""
        entry = (microseconds(event.t), int(isinstance(event, AllocationStart)), event.node or "", event.gpus)
        place = bisect_left(self.events, entry[:3], key=lambda known: known[:3])
        if place < len(self.events) and self.events[place][:3] == entry[:3]:
            if _canonical(self.events[place]) <= _canonical(entry):
                return None
            del self.events[place]
        self.events.insert(place, entry)
        self.stale = True
        return entry[0]

    def _settle(self) -> None:
        if not self.stale:
            return
        self._times, self._held, self.stale = [], [], False
        by_node: dict[str, int | None] = {}
        known, unknown = 0, 0  # GPUs of the nodes that told how many, and the number of nodes that did not

        def put(node: str, gpus: int | None) -> None:
            nonlocal known, unknown
            known, unknown = known + (gpus or 0), unknown + (gpus is None)
            by_node[node] = gpus

        def take(node: str) -> int | None:
            nonlocal known, unknown
            gpus = by_node.pop(node)
            known, unknown = known - (gpus or 0), unknown - (gpus is None)
            return gpus

        for t_us, starts, node, gpus in self.events:
            if starts:
                if node in by_node:
                    take(node)
                put(node, gpus)
            elif node in by_node:
                before = take(node)
                if gpus is not None and before is not None and gpus < before:
                    put(node, before - gpus)
            elif not node:
                by_node.clear()
                known = unknown = 0
            self._times.append(t_us)
            self._held.append(None if unknown else known)

    @property
    def known(self) -> bool:
        """Whether the scheduler was heard at all."""
        return bool(self.events)

    def held(self, t_us: int) -> int | None:
        """GPUs held at ``t_us``; None if they are held and nobody said how many."""
        self._settle()
        place = bisect_right(self._times, t_us) - 1
        return 0 if place < 0 else self._held[place]

    def changes(self, start_us: int, end_us: int) -> list[int]:
        """The times in (start, end) at which the number of GPUs changes."""
        self._settle()
        return self._times[bisect_right(self._times, start_us) : bisect_left(self._times, end_us)]

    @property
    def any_held_last(self) -> bool:
        """Whether an allocation is held after the last event."""
        self._settle()
        return bool(self._held) and self._held[-1] != 0


def _canonical(entry: tuple[int, int, str, int | None]) -> tuple[bool, str]:
    """What of two that are one says which of them stays: the first in canonical JSON, where ``gpus`` is text."""
    return (entry[3] is None, f"{entry[3]},")
