"""Two checkpoint levels: a cheap local one that survives some failures, an expensive one on storage for the rest.

All times are in one unit, minutes in the examples. Numbers or arrays, which broadcast, are accepted; values that
can't be taken raise ``ModelError``.

The model, from first principles (two-level recovery is Vaidya's, 1995; several levels Moody et al., 2010): a period
is ``n = per_storage`` stretches of ``tau`` training. Each of the first n - 1 ends with a local save (``local_cost``),
the last with a save to storage in its place (``storage_cost``). Failures are memoryless with mean gap ``mtbf`` and
strike anywhere; a share ``local_share`` (q) of them leaves the local copies alone: the run then goes back to the
newest save of either kind after ``local_restart``. The others take it back to the newest save on storage after
``storage_restart``, and a failure during that one starts it again, whichever kind it is, because there is no local
copy yet.

Saves block. For asynchronous ones give the blocking snapshots as costs, and add the persist time to the restart of its
level: that is exact to first order while a persist fits into the stretch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tachograph_collector.model.best import best_interval
from tachograph_collector.model.check import Floats, ModelError, at_most, fraction, not_negative, positive, whole
from tachograph_collector.model.theory import young

MOST_STRETCHES = 1_000_000
"""The longest period that ``best_two_level`` looks at."""


class TwoLevel(NamedTuple):
    """A two-level design: training time between saves, every how many-th goes to storage, and its goodput."""

    tau: float
    per_storage: int
    goodput: float


def two_level_goodput(
    tau: ArrayLike,
    per_storage: ArrayLike,
    local_cost: ArrayLike,
    storage_cost: ArrayLike,
    local_restart: ArrayLike,
    storage_restart: ArrayLike,
    local_share: ArrayLike,
    mtbf: ArrayLike,
) -> Floats:
    """Expected share of the wall-clock that is kept with two checkpoint levels, as this module's head describes them.

    A stretch of length w is banked before a storage failure strikes with probability ``u = a / (1 - (1 - a) q v)``,
    with ``a = exp(-w/M)`` and v the same for the local restart; a period succeeds with the product U of its u, and
    each try costs E on average. So a period takes ``(E + (1 - U) H) / U``, H being ``M expm1(R_storage/M)``, and
    keeps n tau. With q = 0, or per_storage = 1 and equal restarts, it is ``goodput``. Example: local saves of 0.05
    every 8.5 and one of 3 to storage each twentieth, 9 of 10 failures local:
    ``two_level_goodput(8.5, 20, 0.05, 3, 6, 20, 0.9, 720)`` is 0.9503; all 3 to storage at the best interval instead,
    ``best_goodput(3, 20, 720)`` is 0.8865.
    """
    tau, per_storage = positive("tau", tau), whole("per_storage", per_storage, 1)
    local_cost, storage_cost = not_negative("local_cost", local_cost), not_negative("storage_cost", storage_cost)
    local_restart = not_negative("local_restart", local_restart)
    storage_restart = not_negative("storage_restart", storage_restart)
    share, mtbf = fraction("local_share", local_share), positive("mtbf", mtbf)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        fails = -np.expm1(-local_restart / mtbf)
        # From a local failure: the chance to train again before a storage failure, and the time until either.
        resumes_not = fails * (1 - share) / (1 - fails * share)
        resume_time = mtbf * fails / (1 - fails * share)
        lost, time = _stretch(tau + local_cost, mtbf, share, resumes_not, resume_time)
        last_lost, last_time = _stretch(tau + storage_cost, mtbf, share, resumes_not, resume_time)
        # log of the chance to bank the first n - 1 stretches, from 1 - u: u itself is 1 to the last digit.
        banked_log = np.log1p(-lost)
        before_last = (per_storage - 1) * np.where(per_storage > 1, banked_log, 0)
        tries = np.where(lost > 0, np.expm1(before_last) / -lost, per_storage - 1)
        each_try = tries * time + np.exp(before_last) * last_time
        success_log = before_last + np.log1p(-last_lost)
        again = mtbf * np.expm1(storage_restart / mtbf)
        period = (each_try - np.expm1(success_log) * again) * np.exp(-success_log)
        kept = per_storage * tau / period
    # Where a period is longer than double precision can tell, nothing is ever kept.
    return np.asarray(np.where(np.isfinite(period), kept, 0.0))


def _stretch(
    length: Floats, mtbf: Floats, share: Floats, resumes_not: Floats, resume_time: Floats
) -> tuple[Floats, Floats]:
    """The chance that a storage failure ends a stretch before it is banked, and the mean time until either."""
    fails = -np.expm1(-length / mtbf)
    stays = 1 - fails * share * (1 - resumes_not)
    return fails * ((1 - share) + share * resumes_not) / stays, fails * (mtbf + share * resume_time) / stays


def two_level_first_order(
    local_cost: ArrayLike, storage_cost: ArrayLike, local_share: ArrayLike, mtbf: ArrayLike
) -> tuple[Floats, Floats]:
    """Young's rule at each level: the training time between saves of either kind, and that between saves to storage.

    ``tau = sqrt(2 C_local M/q)`` and ``W = sqrt(2 (C_storage - C_local) M/(1 - q))``. Each level has the failures
    that it answers as its rate; the storage save replaces a local one, so only the difference is its cost. First
    order, from the waste ``C_l/tau + q tau/2M + (C_s - C_l)/W + (1 - q) W/2M``: costs far below the MTBF, 0 < q < 1,
    and a storage interval W above tau. Example: ``two_level_first_order(0.05, 3, 0.9, 720)[0]`` is 8.94,
    ``two_level_first_order(0.05, 3, 0.9, 720)[1]`` is 206.1.
    """
    local_cost, storage_cost = positive("local_cost", local_cost), positive("storage_cost", storage_cost)
    share, mtbf = fraction("local_share", local_share), positive("mtbf", mtbf)
    at_most("local_cost", local_cost, "storage_cost", storage_cost)
    if np.any((share == 0) | (share == 1)):
        raise ModelError("local_share is 0 or 1; expected a share between them (else one level does: see optimum)")
    return young(local_cost, mtbf / share), np.asarray(np.sqrt(2 * (storage_cost - local_cost) * mtbf / (1 - share)))


def best_two_level(
    local_cost: float,
    storage_cost: float,
    local_restart: float,
    storage_restart: float,
    local_share: float,
    mtbf: float,
) -> TwoLevel:
    """The best ``tau`` and ``per_storage`` for ``two_level_goodput``, by search from the first-order rule.

    For each number of stretches the best tau by ``best_interval``; the number by thirds, as the goodput at the best tau
    has one top in it. Example: ``best_two_level(0.05, 3, 6, 20, 0.9, 720).goodput`` is 0.9507.
    """
    tau, storage = two_level_first_order(local_cost, storage_cost, local_share, mtbf)

    def best(per_storage: int) -> TwoLevel:
        def curve(tau: Floats) -> Floats:
            return two_level_goodput(
                tau, per_storage, local_cost, storage_cost, local_restart, storage_restart, local_share, mtbf
            )

        at = best_interval(curve, tau)
        return TwoLevel(at, per_storage, float(curve(np.asarray(at))))

    low, high = 1, min(MOST_STRETCHES, 8 + 8 * int(np.ceil(storage / tau)))
    while high - low > 2:
        third = (high - low) // 3
        if best(low + third).goodput < best(high - third).goodput:
            low += third
        else:
            high -= third
    return max((best(n) for n in range(low, high + 1)), key=lambda design: design.goodput)
