"""Between what a window's goodput should lie, before one knows which failures strike in it.

Three things are uncertain: the failure rate (drawn from what is believed of it), the durations (resampled from the
measured ones) and chance itself (simulated). In a window of a few MTBFs goodput is skewed and lumpy, so there it is
simulated; only from 20 MTBFs on a normal band per drawn rate is good enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from tachograph_collector.model.check import Floats, ModelError, not_negative, positive
from tachograph_collector.model.mtbf import RateBelief

NORMAL_FROM_MTBFS: Final = 20.0
NUM_DRAWS: Final = 2_000
MOST_FAILURES: Final = 1_000
"""A drawn rate that would strike more often than this in the window is cut: nothing is kept at it anyway."""

MOST_RESTARTS: Final = 200
"""Of more measurements than this, a long window takes so many quantiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Between ``low`` and ``high`` lies the window's goodput with probability ``coverage``. Shares of the window."""

    low: float
    high: float
    mean: float
    deviation: float
    coverage: float
    simulated: bool
    """False for the normal band of a long window."""


def predictive_band(
    belief: RateBelief,
    *,
    window_s: float,
    tau_s: float,
    costs_s: ArrayLike,
    restarts_s: ArrayLike,
    persist_s: float = 0.0,
    startup_s: float | None = None,
    coverage: float = 0.95,
    seed: int = 0,
    num_draws: int = NUM_DRAWS,
) -> Band:
    """The band of a window of ``window_s``.

    ``costs_s`` and ``restarts_s`` are measurements, resampled. ``startup_s`` is for a window that begins with the run:
    so long nothing is kept; without it the window begins at any moment of a running interval.
    """
    window, tau = float(positive("window_s", window_s)), float(positive("tau_s", tau_s))
    costs, restarts = not_negative("costs_s", costs_s).ravel(), not_negative("restarts_s", restarts_s).ravel()
    persist = float(not_negative("persist_s", persist_s))
    if not costs.size or not restarts.size:
        raise ModelError("costs_s and restarts_s are empty; expected at least one measurement of each")
    if not 0 < coverage < 1:
        raise ModelError(f"coverage is {coverage:g}; expected a share between 0 and 1, such as 0.95")
    rng = np.random.default_rng(seed)
    rates = np.minimum(belief.draw_rates(rng, num_draws), MOST_FAILURES / window)
    saves = int(np.clip(window / tau, 1, min(64, 4 * costs.size)))
    periods = tau + rng.choice(costs, (num_draws, saves)).mean(axis=1)
    simulated = window < NORMAL_FROM_MTBFS * belief.mtbf_s
    if simulated:
        shares = _simulate(rng, rates, window, tau, periods, restarts, persist, startup_s) / window
    else:
        shares = _normal(rng, rates, window, tau, periods, restarts, persist, startup_s or 0.0)
    low, high = np.quantile(shares, [(1 - coverage) / 2, (1 + coverage) / 2])
    return Band(
        low=float(low),
        high=float(high),
        mean=float(shares.mean()),
        deviation=float(shares.std()),
        coverage=coverage,
        simulated=simulated,
    )


def _simulate(
    rng: np.random.Generator,
    rates: Floats,
    window: float,
    tau: float,
    periods: Floats,
    restarts: Floats,
    persist: float,
    startup: float | None,
) -> Floats:
    """Kept seconds of one window for every rate.

    Given their number, failures are uniform in the window. Between two of them the run is down for a restart, or until
    it is struck again, and then keeps one ``tau`` for every period that has landed.
    """
    num = rates.size
    counts = rng.poisson(rates * window)
    most = int(counts.max(initial=0))
    times = np.where(np.arange(most) < counts[:, None], rng.random((num, most)) * window, window)
    times.sort(axis=1)
    gaps = np.diff(times, axis=1, prepend=0.0, append=window)
    up = gaps[:, 1:] - rng.choice(restarts, (num, most))
    periods = periods[:, None]
    is_last = np.arange(most) == counts[:, None] - 1
    landed = np.floor(np.maximum(up - persist, 0.0) / periods) * tau
    kept = np.where(is_last, _kept_so_far(np.maximum(up, 0.0), tau, periods), landed)
    kept[np.arange(most) >= counts[:, None]] = 0.0
    # The first stretch ends at a failure, or at the window's end where none struck.
    first = gaps[:, :1]
    if startup is not None:
        first, before = np.maximum(first - startup, 0.0), np.zeros((num, 1))
    else:
        # A restart may be under way when the window begins.
        left = rng.choice(restarts, (num, 1)) * rng.random((num, 1))
        is_down = rng.random((num, 1)) < 1 - np.exp(-rates[:, None] * restarts.mean())
        first = np.maximum(first - np.where(is_down, left, 0.0), 0.0)
        before = np.where(is_down, 0.0, rng.random((num, 1)) * periods)
    done = _kept_so_far(before, tau, periods)
    survives = np.floor(np.maximum(before + first - persist, 0.0) / periods) * tau
    at_first = np.maximum(survives - done, 0.0)
    throughout = _kept_so_far(before + first, tau, periods) - done
    return np.asarray(kept.sum(axis=1) + np.where(counts[:, None] > 0, at_first, throughout)[:, 0])


def _kept_so_far(up: Floats, tau: float, periods: Floats) -> Floats:
    """Work done in ``up`` seconds from the beginning of an interval; it is kept as long as nothing strikes."""
    whole = np.floor(up / periods)
    return np.asarray(whole * tau + np.minimum(up - whole * periods, tau))


def _normal(
    rng: np.random.Generator,
    rates: Floats,
    window: float,
    tau: float,
    periods: Floats,
    restarts: Floats,
    persist: float,
    startup: float,
) -> Floats:
    """A long window's goodput: the closed form at each drawn rate, and normal noise of a compound Poisson sum.

    Each failure costs its restart r and the time x since the last save, which lies anywhere in the period, so that the
    cost in a window T has the variance ``rate T E[(r + x)^2]``.
    """
    x = rates * periods
    if restarts.size > MOST_RESTARTS:
        restarts = np.quantile(restarts, (np.arange(MOST_RESTARTS) + 0.5) / MOST_RESTARTS)
    survive = np.exp(-np.outer(rates, restarts)).mean(axis=1) * np.exp(-rates * persist)
    mean = tau * rates * survive / np.expm1(x) * (1 - min(startup / window, 1.0))
    loss = periods / 2 + persist
    square = np.mean(restarts**2) + 2 * np.mean(restarts) * loss + loss**2 + periods**2 / 12
    deviation = tau / periods * np.sqrt(rates * square / window)
    return np.asarray(np.clip(mean + deviation * rng.standard_normal(rates.size), 0.0, 1.0))
