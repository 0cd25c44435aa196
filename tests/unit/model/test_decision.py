"""The thresholds of a decision are where the best interval, or the better way of saving, really changes."""

from __future__ import annotations

import pytest
from tachograph_collector.model.decision import Thresholds, cost_for, mtbf_for, thresholds
from tachograph_collector.model.theory import asynchronous_goodput, best_goodput, goodput, optimum

BLOCKING = {"interval_s": 2280.0, "cost_s": 60.0, "persist_s": 0.0, "restart_s": 900.0, "mtbf_s": 43_200.0}
ASYNCHRONOUS = {"interval_s": 480.0, "cost_s": 3.0, "persist_s": 55.0, "restart_s": 1800.0, "mtbf_s": 43_200.0}


@pytest.fixture
def blocking() -> Thresholds:
    return thresholds(**BLOCKING, other_cost_s=3.0, goal=0.9)


@pytest.fixture
def asynchronous() -> Thresholds:
    return thresholds(**ASYNCHRONOUS, other_cost_s=60.0, goal=0.9)


@pytest.mark.parametrize(("cost", "mtbf"), [(1, 720), (1, 180), (1, 3000), (0.05, 720), (10, 720)])
def test_mtbf_and_cost_are_found_again_from_their_best_interval(cost: float, mtbf: float) -> None:
    best = float(optimum(cost, mtbf))
    assert mtbf_for(best, cost) == pytest.approx(mtbf, rel=1e-6)
    assert cost_for(best, mtbf) == pytest.approx(cost, rel=1e-6)


def test_no_cost_makes_an_interval_best_that_is_as_long_as_the_mtbf() -> None:
    assert cost_for(720, 720) is None


def test_at_the_mtbf_thresholds_the_interval_is_half_and_double_of_the_best(blocking: Thresholds) -> None:
    low, high = blocking.mtbf_s
    assert low is not None
    assert high is not None
    assert float(optimum(60, low)) == pytest.approx(2280 / 2)
    assert float(optimum(60, high)) == pytest.approx(2280 * 2)
    assert low < 43_200 < high


def test_at_the_cost_thresholds_the_interval_is_half_and_double_of_the_best(blocking: Thresholds) -> None:
    low, high = blocking.cost_s
    assert low is not None
    assert high is not None
    assert float(optimum(low, 43_200)) == pytest.approx(2280 / 2)
    assert float(optimum(high, 43_200)) == pytest.approx(2280 * 2)


def test_an_interval_that_the_persist_nearly_fills_is_never_too_long() -> None:
    limits = thresholds(**{**ASYNCHRONOUS, "persist_s": 300.0}, other_cost_s=60.0, goal=0.9)
    assert limits.mtbf_s[0] is None
    assert limits.cost_s[0] is None
    assert limits.mtbf_s[1] is not None


def test_at_the_restart_threshold_restarts_cost_as_much_as_everything_else(blocking: Thresholds) -> None:
    without = float(goodput(2280, 60, 0, 43_200))
    both = float(goodput(2280, 60, blocking.restart_s, 43_200))
    assert both == pytest.approx(without**2)


def test_at_the_goal_s_restart_the_goodput_is_the_goal(asynchronous: Thresholds) -> None:
    assert asynchronous.goal_restart_s is not None
    assert float(asynchronous_goodput(480, 3, 55, asynchronous.goal_restart_s, 43_200)) == pytest.approx(0.9)


def test_a_goal_that_no_restart_reaches_has_no_threshold() -> None:
    assert thresholds(**ASYNCHRONOUS, other_cost_s=60.0, goal=0.999).goal_restart_s is None


@pytest.mark.parametrize("way", ["blocking", "asynchronous"])
def test_at_the_persist_threshold_both_ways_of_saving_keep_the_same(way: str, request: pytest.FixtureRequest) -> None:
    limits: Thresholds = request.getfixturevalue(way)
    restart_s = 900.0 if way == "blocking" else 1800.0
    persist_s = limits.other_persist_s
    assert persist_s is not None
    interval_s = max(float(optimum(3, 43_200)), persist_s)
    kept = float(asynchronous_goodput(interval_s, 3, persist_s, restart_s, 43_200))
    assert kept == pytest.approx(float(best_goodput(60, restart_s, 43_200)))


def test_only_asynchronous_saves_have_a_persist_that_must_fit(blocking: Thresholds, asynchronous: Thresholds) -> None:
    assert (blocking.persist_s, asynchronous.persist_s) == (None, 480.0)


def test_a_job_that_keeps_nothing_has_thresholds_all_the_same() -> None:
    limits = thresholds(**{**ASYNCHRONOUS, "mtbf_s": 0.06}, other_cost_s=60.0, goal=0.01)
    assert limits.restart_s > 0
    assert limits.goal_restart_s is None
