"""What the checkpoint interval in use costs against the best one, and when to leave it alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from tachograph_collector.model.check import Floats, not_negative, positive
from tachograph_collector.model.theory import asynchronous_goodput, optimum

Kind = Literal["change", "uncertain", "flat_top", "restarts_dominate"]

FLAT_TOP: Final = 2.0
"""From half to double of the best interval the curve is flat."""
LEAST_POINTS: Final = 0.1
"""A gain below this is not worth a change, wherever the interval lies."""
AGES_S: Final = 3e9
"""A century: stands in for an MTBF of which no upper bound is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Goodput that the model predicts, with the MTBF's interval carried through. Shares."""

    tau_s: float
    goodput: float
    low: float
    """At the low end of the MTBF's interval."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The interval in use against the best."""

    kind: Kind
    in_use: Predicted
    best: Predicted
    best_range_s: tuple[float, float]
    """The best interval at either end of the MTBF's interval."""
    restart_points: float
    """Points that restarts cost at the interval in use, whatever the interval: ``100 (1 - exp(-R/M))``."""
    interval_points: float
    """Points that saving and lost work cost at the interval in use."""

    @property
    def gain_points(self) -> float:
        """What the best interval would give over the one in use, in points."""
        return max(0.0, (self.best.goodput - self.in_use.goodput) * 100)


def predicted_goodput(
    tau_s: ArrayLike, cost_s: float, restarts_s: ArrayLike, mtbf_s: ArrayLike, persist_s: float = 0.0
) -> Floats:
    """Goodput at ``tau_s`` with measured restarts, each as likely: ``exp(-R/M)`` is the mean of ``exp(-r_i/M)``.

    ``persist_s`` is what an asynchronous save needs beyond its blocking part. Where it exceeds ``tau_s`` the next save
    waits for it, and what is measured as blocking holds that wait.
    """
    tau, mtbf = positive("tau_s", tau_s), positive("mtbf_s", mtbf_s)
    restarts = not_negative("restarts_s", restarts_s).ravel()
    survive = np.exp(-restarts / mtbf[..., None]).mean(axis=-1)
    return np.asarray(asynchronous_goodput(tau, cost_s, persist_s, 0.0, mtbf) * survive)


def advise(
    *,
    tau_s: float,
    cost_s: float,
    restarts_s: ArrayLike,
    mtbf_s: float,
    mtbf_interval_s: tuple[float, float],
    persist_s: float = 0.0,
) -> Advice:
    """Compare the interval in use with the best one.

    A change is advised only outside the flat top, and only if it lies outside for every MTBF of the interval;
    ``uncertain`` says that the failures seen so far don't settle it. An interval
    shorter than the persist is outside whatever the MTBF. ``mtbf_interval_s`` may end at infinity.
    """
    low_m, high_m = mtbf_interval_s[0], min(mtbf_interval_s[1], AGES_S)
    mtbfs = np.array([mtbf_s, low_m, high_m])
    # An interval shorter than the persist would make training wait for it.
    best = np.maximum(optimum(cost_s, mtbfs), persist_s)
    at_use = predicted_goodput(tau_s, cost_s, restarts_s, mtbfs, persist_s)
    at_best = predicted_goodput(best[0], cost_s, restarts_s, mtbfs, persist_s)
    survive = float(np.exp(-np.asarray(restarts_s, dtype=np.float64) / mtbf_s).mean())
    restart_points = 100 * (1 - survive)
    interval_points = 100 * (survive - float(at_use[0]))
    is_off = (tau_s < best / FLAT_TOP) | (tau_s > best * FLAT_TOP) | (tau_s < persist_s)
    same_side = np.all(tau_s < best) or np.all(tau_s > best)
    gain = 100 * float(at_best[0] - at_use[0])
    kind: Kind
    if is_off[0] and gain >= LEAST_POINTS:
        kind = "change" if np.all(is_off) and same_side else "uncertain"
    else:
        kind = "restarts_dominate" if restart_points > max(interval_points, 1.0) else "flat_top"
    return Advice(
        kind=kind,
        in_use=Predicted(tau_s=tau_s, goodput=float(at_use[0]), low=float(at_use[1]), high=float(at_use[2])),
        best=Predicted(tau_s=float(best[0]), goodput=float(at_best[0]), low=float(at_best[1]), high=float(at_best[2])),
        best_range_s=(float(best[1]), float(best[2])),
        restart_points=restart_points,
        interval_points=interval_points,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Undivided:
    """A planned interval that is longer than the job's MTBF, as if a node's had been taken for it."""

    planned_interval_s: float
    mtbf_s: float
    goodput: float
    """What it would keep."""
    best_tau_s: float
    best_goodput: float

    @property
    def points(self) -> float:
        """What it would cost against the best interval."""
        return (self.best_goodput - self.goodput) * 100


def undivided(
    planned_interval_s: float, *, cost_s: float, restarts_s: ArrayLike, mtbf_s: float, persist_s: float = 0.0
) -> Undivided | None:
    """The commonest mistake, if the planned interval looks like it: longer than the job's MTBF.

    Example (minutes): ``undivided(870, cost_s=1, restarts_s=[30], mtbf_s=720)`` would keep 49.3 % of the time.
    """
    if planned_interval_s <= mtbf_s or math.isinf(mtbf_s):
        return None
    best = max(float(optimum(cost_s, mtbf_s)), persist_s)
    kept = predicted_goodput(np.array([planned_interval_s, best]), cost_s, restarts_s, mtbf_s, persist_s)
    return Undivided(
        planned_interval_s=planned_interval_s,
        mtbf_s=mtbf_s,
        goodput=float(kept[0]),
        best_tau_s=best,
        best_goodput=float(kept[1]),
    )
