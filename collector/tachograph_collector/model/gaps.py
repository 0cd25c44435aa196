"""Expected goodput when the gaps between failures have any distribution: Weibull, or those that were observed.

All times are in one unit, minutes in the examples. ``tau`` is training time between checkpoints, ``cost`` (C) what one
checkpoint blocks, ``restart`` (R) from a failure until training goes on. Gaps run from failure to failure. Numbers or
arrays, which broadcast, are accepted throughout; values that can't be taken raise ``ModelError``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gamma, logsumexp

from tachograph_collector.model.best import best_interval
from tachograph_collector.model.check import Floats, ModelError, not_negative, positive, sample
from tachograph_collector.model.theory import young

Survival: TypeAlias = Callable[[Floats], Floats]
"""Elementwise: the probability that a gap lasts at least so long."""

BLOCK, DIRECT = 256, 2048
"""Terms summed at a time, and terms that are summed one by one before the tail is integrated."""
NEGLIGIBLE = 1e-16
"""A survival below this share of the sum so far adds nothing that double precision can show."""
PANEL, PANELS = 1.25, 600
"""Each panel of the tail's integral ends at this multiple of its beginning; 600 of them span 58 decades."""
MOST_GAPS_WITH_TEETH, TEETH = 500, 64
"""Samples up to this size have their curve's teeth tried, those of up to 64 intervals in a gap."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)


def renewal_goodput(
    tau: ArrayLike, cost: ArrayLike, restart: ArrayLike, survival: Survival, mean_gap: ArrayLike
) -> Floats:
    """Expected share of the wall-clock that is kept when gaps are independent draws from any one distribution.

    ``G = tau sum_{j>=1} S(R + j w) / E[X]`` with ``w = tau + C``: a gap X keeps one ``tau`` for each whole interval
    that fits after its restart, and by the renewal-reward theorem the long-run share is the mean kept per gap over
    the mean gap. ``survival(t)`` is the chance that a gap lasts at least ``t``, elementwise on arrays; ``mean_gap``
    is its mean, taken on trust. Assumes that gaps neither depend on each other nor on what the run does, and a fixed
    restart (for random ones average over them: G is linear in S). 2,048 terms are summed one by one, what is left by
    integration (midpoint rule), so a survival with steps finer than 2,048 intervals needs its own sum, as
    ``observed_goodput`` has. Example: ``renewal_goodput(180, 1, 30, lambda t: exp(-t / 720), 720)`` is 0.8390, as
    ``goodput`` says.
    """
    tau, cost = positive("tau", tau), not_negative("cost", cost)
    restart, mean_gap = not_negative("restart", restart), positive("mean_gap", mean_gap)
    shape = np.broadcast_shapes(tau.shape, cost.shape, restart.shape, mean_gap.shape)
    start = np.broadcast_to(restart, shape)[..., np.newaxis]
    step = np.broadcast_to(tau + cost, shape)[..., np.newaxis]
    banked = np.zeros(shape)
    for first in range(1, DIRECT, BLOCK):
        alive = _checked(survival, start + step * np.arange(first, first + BLOCK))
        banked += alive.sum(axis=-1)
        if np.all(alive[..., -1] <= NEGLIGIBLE * banked):
            break
    else:
        banked += _tail(survival, start + step * (DIRECT + 0.5), step, NEGLIGIBLE * banked)
    return np.asarray(tau * banked / mean_gap)


def _tail(survival: Survival, begin: Floats, step: Floats, negligible: Floats) -> Floats:
    """The sum of the terms from ``begin`` (half a step before the first of them) on, by Gauss-Legendre panels.

    It ends where the survival is ``negligible``.
    """
    total = np.zeros(begin.shape[:-1])
    for _ in range(PANELS):
        half = begin * (PANEL - 1) / 2
        alive = _checked(survival, begin + half * (1 + NODES))
        total += np.sum(alive * WEIGHTS, axis=-1) * (half / step)[..., 0]
        if np.all(alive[..., -1] <= negligible):
            return total
        begin = begin * PANEL
    raise ModelError(
        f"survival is still {float(alive.max()):g} at {float(begin.max()):g}; expected one that falls to 0 "
        "(gaps that never end have no mean)"
    )


def _checked(survival: Survival, time: Floats) -> Floats:
    alive = np.asarray(survival(time), dtype=np.float64)
    wrong = ~((alive >= 0) & (alive <= 1))
    if alive.shape != time.shape:
        raise ModelError(f"survival gives shape {alive.shape} for {time.shape}; expected one probability per time")
    if np.any(wrong):
        raise ModelError(
            f"survival is {float(alive[wrong][0]):g} at {float(time[wrong][0]):g}; expected a probability from 0 to 1"
        )
    return alive


def weibull_survival(time: ArrayLike, mtbf: ArrayLike, shape: ArrayLike) -> Floats:
    """The chance that a Weibull gap of mean ``mtbf`` lasts at least ``time``: ``exp(-(t / scale)^shape)``.

    The scale is ``mtbf / Gamma(1 + 1/shape)``. ``shape`` 1 is memoryless; below 1 failures come in bunches, above 1
    regularly. Example: ``weibull_survival(720, 720, 0.7)`` is 0.3075,
    ``weibull_survival(720, 720, 1)`` is 0.3679.
    """
    time, mtbf, shape = not_negative("time", time), positive("mtbf", mtbf), positive("shape", shape)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-((time * gamma(1 + 1 / shape) / mtbf) ** shape)))


def weibull_goodput(tau: ArrayLike, cost: ArrayLike, restart: ArrayLike, mtbf: ArrayLike, shape: ArrayLike) -> Floats:
    """Expected goodput when the job's gaps are independent Weibull draws of mean ``mtbf``.

    ``renewal_goodput`` with ``weibull_survival``. Schroeder and Gibson (2006) fitted shapes of 0.7 to 0.8 to the
    failures of supercomputers. It describes the **job's** gaps: independent nodes whose own gaps are Weibull give a
    job that is close to memoryless once they have aged, so don't put a node's shape here. Shape 1 is ``goodput``. At
    the same mean, bunched failures cost less than memoryless ones, as several of them strike one interval. Example:
    ``weibull_goodput(37.28, 1, 15, 720, 0.7)`` is 0.9311, ``weibull_goodput(37.28, 1, 15, 720, 1)`` is 0.9287.
    """
    tau, cost, restart, means, shapes = np.broadcast_arrays(
        positive("tau", tau),
        not_negative("cost", cost),
        not_negative("restart", restart),
        positive("mtbf", mtbf),
        positive("shape", shape),
    )

    def survival(time: Floats) -> Floats:
        return weibull_survival(time, means[..., np.newaxis], shapes[..., np.newaxis])

    return renewal_goodput(tau, cost, restart, survival, means)


def observed_survival(time: ArrayLike, gaps: ArrayLike) -> Floats:
    """The share of the observed ``gaps`` that lasted at least ``time``.

    Example: ``observed_survival(100, [50, 100, 400])`` is 0.667.
    """
    time, gaps = not_negative("time", time), np.sort(sample("gaps", gaps))
    return np.asarray((gaps.size - np.searchsorted(gaps, time, side="left")) / gaps.size)


def observed_goodput(tau: ArrayLike, cost: ArrayLike, restart: ArrayLike, gaps: ArrayLike) -> Floats:
    """Expected goodput when every gap is one of those observed, each as likely: no distribution is assumed.

    ``renewal_goodput`` with ``observed_survival``, summed exactly: a gap x banks ``floor((x - R) / w)`` intervals.
    ``gaps`` is one row, from failure to failure, at least one above 0. Assumes that the future looks like the sample
    and that gaps don't depend on each other, which clusters do: group failures into incidents first. A gap cut off by
    the end of the log is no gap, and leaving out the long one in progress makes the sample too short. With K gaps the
    answer is itself uncertain by about ``(1 - G) / sqrt(K)``. Example:
    ``observed_goodput(50, 2, 10, [30, 200, 700])`` is 0.8602.
    """
    tau, cost = positive("tau", tau), not_negative("cost", cost)
    restart, gaps = not_negative("restart", restart), sample("gaps", gaps)
    mean = float(gaps.mean())
    if mean == 0:
        raise ModelError("gaps is all 0; expected at least one gap above 0")
    tau, cost, restart = np.broadcast_arrays(tau, cost, restart)
    banked = np.zeros(tau.shape)
    for gap in gaps:  # one at a time: intervals times gaps can be more than memory holds
        # A gap that ends as its interval does has banked it; the quotient may have lost its last digit.
        banked += np.floor(np.maximum(gap - restart, 0) / (tau + cost) * (1 + 1e-12))
    return np.asarray(tau * banked / (gaps.size * mean))


def effective_restart(restarts: ArrayLike, mtbf: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """The fixed restart that costs as much as random ones: ``-M ln(mean of exp(-r_i/M))``, never above their mean.

    In every memoryless formula here ``exp(-R/M)`` becomes the mean of ``exp(-r_i/M)`` when each restart is drawn
    afresh, independently of the gap; so this number can be put in R's place. ``restarts`` is one row, of observed
    durations or of possible ones with ``weights`` (shares or counts, at least one above 0). Assumes exponential gaps.
    Example: ``effective_restart([5, 55], 720)`` is 29.57, where the mean is 30.
    """
    restarts, mtbf = sample("restarts", restarts), positive("mtbf", mtbf)
    share = np.ones(restarts.shape) if weights is None else sample("weights", weights)
    if share.shape != restarts.shape:
        raise ModelError(f"weights has {share.size} numbers; expected one for each of {restarts.size} restarts")
    if not np.any(share):
        raise ModelError("weights is all 0; expected at least one above 0")
    exponents = -restarts / mtbf[..., np.newaxis]
    return np.asarray(-mtbf * logsumexp(exponents, axis=-1, b=share / share.sum()))


def weibull_optimum(cost: ArrayLike, restart: ArrayLike, mtbf: ArrayLike, shape: ArrayLike) -> Floats:
    """The interval that maximises ``weibull_goodput``, by search. Unlike the memoryless one it depends on the restart.

    Example: ``weibull_optimum(1, 15, 720, 0.7)`` is 38.99; ``optimum(1, 720)`` is 37.28.
    """

    def one(cost: float, restart: float, mtbf: float, shape: float) -> float:
        return best_interval(lambda tau: weibull_goodput(tau, cost, restart, mtbf, shape), young(cost, mtbf))

    cost, restart = positive("cost", cost), not_negative("restart", restart)
    mtbf, shape = positive("mtbf", mtbf), positive("shape", shape)
    return np.asarray(np.vectorize(one, otypes=[np.float64])(cost, restart, mtbf, shape))


def observed_optimum(cost: ArrayLike, restart: ArrayLike, gaps: ArrayLike) -> Floats:
    """The interval that would have been best for just these ``gaps``, by search.

    The curve is a saw: each tooth is an interval that just fits into one of the gaps, so with few gaps this is
    hindsight, not advice; the height of the curve, not the place of its top, is what carries over. Compare with
    ``optimum`` at the mean gap. Up to 500 gaps the teeth themselves are tried too; with more they are lower than the
    sample is sure. Example: ``observed_optimum(1, 10, [100])`` is 89.0: a gap of 100 holds one restart, one interval
    and its save.
    """
    seen = sample("gaps", gaps)
    if not seen.any():
        raise ModelError("gaps is all 0; expected at least one gap above 0")

    def one(cost: float, restart: float) -> float:
        best = best_interval(lambda tau: observed_goodput(tau, cost, restart, seen), young(cost, seen.mean()))
        if seen.size > MOST_GAPS_WITH_TEETH:
            return best
        teeth = np.ravel((seen[:, np.newaxis] - restart) / np.arange(1, TEETH + 1) - cost)
        tried = np.append(teeth[teeth > 0], best)
        return float(tried[np.argmax(observed_goodput(tried, cost, restart, seen))])

    cost, restart = positive("cost", cost), not_negative("restart", restart)
    return np.asarray(np.vectorize(one, otypes=[np.float64])(cost, restart))
