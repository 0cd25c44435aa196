"""Checks of others: entry points of the group ``tachograph.health``, each loaded and run within its own time-out.

An entry point is called without arguments and gives a check: ``name``, ``every_s``, ``timeout_s`` and ``look()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tachograph_agent.health.finding import Check, Finding

GROUP = "tachograph.health"


class PlugIn:
    """A check that is loaded at its first look, so that one that can't be loaded is a finding and stops nothing."""

    every_s = 60.0
    timeout_s = 30.0

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name = name
        self._load = load
        self._check: Check | None = None

    def look(self) -> Iterable[Finding]:
        """What the plug-in finds."""
        if self._check is None:
            made = self._load()()
            for attribute in ("every_s", "timeout_s"):
                told = getattr(made, attribute, None)
                if not isinstance(told, int | float) or not 0 < told <= 86_400:
                    raise TypeError(f"its {attribute} is {told!r}; expected seconds, more than 0 and at most a day")
            if not callable(getattr(made, "look", None)):
                raise TypeError("it has no method look()")
            self.every_s, self.timeout_s, self._check = float(made.every_s), float(made.timeout_s), made
        return self._check.look()


def plug_ins(found: Iterable[EntryPoint] | None = None) -> list[PlugIn]:
    """The plug-ins that are installed, in the order of their names."""
    points = entry_points(group=GROUP) if found is None else found
    return [PlugIn(point.name.replace(" ", "_"), point.load) for point in sorted(points, key=lambda one: one.name)]
