"""Expected goodput and the best checkpoint interval under memoryless failures, in closed form.

All times are in one unit, minutes in the examples. ``tau`` is training time between checkpoints, ``cost`` (C) what one
checkpoint blocks, ``restart`` (R) from a failure until training goes on, ``mtbf`` (M) the **job's** mean time between
failures: a node's divided by the number of nodes. Failures may strike in training, checkpoints and restarts alike.
Every function takes numbers or arrays, which broadcast, and gives an array (a 0-d one for numbers). Values that it
can't take raise ``ModelError``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from tachograph_collector.model.check import Floats, ModelError, at_most, not_negative, positive

BRANCH_POINT = 1e-7
"""Below this cost / mtbf, Lambert's W is evaluated so close to its branch point that digits are lost."""


def goodput(tau: ArrayLike, cost: ArrayLike, restart: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Expected share of the wall-clock that is kept, 0 to 1.

    ``tau / (exp(R/M) M expm1((tau + C)/M))``: the expected time to complete one interval of ``tau`` and its checkpoint
    when failures strike with rate 1/M at any time (the complete cost function of Daly 2006, solved for the share).
    Assumes gaps that are exponential and independent, a fixed restart, and a run of many intervals.
    Example: ``goodput(180, 1, 30, 720)`` is 0.8390; with the MTBF that nobody divided, ``goodput(870, 1, 30, 720)`` is
    0.4927.
    """
    tau, cost = positive("tau", tau), not_negative("cost", cost)
    restart, mtbf = not_negative("restart", restart), positive("mtbf", mtbf)
    with np.errstate(over="ignore"):
        return np.asarray(tau * np.exp(-restart / mtbf) / (mtbf * np.expm1((tau + cost) / mtbf)))


def young(cost: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Young's interval ``sqrt(2 C M)`` (Young 1974), first order in C/M.

    Assumes a cost far below the MTBF. It is longer than the best by about 2C/3: harmless on a flat top.
    Example: ``young(1, 720)`` is 37.95.
    """
    return np.asarray(np.sqrt(2 * positive("cost", cost) * positive("mtbf", mtbf)))


def daly(cost: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Daly's interval (Daly 2006, eq. 37): ``sqrt(2CM) (1 + sqrt(C/2M)/3 + (C/2M)/9) - C`` for C < 2M, else M.

    A series for the optimum, within 0.04 % of it while C is below M/10.
    Example: ``daly(1, 720)`` is 37.28.
    """
    cost, mtbf = positive("cost", cost), positive("mtbf", mtbf)
    ratio = cost / (2 * mtbf)
    series = np.sqrt(2 * cost * mtbf) * (1 + np.sqrt(ratio) / 3 + ratio / 9) - cost
    return np.asarray(np.where(cost < 2 * mtbf, series, mtbf))


def daly_two_term(cost: ArrayLike, mtbf: ArrayLike) -> Floats:
    """The short form ``sqrt(2CM) - C``, often called Daly's (2006); it drops C/3, and needs C of at most 2M.

    Example: ``daly_two_term(1, 720)`` is 36.95.
    """
    cost, mtbf = positive("cost", cost), positive("mtbf", mtbf)
    at_most("cost", cost, "2 mtbf", 2 * mtbf)
    return np.asarray(np.sqrt(2 * cost * mtbf) - cost)


def optimum(cost: ArrayLike, mtbf: ArrayLike) -> Floats:
    """The interval that maximises ``goodput``, whatever the restart: ``M (1 + W0(-exp(-1 - C/M)))``.

    W0 is the principal branch of Lambert's W; from d/dtau of the closed form. Near the branch point (C/M below 1e-7)
    the series ``x = e - e^2/3 + 11 e^3/72`` with ``e = sqrt(2 (1 - exp(-C/M)))`` is used, and ``tau* = x M``.
    Example: ``optimum(1, 720)`` is 37.28.
    """
    cost, mtbf = positive("cost", cost), positive("mtbf", mtbf)
    ratio = cost / mtbf
    e = np.sqrt(-2 * np.expm1(-ratio))
    series = e - e**2 / 3 + 11 * e**3 / 72
    exact = 1 + lambertw(-np.exp(-1 - ratio)).real
    return np.asarray(mtbf * np.where(ratio < BRANCH_POINT, series, exact))


def best_goodput(cost: ArrayLike, restart: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Goodput at the optimum: ``exp(-R/M) (1 - tau*/M)``, which is ``goodput`` with ``optimum`` put in.

    What remains at the best interval is the restart's share and tau*/M: no interval helps against the first.
    Example: ``best_goodput(1, 15, 720)`` is 0.9287.
    """
    restart = not_negative("restart", restart)
    best = optimum(cost, mtbf)
    return np.asarray(np.exp(-restart / positive("mtbf", mtbf)) * (1 - best / np.asarray(mtbf, dtype=np.float64)))


def first_order_waste(tau: ArrayLike, cost: ArrayLike, restart: ArrayLike, mtbf: ArrayLike) -> Floats:
    """The textbook waste ``C/tau + (tau/2 + R)/M``, from 0: saving, half an interval lost and a restart per failure.

    It holds only while failures are rare in an interval, so ``tau`` above ``mtbf`` is refused: use ``goodput`` there.
    Example: ``first_order_waste(38, 1, 15, 720)`` is 0.0735; ``1 - goodput(38, 1, 15, 720)`` is 0.0713.
    """
    tau, cost = positive("tau", tau), not_negative("cost", cost)
    restart, mtbf = not_negative("restart", restart), positive("mtbf", mtbf)
    at_most("tau", tau, "mtbf", mtbf)
    return np.asarray(cost / tau + (tau / 2 + restart) / mtbf)


def asynchronous_goodput(
    tau: ArrayLike, snapshot: ArrayLike, persist: ArrayLike, restart: ArrayLike, mtbf: ArrayLike
) -> Floats:
    """Goodput with asynchronous saves: a blocking snapshot, then a persist in the background.

    While a persist fits into the interval, as ``goodput`` with C = snapshot and R + persist for R: a failure falls back
    past the save that is still being written. For ``persist > tau`` the next snapshot waits: with the period
    ``P = max(tau, p) + s``, ``G = tau exp(-R/M) exp(-(tau + s + p)/M) / (M (1 - exp(-P/M)))``.
    From the same renewal argument: a failure keeps ``tau`` for each save that had landed, and the first lands after
    ``tau + s + p``. Assumes that a persist doesn't slow training; ``restart`` is without the persist.
    Example: ``asynchronous_goodput(8.5, 0.05, 0.92, 15, 720)`` is 0.9666; a persist that doesn't fit costs half of it:
    ``asynchronous_goodput(8.5, 0.05, 17, 15, 720)`` is 0.4768.
    """
    tau, snapshot = positive("tau", tau), not_negative("snapshot", snapshot)
    persist, restart = not_negative("persist", persist), not_negative("restart", restart)
    mtbf = positive("mtbf", mtbf)
    period = np.maximum(tau, persist) + snapshot
    fits = goodput(tau, snapshot, restart + persist, mtbf)
    waits = tau * np.exp(-(restart + tau + snapshot + persist) / mtbf) / (-mtbf * np.expm1(-period / mtbf))
    return np.asarray(np.where(persist <= tau, fits, waits))


def job_mtbf(node_mtbf: ArrayLike, nodes: ArrayLike) -> Floats:
    """A job's MTBF from its nodes', which fail independently: the node's divided by their number.

    Rates add up, whatever the gaps' distribution. Failures that take several nodes at once make the job's longer than
    this. Example: nodes of 264 days (Llama 3 405B), in hours, 128 of them: ``job_mtbf(264 * 24, 128)`` is 49.5.
    """
    nodes = positive("nodes", nodes)
    if np.any(nodes < 1):
        raise ModelError(f"nodes is {float(np.min(nodes)):g}; expected at least 1")
    return np.asarray(positive("node_mtbf", node_mtbf) / nodes)
