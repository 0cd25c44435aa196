"""Tests on the gaps between failures: right size without memory, power against clusters, wear and trends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.critical_values import ANDERSON_DARLING
from tachograph_collector.model.memoryless import (
    anderson_darling,
    anderson_darling_p,
    laplace_trend,
    memorylessness,
    short_gaps,
    statistics_of_rows,
)

HOUR = 3_600.0


def test_the_statistic_is_that_of_the_definition() -> None:
    gaps = [3.0, 0.4, 1.7, 9.0, 0.1]
    z = sorted(gap / np.mean(gaps) for gap in gaps)
    cdf = [1 - math.exp(-one) for one in z]
    n = len(z)
    total = sum((2 * i + 1) * (math.log(cdf[i]) + math.log(1 - cdf[n - 1 - i])) for i in range(n))
    assert anderson_darling(gaps) == pytest.approx((-n - total / n) * (1 + 0.6 / n))


@pytest.mark.parametrize("size", [10, 40, 200])
def test_the_tabulated_critical_values_are_what_a_simulation_gives(size: int) -> None:
    rng = np.random.default_rng(31)
    drawn = np.sort(rng.exponential(5.0, (20_000, size)), axis=1)
    told = statistics_of_rows(drawn)
    for level, value in ANDERSON_DARLING:
        if 0.005 <= level < 1:
            assert np.mean(told >= value) == pytest.approx(level, rel=0.12, abs=0.0025)


def test_p_values_run_through_the_table() -> None:
    for level, value in ANDERSON_DARLING:
        assert anderson_darling_p(value) == pytest.approx(level)
    assert anderson_darling_p(99.0) == pytest.approx(0.001)
    assert 0.01 < anderson_darling_p(1.8) < 0.025


def test_memoryless_failures_are_rejected_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(32)
    rejected = np.zeros(3)
    for _ in range(2_000):
        times = np.cumsum(rng.exponential(12 * HOUR, 60))
        times = times[times < 30 * 12 * HOUR]
        told = memorylessness(list(times), list(times), 30 * 12 * HOUR, alpha=0.05)
        assert told.exponential is not None
        assert told.clusters is not None
        assert told.trend is not None
        rejected += [told.exponential.rejects, told.clusters.rejects, told.trend.rejects]
    assert np.all(rejected / 2_000 <= 0.065)
    assert rejected[0] / 2_000 >= 0.035
    assert rejected[2] / 2_000 >= 0.035


def test_clusters_are_found() -> None:
    rng = np.random.default_rng(33)
    gaps = np.where(rng.random(60) < 0.3, rng.uniform(0, 1_200, 60), rng.exponential(12 * HOUR, 60))
    times = list(np.cumsum(gaps))
    told = memorylessness(times, [], times[-1])
    assert told.clusters is not None
    assert told.clusters.rejects
    assert told.num_short_gaps == np.count_nonzero(np.diff(times, prepend=0) < 1_200)
    assert told.exponential is not None
    assert told.exponential.rejects


def test_failures_at_regular_times_are_not_memoryless() -> None:
    times = [12 * HOUR * i for i in range(1, 21)]
    told = memorylessness(times, times, 21 * 12 * HOUR)
    assert told.exponential is not None
    assert told.exponential.rejects


def test_a_trend_is_found_and_its_sign_says_which_way() -> None:
    more = [100 * math.sqrt(i / 40) for i in range(1, 41)]
    told = memorylessness(more, more, 100.0)
    assert told.trend is not None
    assert told.trend.rejects
    assert told.trend.statistic > 0
    fewer = sorted(100.0 - time for time in more)
    told = memorylessness(fewer, fewer, 100.0)
    assert told.trend is not None
    assert told.trend.statistic < 0
    assert laplace_trend([5, 6, 7, 8], 8) == pytest.approx(2.17, abs=0.005)


def test_short_gaps_are_counted_against_the_binomial() -> None:
    gaps = [600.0] * 5 + [100_000.0] * 15
    num, p = short_gaps(gaps, 1_200.0)
    share = 1 - math.exp(-1_200 / np.mean(gaps))
    assert (num, p) == (5, pytest.approx(binom.sf(4, 20, share)))
    assert short_gaps([9_999.0] * 12, 1_200.0) == (0, 1.0)


def test_below_ten_failures_nothing_is_tested() -> None:
    told = memorylessness([1.0] * 9, [1.0] * 9, 10.0)
    assert (told.exponential, told.clusters, told.trend, told.enough) == (None, None, None, False)


def test_failures_at_one_moment_do_not_break_the_tests() -> None:
    told = memorylessness([100.0] * 12, [100.0], 200.0)
    assert told.exponential is not None
    assert told.exponential.rejects
    assert memorylessness([0.0] * 12, [], 10.0).exponential is None


def test_values_that_make_no_sense_are_named() -> None:
    with pytest.raises(ModelError, match="gaps must be"):
        anderson_darling([1.0])
    with pytest.raises(ModelError, match="times is empty"):
        laplace_trend([], 1.0)
