"""The main alarm: does anything other than failures eat the time?

Goodput of a window swings with the number of failures that happen to strike in it. Conditional on how many did, and on
how long the run was down for them, it is nearly certain, so a small loss that failures don't explain shows in days.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from tachograph_collector.model.check import Floats, ModelError, not_negative, positive

ALPHA = 0.01
_SMALL = 1e-4
"""Below this w/M the difference in ``lost_per_failure`` cancels; its series is exact to 1e-10 there."""


def lost_per_failure(period: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Expected time from the last save to a failure that strikes within a period ``w = tau + C``.

    ``l = M - w / (exp(w/M) - 1)``, the mean of an exponential gap given that it is shorter than ``w``; about w/2. With
    an infinite MTBF it is w/2. Example: ``lost_per_failure(38.28, 720)`` is 18.97.
    """
    period = positive("period", period)
    mtbf = np.asarray(mtbf, dtype=np.float64)
    if np.any(~(mtbf > 0)):
        raise ModelError(f"mtbf is {float(mtbf[~(mtbf > 0)].flat[0]):g}; expected a number above 0, or infinity")
    ratio = period / mtbf
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exact = mtbf - period / np.expm1(ratio)
    return np.asarray(np.where(ratio < _SMALL, period / 2 - period * ratio / 12, exact))


def explained_goodput(
    window: ArrayLike,
    down: ArrayLike,
    num_failures: ArrayLike,
    tau: ArrayLike,
    cost: ArrayLike,
    mtbf: ArrayLike,
    persist: ArrayLike = 0.0,
) -> tuple[Floats, Floats]:
    """What goodput a window should have had, given what happened in it, and its standard deviation.

    ``(tau/w) (1 - (D + n l)/T)`` with ``w = tau + C``; standard deviation ``(tau/T) sqrt((n + 2)/12)``: each failure
    strikes anywhere in its interval, and the window's two edges cut intervals anywhere. ``down`` D is the measured time
    without training that failures caused, ``num_failures`` n those that struck at work. With asynchronous saves a
    failure loses ``persist`` more, having to go back past the save that is still being written. All times in one unit.
    Example: 3 days, 6 failures, 90 min down, tau 37.28, C 1, M 720: 0.9279 with a standard deviation of 0.0070.
    """
    window, down, num = (
        positive("window", window),
        not_negative("down", down),
        not_negative("num_failures", num_failures),
    )
    tau, cost, persist = positive("tau", tau), not_negative("cost", cost), not_negative("persist", persist)
    lost = lost_per_failure(tau + cost, mtbf) + persist
    expected = tau / (tau + cost) * (1 - (down + num * lost) / window)
    return np.asarray(np.maximum(expected, 0.0)), np.asarray(tau / window * np.sqrt((num + 2) / 12))


@dataclass(frozen=True, slots=True)
class Conditional:
    """The check of one window. Shares are of the exposure: the window without planned down time."""

    observed: float
    expected: float
    deviation: float
    """Standard deviation of the expected share."""
    z: float
    num_failures: int
    exposure_s: float
    alpha: float
    num_looks: int
    fires: bool

    @property
    def missing_s(self) -> float:
        """Seconds of the window that were not kept and that failures don't explain; negative where more was kept."""
        return (self.expected - self.observed) * self.exposure_s

    @property
    def limit(self) -> float:
        """So many deviations below what is expected it fires; above 0."""
        return -float(ndtri(self.alpha / self.num_looks))


def conditional_check(
    *,
    exposure_s: float,
    kept_s: float,
    down_s: float,
    num_failures: int,
    tau_s: float,
    cost_s: float,
    mtbf_s: float,
    persist_s: float = 0.0,
    alpha: float = ALPHA,
    num_looks: int = 1,
) -> Conditional:
    """Hold a window's kept time against what its failures explain; one-sided, at level ``alpha``.

    Looking again and again raises more false alarms: with ``num_looks`` the level is divided by how many looks at this
    run there will be. ``mtbf_s`` may be infinite.
    """
    if not 0 < alpha < 0.5:
        raise ModelError(f"alpha is {alpha:g}; expected a share between 0 and 0.5, such as 0.01")
    if num_looks < 1:
        raise ModelError(f"num_looks is {num_looks}; expected at least 1")
    expected, deviation = explained_goodput(exposure_s, down_s, num_failures, tau_s, cost_s, mtbf_s, persist_s)
    observed = float(not_negative("kept_s", kept_s)) / exposure_s
    z = (observed - float(expected)) / float(deviation)
    found = Conditional(
        observed=observed,
        expected=float(expected),
        deviation=float(deviation),
        z=z,
        num_failures=num_failures,
        exposure_s=exposure_s,
        alpha=alpha,
        num_looks=num_looks,
        fires=False,
    )
    return replace(found, fires=bool(math.isfinite(z) and z < -found.limit))
