"""Whether failures come as the model assumes: without memory, without clusters, without a trend.

The closed forms hold for exponential, independent gaps. Clusters leave the best interval where it is but pull the raw
mean gap down; a trend makes yesterday's MTBF the wrong one for tomorrow. Below ten failures no test says anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr

from tachograph_collector.model.check import Floats, ModelError, positive
from tachograph_collector.model.critical_values import ANDERSON_DARLING

FEWEST_FAILURES: Final = 10
SHORT_GAP_S: Final = 1_200.0
ALPHA: Final = 0.01
TOO_FEW: Final = "not enough failures to judge"


@dataclass(frozen=True, slots=True)
class Assessed:
    """One test: its statistic, the chance of one so extreme without memory, and whether that is too small."""

    statistic: float
    p_value: float
    rejects: bool


@dataclass(frozen=True, slots=True)
class Memorylessness:
    """Three tests; a test is None where there are too few failures for it."""

    num_failures: int
    num_incidents: int
    exponential: Assessed | None
    """Anderson-Darling on the gaps between failures."""
    clusters: Assessed | None
    """Binomial test on gaps under 20 minutes; the statistic is their number."""
    trend: Assessed | None
    """Laplace's test on incidents: above 0 they become more frequent, below 0 rarer."""
    num_short_gaps: int = 0

    @property
    def enough(self) -> bool:
        """Whether any test could be made."""
        return self.exponential is not None or self.trend is not None


def anderson_darling(gaps: ArrayLike) -> float:
    """The Anderson-Darling statistic of ``gaps`` for the exponential with their own mean, times ``1 + 0.6/n``.

    ``A2 = -n - (1/n) sum (2i - 1) (ln F(x_i) + ln(1 - F(x_(n+1-i))))``; the factor makes it depend little on n
    (Stephens 1974). Zero gaps are taken for very short ones.
    """
    x = np.sort(np.asarray(gaps, dtype=np.float64))
    if x.ndim != 1 or x.size < 2 or not np.all(np.isfinite(x)) or x[0] < 0 or x[-1] <= 0:
        raise ModelError("gaps must be at least two finite numbers of 0 or more, one above 0")
    return float(statistics_of_rows(x[None, :])[0])


def statistics_of_rows(ordered: Floats) -> Floats:
    """The statistic of every row of sorted gaps."""
    n = ordered.shape[1]
    z = ordered / ordered.mean(axis=1, keepdims=True)
    low = np.log(-np.expm1(-np.maximum(z, 1e-12)))
    weights = 2 * np.arange(1, n + 1) - 1
    # ln(1 - F) of the exponential is -z itself.
    a2 = -n - ((low - z[:, ::-1]) @ weights) / n
    return np.asarray(a2 * (1 + 0.6 / n))


def anderson_darling_p(statistic: float) -> float:
    """The chance of a statistic at least so great when gaps are exponential, from simulated critical values.

    Between them ln p is linear in the statistic; beyond the last one 0.001 is the answer, and means less than that.
    """
    levels = np.array([level for level, _ in ANDERSON_DARLING])
    values = np.array([value for _, value in ANDERSON_DARLING])
    return float(np.exp(np.interp(statistic, values, np.log(levels))))


def laplace_trend(times: ArrayLike, until: float) -> float:
    """Laplace's statistic: how far the mean failure time lies from the middle, in standard deviations.

    ``(mean(t) - T/2) / (T sqrt(1/(12 n)))`` (Cox and Lewis 1966), observed up to T. Standard normal without a trend.
    Example: times 5, 6, 7 and 8 of 8 are ``laplace_trend([5, 6, 7, 8], 8)`` = 2.17: more and more.
    """
    t, end = np.asarray(times, dtype=np.float64), float(positive("until", until))
    if not t.size:
        raise ModelError("times is empty; expected at least one failure")
    return float((t.mean() - end / 2) / (end * math.sqrt(1 / (12 * t.size))))


def short_gaps(gaps: ArrayLike, short: float) -> tuple[int, float]:
    """How many gaps are under ``short``, and the chance of so many or more if gaps were exponential of their mean."""
    x, limit = np.asarray(gaps, dtype=np.float64), float(positive("short", short))
    num = int(np.count_nonzero(x < limit))
    if num == 0:
        return 0, 1.0
    share = -math.expm1(-limit / float(x.mean())) if x.mean() > 0 else 1.0
    return num, float(bdtrc(num - 1, x.size, share))


def memorylessness(
    failure_times_s: Sequence[float], incident_times_s: Sequence[float], exposure_s: float, alpha: float = ALPHA
) -> Memorylessness:
    """Test raw failures for shape and clusters, incidents for a trend, each at level ``alpha``.

    Times count from the beginning of the run, planned down time left out, and are in order.
    """
    exponential = clusters = trend = None
    num_short = 0
    gaps = np.diff(np.asarray(failure_times_s, dtype=np.float64), prepend=0.0)
    if gaps.size >= FEWEST_FAILURES and gaps.max() > 0:
        a2 = anderson_darling(gaps)
        exponential = _test(a2, anderson_darling_p(a2), alpha)
        num_short, p_short = short_gaps(gaps, SHORT_GAP_S)
        clusters = _test(float(num_short), p_short, alpha)
    if len(incident_times_s) >= FEWEST_FAILURES:
        u = laplace_trend(incident_times_s, exposure_s)
        trend = _test(u, 2 * float(ndtr(-abs(u))), alpha)
    return Memorylessness(len(failure_times_s), len(incident_times_s), exponential, clusters, trend, num_short)


def _test(statistic: float, p_value: float, alpha: float) -> Assessed:
    return Assessed(statistic, p_value, p_value < alpha)
