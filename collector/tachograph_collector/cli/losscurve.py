"""The loss over a run in a bounded number of points, for the picture in the report."""

from __future__ import annotations

import math
from typing import Final

from tachograph_agent.events import Step, microseconds

MAX_POINTS: Final = 4000

LossPoint = tuple[int, int, float]


class LossCurve:
    """Every loss of a run at first; when there are too many, every second one, then every fourth, and so on.

    The lowest rank that reports a loss is followed. The points come in the order in which they were added.
    """

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self._max_points = max_points
        self._points: list[LossPoint] = []
        self._every = 1
        self._num_seen = 0
        self._rank: int | None = None

    def add(self, step: Step) -> None:
        """Take one step's loss, if it tells a finite one."""
        loss = step.loss
        if loss is None or not math.isfinite(loss):
            return
        rank = -1 if step.rank is None else step.rank
        if self._rank is None or rank < self._rank:
            self._points.clear()
            self._rank, self._every, self._num_seen = rank, 1, 0
        elif rank > self._rank:
            return
        self._num_seen += 1
        if self._num_seen % self._every:
            return
        self._points.append((microseconds(step.t), step.step, loss))
        if len(self._points) >= self._max_points:
            self._points = self._points[1::2]
            self._every *= 2

    def points(self) -> list[LossPoint]:
        """(time in microseconds since 1970, step, loss) in order of time."""
        return sorted(self._points)
