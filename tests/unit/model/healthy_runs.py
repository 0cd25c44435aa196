"""A small simulator of blocking and asynchronous runs, for calibrating the judge: many runs at once, nothing else.

It shares no code with what it calibrates: runs are built failure by failure, gap after gap. Minutes throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Runs:
    """The first ``window`` of many runs; arrays of one number a run."""

    window: float
    kept: Floats
    down: Floats
    num_failures: Floats
    """All of them."""
    num_at_work: Floats


@dataclass(frozen=True)
class Timeline:
    """Many runs, each with its failures and how long each restart takes."""

    times: Floats
    """(runs, failures), ascending; the last of each run lies beyond the longest window."""
    restarts: Floats
    tau: float
    cost: float
    persist: float
    hidden: float
    """Share of the up time in which nothing is done."""

    def look(self, window: float) -> Runs:
        """The accounts of the first ``window`` minutes."""
        num, most = self.times.shape
        kept, down = np.zeros(num), np.zeros(num)
        at_work = np.zeros(num)
        period = self.tau + self.cost
        resume = np.zeros(num)
        began = np.zeros(num)
        for index in range(most):
            struck = self.times[:, index]
            until = np.minimum(struck, window)
            up = np.maximum(until - resume, 0.0) * (1 - self.hidden)
            down += np.clip(np.minimum(resume, until) - began, 0.0, None)
            inside = struck < window
            landed = np.floor(np.maximum(up - self.persist, 0.0) / period) * self.tau
            whole = np.floor(up / period)
            so_far = whole * self.tau + np.minimum(up - whole * period, self.tau)
            open_until_end = ~inside & (began < window)
            kept += np.where(inside, landed, np.where(open_until_end, so_far, 0.0))
            at_work += inside & (struck >= resume)
            began = np.where(inside, struck, window)
            resume = np.where(inside, struck + self.restarts[:, index], np.inf)
        return Runs(window, kept, down, (self.times < window).sum(axis=1).astype(float), at_work)


def timeline(
    seed: int,
    num_runs: int,
    longest: float,
    *,
    tau: float,
    cost: float,
    restart: float,
    mtbf: float,
    persist: float = 0.0,
    hidden: float = 0.0,
    spread: float = 0.0,
) -> Timeline:
    """Exponential gaps; restarts fixed, or with ``spread`` log-normal around the same mean."""
    rng = np.random.default_rng(seed)
    most = int(longest / mtbf + 8 * np.sqrt(longest / mtbf) + 10)
    times = np.cumsum(rng.exponential(mtbf, (num_runs, most)), axis=1)
    assert times[:, -1].min() > longest
    restarts = restart * rng.lognormal(-(spread**2) / 2, spread, (num_runs, most))
    return Timeline(times, restarts, tau, cost, persist, hidden)
