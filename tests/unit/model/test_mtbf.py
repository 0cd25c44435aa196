"""The MTBF and its exact interval, and how long a plan counts beside the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.mtbf import mtbf, rate_belief


@pytest.mark.parametrize("num", [1, 4, 10, 419])
def test_the_interval_is_the_exact_chi_square_one(num: int) -> None:
    told = mtbf(num, 100.0)
    assert told.low_s == pytest.approx(200 / chi2.ppf(0.975, 2 * num + 2))
    assert told.high_s == pytest.approx(200 / chi2.ppf(0.025, 2 * num))


def test_ten_failures_leave_a_factor_of_four() -> None:
    told = mtbf(10, 10.0)
    assert (told.low_s, told.mean_s, told.high_s) == pytest.approx((0.54, 1.0, 2.09), abs=0.005)


def test_no_failure_says_above_a_third_of_the_time() -> None:
    told = mtbf(0, 3.0)
    assert told.mean_s is None
    assert told.low_s == pytest.approx(1.0, abs=0.002)
    assert told.high_s == math.inf


def test_llama_3_lost_a_server_every_264_days_and_the_job_every_three_hours() -> None:
    servers = mtbf(419, 54.0 * 2048)
    assert servers.mean_s == pytest.approx(264, abs=0.5)
    assert (servers.low_s, servers.high_s) == pytest.approx((240, 291), abs=0.5)
    job = mtbf(419, 54.0 * 24)
    assert job.mean_s == pytest.approx(3.09, abs=0.005)
    assert servers.mean_s is not None
    assert servers.mean_s * 24 / 128 == pytest.approx(49.5, abs=0.05)


def test_the_interval_covers_the_true_mtbf_in_at_least_its_share_of_runs() -> None:
    rng = np.random.default_rng(1)
    for expected in (0.5, 3.0, 12.0):
        told = [mtbf(int(num), expected) for num in rng.poisson(expected, 2_000)]
        assert np.mean([one.low_s <= 1.0 <= one.high_s for one in told]) >= 0.95 - 0.01


def test_a_plan_is_worth_one_failure() -> None:
    assert rate_belief(0, 1.0, 12.0).mtbf_s == 13.0
    assert rate_belief(4, 20.0, 8.0).mtbf_s == 28 / 5
    assert rate_belief(4, 20.0, 8.0).has_plan
    low, high = rate_belief(4, 20.0, 8.0).interval_s()
    assert low < 28 / 5 < high
    assert rate_belief(4, 20.0).mtbf_s == 20 / 4.5


def test_data_outweighs_the_plan_after_ten_failures_or_when_it_contradicts_it() -> None:
    assert not rate_belief(10, 80.0, 8.0).has_plan
    assert not rate_belief(3, 10.0, 264 * 24.0).has_plan  # a node's MTBF that nobody divided
    assert not rate_belief(0, 300.0, 8.0).has_plan


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((-1, 1.0), "num_failures is -1"), ((1, 0.0), "exposure_s is 0"), ((1, 1.0, 1.0), "confidence is 1")],
)
def test_values_that_make_no_sense_are_named(arguments: tuple[float, ...], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        mtbf(*arguments)  # type: ignore[arg-type]  # fields by name
