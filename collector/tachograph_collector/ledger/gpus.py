"""How many GPUs are held, and how many of them an attempt works with, at each time (rule 10)."""

from __future__ import annotations

from bisect import bisect_right, insort

from msgspec import Struct, field
from tachograph_agent.events import AllocationEnd, AllocationStart, microseconds


class Allocations(Struct):
    """What the scheduler gave and took back. Without any event, nothing is known of it."""

    events: list[tuple[int, int, str, int | None]] = field(default_factory=list)
    """Time, 0 for an end and 1 for a start, node (empty: none named), GPUs."""
    _times: list[int] = field(default_factory=list)
    _held: list[int | None] = field(default_factory=list)
    stale: bool = False

    def add(self, event: AllocationStart | AllocationEnd) -> int | None:
        """Take one event; gives the time that it changes, None if it is a repeat."""
        entry = (microseconds(event.t), int(isinstance(event, AllocationStart)), event.node or "", event.gpus)
        if entry in self.events:
            return None
        insort(self.events, entry, key=lambda known: (known[0], known[1], known[2]))
        self.stale = True
        return entry[0]

    def _settle(self) -> None:
        if not self.stale:
            return
        self._times, self._held, self.stale = [], [], False
        by_node: dict[str, int | None] = {}
        for t_us, starts, node, gpus in self.events:
            if starts:
                by_node[node] = gpus
            elif node in by_node and (gpus is None or by_node[node] is None or gpus >= (by_node[node] or 0)):
                del by_node[node]
            elif node in by_node:
                by_node[node] = (by_node[node] or 0) - (gpus or 0)
            elif not node:
                by_node.clear()
            known = [count for count in by_node.values() if count is not None]
            self._times.append(t_us)
            self._held.append(None if by_node and len(known) < len(by_node) else sum(known))

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
        return [t for t in self._times[bisect_right(self._times, start_us) :] if t < end_us]

    @property
    def any_held_last(self) -> bool:
        """Whether an allocation is held after the last event."""
        self._settle()
        return bool(self._held) and self._held[-1] != 0
