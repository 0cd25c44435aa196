"""Whether failures come faster than planned, looked at as often as one likes.

A test that is repeated every minute fires sooner or later by chance. An e-value does not: under the planned rate the
chance that it **ever** reaches 1/alpha is at most alpha (Ville's inequality), however often one looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from tachograph_collector.model.check import Floats, ModelError, fraction, not_negative, positive

ALPHA = 0.01


def log_evalue(num_failures: ArrayLike, elapsed: ArrayLike, planned_rate: ArrayLike) -> Floats:
    """The natural logarithm of the Gamma-mixture e-value after K failures in time t against the rate L0.

    ``E = b^a G(a+K) / (G(a) (b+t)^(a+K)) L0^-K exp(L0 t)`` with a = 1 and b = 1/L0: the likelihood of the failures
    under rates drawn from a Gamma around the plan, over that under the plan (Robbins 1970's mixture). Assumes a
    Poisson process under the plan. Example: ``exp(log_evalue(8, 2, 1))`` is 15.1, 8 failures where 2 were planned.
    """
    num, elapsed = not_negative("num_failures", num_failures), not_negative("elapsed", elapsed)
    rate = positive("planned_rate", planned_rate)
    shape, scale = 1.0, 1 / rate
    mixture = shape * np.log(scale) + gammaln(shape + num) - gammaln(shape) - (shape + num) * np.log(scale + elapsed)
    return np.asarray(mixture - num * np.log(rate) + rate * elapsed)


@dataclass(frozen=True, slots=True)
class RateAlarm:
    """Failures against a planned rate, over all looks so far."""

    num_failures: int
    num_planned: float
    """How many the plan expects in the time that has passed."""
    evalue: float
    """As it stands now."""
    greatest_evalue: float
    """At the worst moment; the alarm goes by it."""
    alpha: float
    fires: bool


def rate_alarm(
    failure_times_s: Sequence[float], elapsed_s: float, planned_mtbf_s: float, alpha: float = ALPHA
) -> RateAlarm:
    """Whether the failures came faster than one every ``planned_mtbf_s`` at any moment up to ``elapsed_s``.

    ``failure_times_s`` count from the beginning of the run, down time that was planned left out. The alarm is E >=
    1/alpha with more failures than planned. In between two failures E falls while there are more than planned, so that
    looking right after each failure is the same as looking all the time.
    """
    if not 0 < float(fraction("alpha", alpha)) < 1:
        raise ModelError(f"alpha is {alpha:g}; expected a share between 0 and 1, such as 0.01")
    times = np.sort(not_negative("failure_times_s", failure_times_s))
    elapsed, rate = float(not_negative("elapsed_s", elapsed_s)), 1 / float(positive("planned_mtbf_s", planned_mtbf_s))
    counts = np.arange(1, times.size + 1)
    more = counts > rate * times
    logs = np.where(more, log_evalue(counts, times, rate), -np.inf)
    now = float(log_evalue(times.size, elapsed, rate))
    worst = max(float(np.max(logs, initial=-np.inf)), now if times.size > rate * elapsed else -np.inf)
    return RateAlarm(
        num_failures=int(times.size),
        num_planned=rate * elapsed,
        evalue=_exp(now),
        greatest_evalue=_exp(worst),
        alpha=alpha,
        fires=bool(worst >= -np.log(alpha)),
    )


def _exp(log: float) -> float:
    """The exponential, the largest float where it would overflow."""
    return float(np.exp(min(log, 700.0)))
