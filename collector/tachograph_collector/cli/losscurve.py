"""The loss over a run in a bounded number of points, for the picture in the report."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Final

from tachograph_agent.events import Step, microseconds

from tachograph_collector.report.model import LossPoint

MAX_POINTS: Final = 4000
_loss = itemgetter(2)


class LossCurve:
    """Every loss of a run at first; when there are too many, the lowest and the highest of each 2, 4, 8 ... neighbours.

    So a spike of a single step is there however long the run is. The lowest rank that reports a loss is followed.
    """

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self._max_buckets = max_points // 4 * 2  # even, so that they can be joined two by two
        self._rank: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._buckets: list[tuple[LossPoint, LossPoint]] = []
        self._num_a_bucket = 1
        self._num_in_last = 1

    def add(self, step: Step) -> None:
        """Take one step's loss, if it tells a finite one."""
        loss = step.loss
        if loss is None or not math.isfinite(loss):
            return
        rank = -1 if step.rank is None else step.rank
        if self._rank is None or rank < self._rank:
            self._clear()
            self._rank = rank
        elif rank > self._rank:
            return
        point = (microseconds(step.t), step.step, loss)
        if self._num_in_last < self._num_a_bucket:
            self._num_in_last += 1
            self._buckets[-1] = _joined(self._buckets[-1], (point, point))
            return
        if len(self._buckets) >= self._max_buckets:
            halves = zip(self._buckets[::2], self._buckets[1::2], strict=True)
            self._buckets = [_joined(one, next_one) for one, next_one in halves]
            self._num_a_bucket *= 2
        self._buckets.append((point, point))
        self._num_in_last = 1

    def points(self) -> list[LossPoint]:
        """(time in microseconds since 1970, step, loss) in order of time."""
        return sorted({point for bucket in self._buckets for point in bucket})


def _joined(one: tuple[LossPoint, LossPoint], other: tuple[LossPoint, LossPoint]) -> tuple[LossPoint, LossPoint]:
    """The points of lowest and highest loss of two such pairs."""
    return min(one[0], other[0], key=_loss), max(one[1], other[1], key=_loss)
