"""When a decided interval and way of saving stop being right: the values of M, C, R and persist that would change them.

Seconds throughout. A decision for the interval ``tau`` holds while ``tau`` lies in the flat top, from half to double of
the best interval for the numbers at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, log1p

from scipy.optimize import brentq

from tachograph_collector.model.check import positive
from tachograph_collector.model.theory import asynchronous_goodput, best_goodput, optimum

FLAT = 2.0
"""The flat top goes from the best interval divided by this to the best interval times this."""
_NOTHING = 1e-300
"""Stands for a goodput of 0 where its logarithm is taken."""
_DECADES = 1e4
"""Thresholds further away than this factor are no thresholds."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the decision changes. None where it doesn't within four decades."""

    mtbf_s: tuple[float | None, float | None]
    """Below the first the interval is too long, above the second too short."""
    cost_s: tuple[float | None, float | None]
    """A save that blocks less, or more: below the first the interval is too long, above the second too short."""
    persist_s: float | None
    """Above this a persist doesn't fit into the interval; None for blocking saves."""
    restart_s: float
    """Above this restarts cost more than saves and the work lost together: no interval helps against them."""
    goal_restart_s: float | None
    """Above this the goodput is under the goal; None if it is even with a restart of no length."""
    other_persist_s: float | None
    """Asynchronous: above this persist, blocking saves would be better. Blocking: below it, asynchronous ones would."""


def mtbf_for(tau: float, cost: float) -> float | None:
    """The MTBF for which ``tau`` is the best interval; None beyond four decades. ``mtbf_for(37.28, 1)`` is 720.

    Solved from ``optimum(cost, mtbf) = tau``, which rises with the MTBF.
    """
    tau, cost = float(positive("tau", tau)), float(positive("cost", cost))
    first_guess = tau * tau / (2 * cost) + tau  # Young's, turned over, and never below tau
    return _root(lambda mtbf: float(optimum(cost, mtbf)) - tau, first_guess)


def cost_for(tau: float, mtbf: float) -> float | None:
    """The cost of a save for which ``tau`` is the best interval: ``-M log(1 - tau/M) - tau``; None for tau >= M.

    ``optimum``'s condition, solved for C. Example: ``cost_for(37.28, 720)`` is 1.0.
    """
    tau, mtbf = float(positive("tau", tau)), float(positive("mtbf", mtbf))
    return -mtbf * log1p(-tau / mtbf) - tau if tau < mtbf else None


def thresholds(
    interval_s: float,
    cost_s: float,
    persist_s: float,
    restart_s: float,
    mtbf_s: float,
    *,
    other_cost_s: float,
    goal: float,
) -> Thresholds:
    """The thresholds of "save every ``interval_s``".

    ``persist_s`` is 0 for blocking saves. ``other_cost_s`` is what a save of the other way blocks, ``goal`` the goodput
    that is to be reached.
    """
    without_restart = float(asynchronous_goodput(interval_s, cost_s, persist_s, 0, mtbf_s))
    to_goal = log(max(without_restart, _NOTHING)) - log(goal)
    # While a persist takes more than half the interval, no shorter one would be best: it wouldn't fit.
    too_long = persist_s * FLAT < interval_s
    blocking_s = cost_s if persist_s == 0 else other_cost_s
    snapshot_s = other_cost_s if persist_s == 0 else cost_s
    blocking = float(best_goodput(blocking_s, restart_s, mtbf_s))
    return Thresholds(
        mtbf_s=(mtbf_for(interval_s / FLAT, cost_s) if too_long else None, mtbf_for(interval_s * FLAT, cost_s)),
        cost_s=(cost_for(interval_s / FLAT, mtbf_s) if too_long else None, cost_for(interval_s * FLAT, mtbf_s)),
        persist_s=interval_s if persist_s else None,
        # exp(-R/M) is the restarts' part of the goodput, the rest is the saves' and the lost work's.
        restart_s=-mtbf_s * log(max(without_restart, _NOTHING)),
        goal_restart_s=mtbf_s * to_goal if to_goal >= 0 else None,
        other_persist_s=_root(
            lambda persist: _asynchronous(snapshot_s, persist, restart_s, mtbf_s) - blocking, max(blocking_s, 1.0)
        ),
    )


def _asynchronous(cost_s: float, persist_s: float, restart_s: float, mtbf_s: float) -> float:
    """At the best interval that the persist fits into."""
    interval_s = max(float(optimum(cost_s, mtbf_s)), persist_s)
    return float(asynchronous_goodput(interval_s, cost_s, persist_s, restart_s, mtbf_s))


def _root(curve: Callable[[float], float], around: float) -> float | None:
    """Where a monotonic curve crosses 0, within four decades of ``around``; None where it doesn't."""
    low, high = log(around / _DECADES), log(around * _DECADES)
    at = [curve(exp(end)) for end in (low, high)]
    if at[0] * at[1] > 0:
        return None
    return float(exp(brentq(lambda x: curve(exp(x)), low, high, xtol=1e-12)))
