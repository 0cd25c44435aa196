"""How far out a run's own noise throws a single point: its tail, estimated from the largest of many.

Noise of batches is seldom Gaussian: with Student-t(4) noise one point in 5,000 lies eleven robust deviations out, and
means nothing. What one run's noise does is learnt from that run.
"""

from __future__ import annotations

import math
from bisect import insort
from typing import Final

from msgspec import Struct, field

MAX_POINTS: Final = 20_000
"""Of more the older half counts no longer."""
FEWEST_POINTS: Final = 512
"""With fewer nothing is said of the tail."""
NUM_TOP: Final = 32
"""So many of the largest are the tail, of few points each twentieth."""
USUAL_INDEX: Final = 0.25
"""A tail like Student-t(4)'s: supposed until points say otherwise."""
USUAL_WEIGHT: Final = 32
"""As if so many points had said so."""


class Tail(Struct):
    """The largest deviations of a run's points from their baseline, either way. Saved with the detector."""

    num: int = 0
    top: list[float] = field(default_factory=list)
    """In robust deviations, ascending."""

    def add(self, deviations: float) -> None:
        """Take how far one point was from its baseline, that no spike was made of."""
        size = abs(deviations)
        if not math.isfinite(size):
            return
        self.num += 1
        if len(self.top) < 2 * NUM_TOP + 2 or size > self.top[0]:
            insort(self.top, size)
            del self.top[: -2 * NUM_TOP - 2]
        if self.num >= MAX_POINTS:
            self.num //= 2
            self.top = self.top[1::2]

    def once_in(self, points: float) -> float | None:
        """How far out noise throws one point in so many on one side; None where too little is known.

        Weissman's estimate with Hill's index: of N points x is the largest but k, and g the mean of ``log(x_i / x)``
        over the k above it, drawn towards ``USUAL_INDEX``; one in P lies beyond ``x (k P / N)^g``. Both tails are taken
        for one, so that one in P on one side is one in P/2 on both. Assumes that points are independent and the tail
        falls as a power. Measured, for one in 50,000: with Student-t(4) noise 15.7 to 22.8 deviations (90 %) after
        3,000 points, 17.3 to 19.4 after 20,000, where 15.4 are true; Gaussian 7.6 to 9.3 and 6.8 to 7.2 where 5.0 are.
        """
        if self.num < FEWEST_POINTS:
            return None
        num = max(2, min(NUM_TOP, len(self.top) - 1, self.num // 20))
        return weissman(self.top[-num - 1 :], self.num, points / 2)


def weissman(largest: list[float], num_points: int, once_in: float) -> float | None:
    """What one in ``once_in`` of ``num_points`` lies beyond, of the ``k + 1`` largest, ascending; see ``Tail.once_in``.

    None where the least of them is 0. Example: ``weissman([4, 5, 6, 8, 10], 1000, 50_000)`` is 18.05, with g = 0.2844.
    """
    least, num = largest[0], len(largest) - 1
    if least <= 0 or num < 1:
        return None
    index = sum(math.log(one / least) for one in largest[1:]) + USUAL_WEIGHT * USUAL_INDEX
    index /= num + USUAL_WEIGHT
    return least * math.pow(max(1.0, num * once_in / num_points), index)
