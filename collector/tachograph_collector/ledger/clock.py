"""Broken clocks: a lone event more than a day from every other of its log is set aside (event-log, "Clocks")."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import AnyEvent, Failure, FailureWithdrawn

DAY_US: Final = 86_400_000_000


class Island(Struct):
    """Events with less than a day between neighbours."""

    low_us: int
    high_us: int
    lone: AnyEvent | None
    """The event that stands alone here and is held back; None once another has joined it."""


def is_exempt(event: AnyEvent) -> bool:
    """A hang can last a weekend: what says that runs, attempts and failures began or ended is always believed."""
    return isinstance(event, Failure | FailureWithdrawn) or event.kind.startswith(("run.", "attempt."))


class Islands(Struct):
    """Holds back events that stand alone until another comes within a day of them."""

    islands: list[Island] = field(default_factory=list)

    def admit(self, t_us: int, event: AnyEvent) -> list[AnyEvent]:
        """The events to take now: ``event`` and those that it proves right, or none if it stands alone."""
        islands = self.islands
        place = bisect_right(islands, t_us, key=lambda island: island.low_us)
        touching = [
            island
            for island in islands[max(0, place - 1) : place + 1]
            if island.low_us - DAY_US <= t_us <= island.high_us + DAY_US
        ]
        if not touching:
            lone = None if is_exempt(event) else event
            islands.insert(place, Island(t_us, t_us, lone))
            return [event] if lone is None else []
        if len(touching) == 1 and touching[0].lone == event:
            return []
        admitted = [island.lone for island in touching if island.lone is not None]
        first = touching[0]
        first.low_us = min(t_us, *(island.low_us for island in touching))
        first.high_us = max(t_us, *(island.high_us for island in touching))
        first.lone = None
        for island in touching[1:]:
            islands.remove(island)
        return [*admitted, event]

    def widen(self, low_us: int, high_us: int) -> bool:
        """Admit events from ``low_us`` to ``high_us`` at one stroke; False, and nothing done, if each needs a look.

        They lie within a day of the newest island and of no other: each would be admitted as it comes.
        """
        if not self.islands:
            return False
        island = self.islands[-1]
        if island.lone is not None or low_us < island.low_us - DAY_US or high_us > island.high_us + DAY_US:
            return False
        if len(self.islands) > 1 and low_us <= self.islands[-2].high_us + DAY_US:
            return False
        island.low_us, island.high_us = min(island.low_us, low_us), max(island.high_us, high_us)
        return True

    @property
    def held_back(self) -> list[AnyEvent]:
        """The events that stand alone, in time order."""
        return [island.lone for island in self.islands if island.lone is not None]
