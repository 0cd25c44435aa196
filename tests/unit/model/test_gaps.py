"""Goodput under any failure gaps: agreement with the closed form, with direct sums and with played-out runs."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tachograph_collector.model.best import best_interval
from tachograph_collector.model.check import Floats, ModelError
from tachograph_collector.model.gaps import (
    effective_restart,
    observed_goodput,
    observed_optimum,
    observed_survival,
    renewal_goodput,
    weibull_goodput,
    weibull_optimum,
    weibull_survival,
)
from tachograph_collector.model.theory import asynchronous_goodput, goodput, optimum, young

few = settings(deadline=None, max_examples=40, derandomize=True)
shares = st.floats(1e-4, 3)


@few
@given(shares, st.floats(0, 1), st.floats(0, 5))
def test_weibull_of_shape_1_is_memoryless(tau: float, cost: float, restart: float) -> None:
    assert float(weibull_goodput(tau, cost, restart, 1, 1)) == pytest.approx(
        float(goodput(tau, cost, restart, 1)), rel=1e-8
    )


@few
@given(shares, st.floats(0, 1), st.floats(0, 5))
def test_an_exponential_survival_is_memoryless(tau: float, cost: float, restart: float) -> None:
    general = renewal_goodput(tau * 60, cost * 60, restart * 60, lambda time: np.exp(-time / 60), 60)
    assert float(general) == pytest.approx(float(goodput(tau, cost, restart, 1)), rel=1e-8)


@pytest.mark.parametrize("shape", [0.4, 0.7, 1.5, 10, 50])
def test_the_sum_of_many_terms_is_as_good_as_one_by_one(shape: float) -> None:
    tau, cost, restart = 0.0008, 0.0002, 0.03
    terms = weibull_survival(restart + (tau + cost) * np.arange(1, 2_000_000), 1, shape)
    direct = tau * terms.sum()
    assert terms[-1] < 1e-14
    assert float(weibull_goodput(tau, cost, restart, 1, shape)) == pytest.approx(direct, rel=1e-7)


@pytest.mark.parametrize("shape", [0.5, 0.7, 2])
def test_weibull_runs_that_are_played_out_keep_what_is_expected(shape: float) -> None:
    draws = np.random.default_rng(3).weibull(shape, 400_000)
    gaps = draws / draws.mean() * 720
    kept = 37.28 * np.floor(np.maximum(gaps - 15, 0) / 38.28)
    error = np.std(kept - kept.mean() / 720 * gaps) / np.sqrt(gaps.size) / 720
    assert abs(kept.mean() / 720 - float(weibull_goodput(37.28, 1, 15, 720, shape))) < 4 * error


def test_bunched_failures_of_the_same_mean_cost_less() -> None:
    by_shape = weibull_goodput(37.28, 1, 15, 720, [0.4, 0.7, 1, 2])
    assert np.all(np.diff(by_shape) < 0)


@few
@given(st.floats(1e-3, 1e3), shares, st.floats(0.3, 5))
def test_the_unit_of_the_gaps_does_not_matter(unit: float, tau: float, shape: float) -> None:
    assert float(weibull_goodput(tau * unit, 0.01 * unit, 0.1 * unit, unit, shape)) == pytest.approx(
        float(weibull_goodput(tau, 0.01, 0.1, 1, shape)), rel=1e-9
    )


def test_a_weibull_gap_has_the_mean_that_was_asked_for() -> None:
    time = np.linspace(0, 400, 2_000_001)
    for shape in (0.6, 1, 3):
        assert np.trapezoid(weibull_survival(time, 4, shape), time) == pytest.approx(4, rel=1e-3)


# Observed gaps.


@few
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30).filter(any), st.integers(1, 400), st.integers(0, 50))
def test_observed_gaps_keep_the_whole_intervals_that_fit_into_each(gaps: list[int], tau: int, restart: int) -> None:
    cost = 3
    kept = sum(tau * (max(gap - restart, 0) // (tau + cost)) for gap in gaps)
    assert float(observed_goodput(tau, cost, restart, gaps)) == pytest.approx(kept / sum(gaps), rel=1e-9)


def test_the_observed_sum_is_the_survivals_own() -> None:
    gaps = np.random.default_rng(5).exponential(720, 50)
    by_survival = renewal_goodput(30, 2, 10, lambda time: observed_survival(time, gaps), gaps.mean())
    assert float(by_survival) == pytest.approx(float(observed_goodput(30, 2, 10, gaps)), rel=1e-12)


def test_many_observed_memoryless_gaps_come_to_the_closed_form_within_the_stated_error() -> None:
    rng = np.random.default_rng(7)
    expected = float(goodput(37.28, 1, 15, 720))
    off = [float(observed_goodput(37.28, 1, 15, rng.exponential(720, 100))) - expected for _ in range(300)]
    stated = (1 - expected) / np.sqrt(100)
    assert 0.6 * stated < np.std(off) < 1.2 * stated
    assert abs(np.mean(off)) < stated / 3


def test_an_interval_that_ends_with_the_gap_is_banked_in_any_unit() -> None:
    for unit in (1, 60, 1.3, 2.1, 4.7):  # the last three divide to just below 3
        assert float(observed_goodput(9 * unit, unit, 0, [30 * unit])) == pytest.approx(0.9)


# Random restarts.


@few
@given(st.lists(st.floats(0, 2000), min_size=1, max_size=20), st.floats(10, 5000))
def test_the_effective_restart_costs_what_the_random_ones_do(restarts: list[float], mtbf: float) -> None:
    fixed = float(effective_restart(restarts, mtbf))
    assert float(goodput(30, 1, max(fixed, 0), mtbf)) == pytest.approx(
        float(np.mean(goodput(30, 1, restarts, mtbf))), rel=1e-9
    )
    assert min(restarts) - 1e-6 <= fixed <= np.mean(restarts) + 1e-6


def test_random_restarts_that_are_played_out_keep_what_the_effective_one_says() -> None:
    rng = np.random.default_rng(11)
    gaps, restarts = rng.exponential(720, 400_000), rng.choice([5, 300], 400_000)
    kept = 37 * np.floor(np.maximum(gaps - restarts, 0) / 38)
    expected = float(goodput(37, 1, effective_restart([5, 300], 720), 720))
    error = np.std(kept - expected * gaps) / np.sqrt(gaps.size) / 720
    assert abs(kept.sum() / gaps.sum() - expected) < 4 * error
    assert float(goodput(37, 1, 152.5, 720)) < expected - 10 * error


def test_weights_are_shares_or_counts_and_restarts_far_above_the_mtbf_do_not_underflow() -> None:
    assert float(effective_restart([5, 55], 720, [9, 1])) == pytest.approx(
        float(effective_restart([5] * 9 + [55], 720))
    )
    assert float(effective_restart([1e6], 1)) == pytest.approx(1e6)
    assert effective_restart([5, 55], [[180], [720]]).shape == (2, 1)


# The best interval.


@few
@given(st.floats(1e-6, 2), st.floats(0, 2))
def test_the_search_finds_the_closed_forms_optimum(cost: float, restart: float) -> None:
    found = best_interval(lambda tau: goodput(tau, cost, restart, 1), young(cost, 1))
    assert found == pytest.approx(float(optimum(cost, 1)), rel=1e-5)


def test_the_weibull_optimum_is_a_maximum_and_memoryless_at_shape_1() -> None:
    shapes = np.array([0.5, 0.7, 1, 2])
    best = weibull_optimum(1, 15, 720, shapes)
    here = weibull_goodput(best, 1, 15, 720, shapes)
    assert np.all(here > weibull_goodput(best * 0.95, 1, 15, 720, shapes))
    assert np.all(here > weibull_goodput(best * 1.05, 1, 15, 720, shapes))
    assert best[2] == pytest.approx(float(optimum(1, 720)), rel=1e-5)
    assert np.all(np.diff(best) < 0)


def test_regular_failures_are_met_just_before_they_strike() -> None:
    assert float(observed_optimum(1, 10, [100] * 5)) == pytest.approx(89)
    assert float(observed_goodput(89, 1, 10, [100] * 5)) == pytest.approx(0.89)


@few
@given(st.lists(st.floats(50, 5000), min_size=1, max_size=12), st.floats(0.1, 10))
def test_no_interval_beats_the_best_for_the_observed_gaps(gaps: list[float], cost: float) -> None:
    best = observed_goodput(observed_optimum(cost, 5, gaps), cost, 5, gaps)
    others = observed_goodput(np.geomspace(1, 5000, 400), cost, 5, gaps)
    assert float(best) >= others.max() - 2e-3


def test_the_search_serves_asynchronous_saves_that_hardly_fit() -> None:
    # Short intervals don't pay once the next snapshot has to wait for the persist.
    best = best_interval(lambda tau: asynchronous_goodput(tau, 0.05, 20, 15, 720), 8.5)
    assert best == pytest.approx(20, rel=1e-3)


def test_the_search_keeps_the_highest_point_though_no_finer_grid_meets_it_again() -> None:
    grids: list[Floats] = []

    def with_a_tooth(tau: Floats) -> Floats:
        heights = np.exp(-(np.log(tau / 38) ** 2)) / 2
        if not grids:
            heights[350] = 0.9
        grids.append(tau)
        return heights

    assert best_interval(with_a_tooth, 38) == grids[0][350]


def test_a_curve_without_a_top_is_refused() -> None:
    with pytest.raises(ModelError, match="no top from tau = "):
        best_interval(lambda tau: goodput(tau, 0, 15, 720), 30)
    with pytest.raises(ModelError, match="restarts that end before the next failure"):
        observed_optimum(1, 500, [100, 200])


# Arrays, and what is refused.


def test_arrays_equal_their_elements_one_by_one() -> None:
    tau, shapes = np.array([[5.0], [40.0]]), np.array([0.5, 1.0, 3.0])
    table = weibull_goodput(tau, 1, 15, 720, shapes)
    seen = observed_goodput(tau, 1, [0, 15, 60], [100, 700, 2000])
    assert table.shape == seen.shape == (2, 3)
    for row in range(2):
        for column, restart in enumerate([0, 15, 60]):
            alone = weibull_goodput(tau[row, 0], 1, 15, 720, shapes[column])
            assert table[row, column] == pytest.approx(float(alone), rel=1e-12)
            assert seen[row, column] == observed_goodput(tau[row, 0], 1, restart, [100, 700, 2000])
    assert observed_optimum([1, 2], 10, [100]).shape == (2,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weibull_goodput(30, 1, 15, 720, 0), "shape is 0; expected a number above 0"),
        (lambda: weibull_survival(-1, 720, 1), "time is -1; expected 0 or more"),
        (
            lambda: renewal_goodput(30, 1, 15, lambda time: 2 * np.ones_like(time), 720),
            "survival is 2 at 46; expected a",
        ),
        (lambda: renewal_goodput(30, 1, 15, lambda time: np.full_like(time, np.nan), 720), "survival is nan at 46"),
        (lambda: renewal_goodput(30, 1, 15, lambda time: np.ones(3), 720), "survival gives shape (3,) for (256,)"),
        (lambda: renewal_goodput(30, 1, 15, lambda time: np.ones_like(time), 720), "expected one that falls to 0"),
        (lambda: renewal_goodput(30, 1, 15, lambda time: np.exp(-time), 0), "mean_gap is 0; expected a number above 0"),
        (lambda: observed_goodput(30, 1, 15, []), "gaps is an array of shape (0,); expected one row"),
        (lambda: observed_goodput(30, 1, 15, [5, -2]), "gaps is -2; expected 0 or more"),
        (lambda: observed_goodput(30, 1, 15, [0, 0]), "gaps is all 0; expected at least one gap above 0"),
        (lambda: observed_optimum(1, 15, [0]), "gaps is all 0; expected at least one gap above 0"),
        (lambda: observed_survival(1, [[1, 2]]), "gaps is an array of shape (1, 2); expected one row"),
        (lambda: effective_restart([5, 55], 720, [1]), "weights has 1 numbers; expected one for each of 2 restarts"),
        (lambda: effective_restart([5, 55], 720, [0, 0]), "weights is all 0; expected at least one above 0"),
        (lambda: weibull_optimum(0, 15, 720, 1), "cost is 0; expected a number above 0"),
        (lambda: best_interval(np.cos, [1, 2]), "around is an array of shape (2,); expected one number"),
    ],
)
def test_bad_gaps_are_refused_by_name_with_what_is_accepted(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError) as error:
        call()
    assert message in str(error.value)
