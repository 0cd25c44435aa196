"""The mean time between failures of a job, as its own failures tell it: exact intervals, and a plan as a prior.

Failures are taken for a Poisson process over the exposure: wall time in which a failure would have counted, so without
planned down time. Times are seconds; any other unit works as well, as long as it is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from tachograph_collector.model.check import Floats, ModelError, fraction, positive

CONFIDENCE = 0.95
OUTWEIGHED_FROM = 10
"""Failures from which on a planned MTBF is no longer needed."""


@dataclass(frozen=True, slots=True)
class Mtbf:
    """An MTBF with its interval. ``mean_s`` is None and ``high_s`` infinite where nothing has failed yet."""

    num_failures: int
    exposure_s: float
    mean_s: float | None
    low_s: float
    high_s: float
    confidence: float = CONFIDENCE


def mtbf(num_failures: int, exposure_s: float, confidence: float = CONFIDENCE) -> Mtbf:
    """The MTBF after ``num_failures`` (K) in ``exposure_s`` (T), with the exact interval of a Poisson count.

    ``[2T / chi2(1 - a/2; 2K + 2), 2T / chi2(a/2; 2K)]`` (Garwood 1936, turned over). K = 0 has a lower bound only, one
    sided: ``2T / chi2(1 - a; 2)``, which is T/3 at 95 %. Example: ``mtbf(10, 10)`` is 1, between 0.54 and 2.09.
    """
    num = _count(num_failures)
    exposure = float(positive("exposure_s", exposure_s))
    tail = 1 - _confidence(confidence)
    if num == 0:
        return Mtbf(0, exposure, None, exposure / -math.log(tail), math.inf, confidence)
    # chi2(q; 2k) / 2 is the gamma quantile of shape k.
    low = exposure / float(gammaincinv(num + 1, 1 - tail / 2))
    high = exposure / float(gammaincinv(num, tail / 2))
    return Mtbf(num, exposure, exposure / num, low, high, confidence)


@dataclass(frozen=True, slots=True)
class RateBelief:
    """What is believed of the failure rate: Gamma with ``shape`` and, as its rate parameter, ``exposure_s``."""

    shape: float
    exposure_s: float
    has_plan: bool = False
    """Whether a planned MTBF is part of it."""

    @property
    def mtbf_s(self) -> float:
        """One over the mean rate."""
        return self.exposure_s / self.shape

    def interval_s(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The MTBF's equal-tailed interval."""
        tail = (1 - _confidence(confidence)) / 2
        low, high = gammaincinv(self.shape, np.array([1 - tail, tail]))
        return self.exposure_s / float(low), self.exposure_s / float(high) if high > 0 else math.inf

    def draw_rates(self, rng: np.random.Generator, num: int) -> Floats:
        """``num`` failure rates (1/M) drawn from it, shape (num,), per second."""
        return rng.gamma(self.shape, 1 / self.exposure_s, num)


def rate_belief(num_failures: int, exposure_s: float, planned_mtbf_s: float | None = None) -> RateBelief:
    """What K failures in T leave to be believed of the rate.

    Without a plan Jeffreys' prior: Gamma(K + 1/2, T). A planned MTBF is a prior worth one failure: Gamma(K + 1, T +
    planned), until data outweighs it: from ten failures on, or once it lies outside their exact interval (a node's
    MTBF that nobody divided would still be felt after a hundred). Example: ``rate_belief(0, 1, 12).mtbf_s`` is 13.
    """
    num, exposure = _count(num_failures), float(positive("exposure_s", exposure_s))
    if planned_mtbf_s is not None:
        planned = float(positive("planned_mtbf_s", planned_mtbf_s))
        seen = mtbf(num, exposure)
        if num < OUTWEIGHED_FROM and seen.low_s <= planned <= seen.high_s:
            return RateBelief(num + 1.0, exposure + planned, has_plan=True)
    return RateBelief(num + 0.5, exposure)


def _count(num: int) -> int:
    if num < 0 or num != int(num):
        raise ModelError(f"num_failures is {num!r}; expected a whole number of 0 or more")
    return int(num)


def _confidence(value: float) -> float:
    share = float(fraction("confidence", value))
    if not 0 < share < 1:
        raise ModelError(f"confidence is {share:g}; expected a share between 0 and 1, such as 0.95")
    return share
