"""In which minutes something was heard of a run, or should have been: what makes a minute incomplete (rule 8)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sized
from typing import Final, Protocol

from tachograph_collector.ledger.cover import Cover
from tachograph_collector.ledger.legs import FAR

MINUTE_US: Final = 60_000_000


class Minutes(Container[int], Iterable[int], Sized, Protocol):
    """Minutes that are booked."""


class Hearing:
    """Minutes heard, gaps told, and since when agents are expected; and which minutes that has changed for."""

    def __init__(self) -> None:
        self.heard: set[int] = set()
        self.gaps = Cover()
        self.expected_us: int | None = None
        self._changed: set[int] = set()
        self._changed_between: list[tuple[int, int]] = []

    def hear(self, t_us: int) -> None:
        """Something was told at this time."""
        minute = t_us // MINUTE_US
        if minute not in self.heard:
            self.heard.add(minute)
            self._changed.add(minute)

    def hear_in(self, minutes: set[int]) -> None:
        """Something was told in each of these minutes."""
        new = minutes - self.heard
        self.heard |= new
        self._changed |= new

    def lose(self, since_us: int, until_us: int) -> None:
        """What was told in between was lost."""
        self.gaps.add(since_us, until_us)
        self._changed_between.append((since_us, until_us))

    def expect(self, t_us: int) -> None:
        """An agent was there at this time: from then on something should be heard in each minute."""
        if self.expected_us is None or t_us < self.expected_us:
            self._changed_between.append((t_us, FAR if self.expected_us is None else self.expected_us))
            self.expected_us = t_us

    def is_incomplete(self, minute: int) -> bool:
        """Whether events of this minute are known, or must be feared, to be missing."""
        start_us = minute * MINUTE_US
        if self.gaps.touches(start_us, start_us + MINUTE_US):
            return True
        expected = self.expected_us is not None and start_us >= self.expected_us
        return expected and minute not in self.heard

    def changed(self, booked: Minutes) -> set[int]:
        """Of these minutes those that may have become incomplete, or complete, since ``forget_changes``."""
        found = {minute for minute in self._changed if minute in booked}
        for low_us, high_us in self._changed_between:
            low, high = low_us // MINUTE_US, high_us // MINUTE_US
            if high - low < len(booked):
                found.update(minute for minute in range(low, high + 1) if minute in booked)
            else:
                found.update(minute for minute in booked if low <= minute <= high)
        return found

    def forget_changes(self) -> None:
        """What has changed was asked for."""
        self._changed, self._changed_between = set(), []
