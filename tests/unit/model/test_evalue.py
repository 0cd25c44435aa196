"""Failures against the planned rate: looked at all the time, and still wrong in at most alpha of the runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gamma
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.evalue import log_evalue, rate_alarm


def fires_ever(rate: float, alpha: float, num_runs: int, num_planned: int) -> float:
    """The share of runs at ``rate`` times the plan in which the alarm fires at any moment until so many are planned."""
    rng = np.random.default_rng(11)
    times = np.cumsum(rng.exponential(1 / rate, (num_runs, int(3 * rate * num_planned))), axis=1)
    counts = np.arange(1, times.shape[1] + 1)
    logs = log_evalue(counts, times, 1.0)
    alarm = (logs >= -math.log(alpha)) & (counts > times) & (times <= num_planned)
    return float(np.mean(alarm.any(axis=1)))


@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_looking_all_the_time_raises_false_alarms_in_at_most_alpha_of_runs(alpha: float) -> None:
    assert fires_ever(1.0, alpha, 10_000, 100) <= alpha


def test_twice_the_planned_rate_is_found() -> None:
    assert fires_ever(2.0, 0.01, 1_000, 50) >= 0.95


def test_between_failures_the_evalue_only_falls_while_there_are_more_than_planned() -> None:
    for num in (1, 5, 20):
        times = np.linspace(0.0, num - 1e-9, 500)
        assert np.all(np.diff(log_evalue(num, times, 1.0)) <= 1e-12)


def test_the_logarithm_is_that_of_the_formula() -> None:
    a, b, planned_rate, num, t = 1.0, 0.5, 2.0, 7, 1.5
    formula = b**a * gamma(a + num) / (gamma(a) * (b + t) ** (a + num)) * planned_rate**-num
    assert np.exp(log_evalue(num, t, planned_rate)) == pytest.approx(formula * math.exp(planned_rate * t))
    assert np.exp(log_evalue(8, 2, 1)) == pytest.approx(15.1, abs=0.05)
    assert log_evalue(0, 0, 1) == pytest.approx(0.0)


def test_a_thousand_failures_do_not_overflow() -> None:
    told = rate_alarm(list(np.linspace(1, 100, 1_000)), 100.0, 1e4)
    assert told.fires
    assert math.isfinite(told.greatest_evalue)


def test_an_alarm_that_fired_stays_although_failures_became_rare() -> None:
    times = [0.1 * i for i in range(1, 13)]
    assert rate_alarm(times, 1.2, 1.0).fires
    later = rate_alarm(times, 200.0, 1.0)
    assert later.fires
    assert later.greatest_evalue == rate_alarm(times, 1.2, 1.0).greatest_evalue


def test_fewer_failures_than_planned_are_no_alarm() -> None:
    told = rate_alarm([5.0], 500.0, 1.0)
    assert told.evalue > 1e6
    assert not told.fires


def test_values_that_make_no_sense_are_named() -> None:
    with pytest.raises(ModelError, match="planned_mtbf_s is 0"):
        rate_alarm([1.0], 2.0, 0.0)
    with pytest.raises(ModelError, match="alpha is 1"):
        rate_alarm([1.0], 2.0, 1.0, alpha=1.0)
