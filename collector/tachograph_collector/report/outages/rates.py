"""Mean times between failures of counts, and how gaps between failures lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from statistics import fmean, median, pstdev

from tachograph_collector.report.outages.findings import OutageReport, hours

FEWEST_GAPS = 10
"""Fewer gaps than this are no sample to fit a distribution to."""


def mtbf_figures(
    report: OutageReport, num: int, exposure_s: float | None, *, why: str, what: str = "failure", key: str = "mtbf_s"
) -> float | None:
    """Add the mean time between ``num`` failures in ``exposure_s``, with its 95 % interval where scipy is there."""
    if exposure_s is None or exposure_s <= 0.0 or num == 0:
        reason = why if exposure_s is None or exposure_s <= 0.0 else f"no {what} in {hours(exposure_s)}"
        report.figure(key, f"mean time between {what}s", None, why=reason)
        return None
    mean_s = exposure_s / num
    words = f"{hours(mean_s)} ({num:,} in {hours(exposure_s)})"
    interval = _interval(num, exposure_s)
    if interval is not None:
        words += f"; 95 % Poisson interval {hours(interval[0])} to {hours(interval[1])}"
    report.figure(key, f"mean time between {what}s", mean_s, words)
    if interval is not None:
        report.figure(f"{key.removesuffix('_s')}_low_s", "at least", interval[0], "")
        report.figure(f"{key.removesuffix('_s')}_high_s", "at most", interval[1], "")
    return mean_s


def _interval(num: int, exposure_s: float) -> tuple[float, float] | None:
    if find_spec("scipy") is None or find_spec("numpy") is None:
        return None
    from tachograph_collector.model.mtbf import mtbf

    found = mtbf(num, exposure_s)
    return found.low_s, found.high_s


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps between distinct instants, seconds."""

    num: int
    mean_s: float
    median_s: float
    shortest_s: float
    longest_s: float
    variation: float
    """Standard deviation over mean: 1 for an exponential."""
    weibull_shape: float | None
    """Of the Weibull that fits best (maximum likelihood); below 1 they come in bursts. None for too few."""
    weibull_scale_s: float | None


def gaps(times: Sequence[float]) -> Gaps | None:
    """How the gaps between the distinct ``times`` lie; None for less than two."""
    distinct = sorted(set(times))
    between = [after - before for before, after in pairwise(distinct)]
    if not between:
        return None
    mean_s = fmean(between)
    shape = weibull_shape(between) if len(between) >= FEWEST_GAPS else None
    scale = None if shape is None else fmean([(gap / mean_s) ** shape for gap in between]) ** (1 / shape) * mean_s
    return Gaps(
        num=len(between),
        mean_s=mean_s,
        median_s=median(between),
        shortest_s=min(between),
        longest_s=max(between),
        variation=pstdev(between) / mean_s,
        weibull_shape=shape,
        weibull_scale_s=scale,
    )


def weibull_shape(sample: Sequence[float]) -> float | None:
    """The shape of the Weibull of greatest likelihood, to nine digits; None where all are equal.

    The root of ``sum(x^k ln x) / sum(x^k) - 1/k - mean(ln x)``, which grows with k, by bisection between 0.01 and 100.
    Gaps of an exponential give about 1: ``weibull_shape([1, 2, 3, 4])`` is 2.4532.
    """
    largest = max(sample)
    logs = [math.log(x / largest) for x in sample]  # at most 0, so that no power overflows
    mean_log = fmean(logs)
    if min(logs) == 0.0:
        return None

    def slope(shape: float) -> float:
        powers = [math.exp(shape * log) for log in logs]
        weighted = sum(power * log for power, log in zip(powers, logs, strict=True))
        return weighted / sum(powers) - 1 / shape - mean_log

    low, high = 0.01, 100.0
    if slope(low) > 0.0 or slope(high) < 0.0:
        return None
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return (low + high) / 2
