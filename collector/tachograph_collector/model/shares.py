"""Where the time goes at a checkpoint interval, in the long run: kept, saving, lost, restarting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tachograph_collector.model.check import Floats, not_negative, positive
from tachograph_collector.model.theory import asynchronous_goodput


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the wall-clock, 0 to 1; they sum to 1."""

    kept: Floats
    checkpoint: Floats
    lost: Floats
    restart: Floats


def shares(tau: ArrayLike, cost: ArrayLike, restart: ArrayLike, mtbf: ArrayLike, persist: ArrayLike = 0.0) -> Shares:
    """What becomes of the time, under the assumptions of ``theory.goodput``. Any one unit of time; arrays broadcast.

    Failures strike with rate 1/M at any time, and each begins a restart that the next one may cut short, so restarts
    take ``1 - exp(-R/M)`` of the time whatever the interval. Each ``tau`` that is kept was saved once, for C. The rest
    was thrown away: work, and saves that didn't land. ``persist`` is what an asynchronous save needs beyond C.
    Example (minutes): ``shares(180, 1, 30, 720)`` keeps 0.8390, saves 0.0047, loses 0.1155 and restarts 0.0408.
    """
    tau, cost = positive("tau", tau), not_negative("cost", cost)
    restart, mtbf = not_negative("restart", restart), positive("mtbf", mtbf)
    kept = asynchronous_goodput(tau, cost, persist, restart, mtbf)
    saving = kept * cost / tau
    restarting = -np.expm1(-restart / mtbf)
    return Shares(kept, saving, np.maximum(0.0, 1 - kept - saving - restarting), np.asarray(restarting))
