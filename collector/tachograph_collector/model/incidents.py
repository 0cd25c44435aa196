"""Failures grouped into incidents: what strikes again before the run is back on its feet is not a new misfortune.

A node that is half broken fails, comes back and fails again. Counted one by one, such failures pull the mean gap down
and make a model advise a shorter interval, which helps nobody: the follow-ups strike when nothing is there to be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """One failure. Times are seconds on any one clock."""

    struck_s: float
    resumed_s: float | None
    """When the first step after it began; None if nothing has stepped since."""
    category: str = "unknown"
    at_work: bool = True
    """Whether it struck in an attempt that had stepped; only such a failure can lose work."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A failure and those that joined it."""

    stops: tuple[Stop, ...]

    @property
    def struck_s(self) -> float:
        """When the first of them struck."""
        return self.stops[0].struck_s

    @property
    def down_s(self) -> float | None:
        """From the first failure until training went on after the last, work between them included; None if never."""
        end = self.stops[-1].resumed_s
        return None if end is None else end - self.struck_s


def incidents(stops: Sequence[Stop], interval_s: float | None) -> list[Incident]:
    """Group failures, which come in order of time.

    One that strikes before ``interval_s`` (a full interval with its save, and with what it takes to land) has been
    banked since the last restart joins the incident before it. Where the interval is unknown, only a failure before
    the first step does.
    """
    banked_s = interval_s or 0.0
    groups: list[list[Stop]] = []
    for stop in stops:
        last = groups[-1][-1] if groups else None
        if last is not None and (last.resumed_s is None or stop.struck_s - last.resumed_s < banked_s):
            groups[-1].append(stop)
        else:
            groups.append([stop])
    return [Incident(tuple(group)) for group in groups]
