"""The closed forms of the memoryless model: reference numbers, limits and what they refuse."""

from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.mtbf import mtbf
from tachograph_collector.model.theory import (
    asynchronous_goodput,
    best_goodput,
    daly,
    daly_two_term,
    first_order_waste,
    goodput,
    job_mtbf,
    optimum,
    young,
)

few = settings(deadline=None, max_examples=100, derandomize=True)
minutes = st.floats(0.01, 1e4)
ratios = st.floats(1e-9, 20)
restarts = st.floats(0, 3)


# The specification's numbers.


def test_the_flat_top_loses_about_a_point_at_half_and_double() -> None:
    assert float(goodput(optimum(1, 720), 1, 15, 720)) == pytest.approx(0.9287, abs=5e-5)
    assert float(goodput(young(1, 720) / 2, 1, 15, 720)) == pytest.approx(0.9175, abs=5e-5)
    assert float(goodput(young(1, 720) * 2, 1, 15, 720)) == pytest.approx(0.9159, abs=5e-5)


def test_the_mtbf_that_nobody_divided_costs_a_third_of_the_run() -> None:
    assert float(goodput(180, 1, 30, 720)) == pytest.approx(0.8390, abs=5e-5)
    assert float(goodput(870, 1, 30, 720)) == pytest.approx(0.4927, abs=5e-5)


@pytest.mark.parametrize(
    ("cost", "mtbf", "youngs", "best"),
    [
        (1, 720, 37.95, 37.28),
        (1, 180, 18.97, 18.31),
        (1, 3000, 77.46, 76.79),
        (0.05, 720, 8.485, 8.45),
        (10, 720, 120, 113.4),
    ],
)
def test_young_and_the_optimum_are_the_published_ones(cost: float, mtbf: float, youngs: float, best: float) -> None:
    assert float(young(cost, mtbf)) == pytest.approx(youngs, abs=0.006)
    assert float(optimum(cost, mtbf)) == pytest.approx(best, abs=0.05 if best > 100 else 0.005)


@pytest.mark.parametrize(("persist", "expected"), [(0.92, 0.9666), (5, 0.9612), (17, 0.4768)])
def test_a_persist_that_does_not_fit_halves_the_goodput(persist: float, expected: float) -> None:
    assert float(asynchronous_goodput(8.5, 0.05, persist, 15, 720)) == pytest.approx(expected, abs=5e-5)


def test_llama_3_fails_every_three_hours() -> None:
    per_server = mtbf(419, 54 * 2048)
    assert per_server.mean_s == pytest.approx(264, abs=0.5)
    assert (per_server.low_s, per_server.high_s) == pytest.approx((240, 291), abs=0.5)
    assert mtbf(419, 54 * 24).mean_s == pytest.approx(3.09, abs=0.005)
    assert float(job_mtbf(54 * 24 * 2048 / 419, 128)) == pytest.approx(49.5, abs=0.05)


# Daly's forms against the optimum.


@few
@given(st.floats(1e-6, 0.1), minutes)
def test_dalys_series_is_close_to_the_optimum_while_checkpoints_are_cheap(ratio: float, mtbf: float) -> None:
    assert float(daly(ratio * mtbf, mtbf)) == pytest.approx(float(optimum(ratio * mtbf, mtbf)), rel=4e-4)


def test_daly_gives_the_mtbf_from_a_cost_of_twice_the_mtbf_on() -> None:
    assert daly([2, 2.5, 100], 1).tolist() == [1, 1, 1]
    assert float(daly(1.9999999, 1)) == pytest.approx(8 / 3 + 2 / 9 * 1 - 2, abs=1e-3)


@few
@given(st.floats(1e-6, 0.01), minutes)
def test_the_two_term_form_drops_a_third_of_the_cost_and_young_is_two_thirds_long(ratio: float, mtbf: float) -> None:
    cost = ratio * mtbf
    assert float(optimum(cost, mtbf) - daly_two_term(cost, mtbf)) == pytest.approx(cost / 3, rel=0.03)
    assert float(young(cost, mtbf) - optimum(cost, mtbf)) == pytest.approx(2 * cost / 3, rel=0.03)


# The optimum is one.


@few
@given(ratios, restarts, minutes)
def test_the_optimum_is_a_maximum_and_its_goodput_the_best(ratio: float, restart: float, mtbf: float) -> None:
    cost, restart = ratio * mtbf, restart * mtbf
    tau = float(optimum(cost, mtbf))
    here, shorter, longer = goodput(np.array([1, 0.95, 1.05]) * tau, cost, restart, mtbf)
    assert here > shorter
    assert here > longer
    assert here == pytest.approx(float(best_goodput(cost, restart, mtbf)), rel=1e-6)


@few
@given(st.floats(1e-14, 10))
def test_the_optimum_solves_its_equation_on_both_sides_of_the_branch_points_series(ratio: float) -> None:
    tau = float(optimum(ratio, 1))
    # From dG/dtau = 0: 1 - exp(-(tau + C)/M) = tau/M.
    assert -np.expm1(-(tau + ratio)) == pytest.approx(tau, rel=1e-9)


@pytest.mark.parametrize("ratio", [1e-12, 1e-9, 0.9e-7, 1.1e-7, 1e-3, 1])
def test_the_optimum_has_nine_digits_against_forty(ratio: float) -> None:
    with localcontext() as context:
        context.prec = 40
        cost, tau = Decimal(ratio), Decimal(float(optimum(ratio, 1)))
        for _ in range(8):  # Newton
            alive = (-(tau + cost)).exp()
            tau -= (1 - alive - tau) / (alive - 1)
    assert float(optimum(ratio, 1)) == pytest.approx(float(tau), rel=1e-9, abs=0)


def test_the_optimum_does_not_jump_where_the_series_takes_over() -> None:
    below, above = optimum([0.9999999e-7, 1.0000001e-7], 1)
    assert above / below == pytest.approx(1 + 1e-7, abs=1e-8)


def test_no_interval_is_better_than_the_mtbf() -> None:
    assert np.all(optimum(np.geomspace(1e-9, 1e3, 50), 1) <= 1)


# Limits and units.


@few
@given(restarts)
def test_free_checkpoints_leave_only_the_restarts_share(restart: float) -> None:
    assert float(best_goodput(1e-12, restart, 1)) == pytest.approx(np.exp(-restart), rel=1e-5)
    assert float(goodput(1e-9, 0, restart, 1)) == pytest.approx(np.exp(-restart), rel=1e-5)


def test_endless_restarts_or_intervals_keep_nothing_and_rare_failures_cost_only_the_saves() -> None:
    assert float(goodput(30, 1, 1e9, 720)) == 0
    assert float(goodput(1e9, 1, 15, 720)) == 0
    assert float(asynchronous_goodput(1e9, 1, 1, 15, 720)) == 0
    assert float(goodput(30, 1, 15, 1e15)) == pytest.approx(30 / 31)


@few
@given(st.floats(1e-3, 1e3), ratios, ratios, restarts, st.floats(0, 3))
def test_the_unit_of_time_does_not_matter(unit: float, tau: float, cost: float, restart: float, persist: float) -> None:
    assert float(goodput(tau * unit, cost * unit, restart * unit, unit)) == pytest.approx(
        float(goodput(tau, cost, restart, 1)), rel=1e-9
    )
    assert float(asynchronous_goodput(tau * unit, cost * unit, persist * unit, restart * unit, unit)) == pytest.approx(
        float(asynchronous_goodput(tau, cost, persist, restart, 1)), rel=1e-9
    )
    for interval in (young, daly, optimum):
        assert float(interval(cost * unit, unit)) == pytest.approx(unit * float(interval(cost, 1)), rel=1e-7)


@few
@given(ratios, ratios, restarts, minutes)
def test_goodput_is_a_share(tau: float, cost: float, restart: float, mtbf: float) -> None:
    assert 0 <= float(goodput(tau * mtbf, cost * mtbf, restart * mtbf, mtbf)) <= 1


@few
@given(st.floats(1e-3, 0.02), st.floats(0, 0.01))
def test_the_textbook_waste_holds_while_failures_are_rare(tau: float, restart: float) -> None:
    cost = tau / 50
    exact = 1 - float(goodput(tau, cost, restart, 1))
    # What it neglects is of second order in the waste and in the interval.
    assert float(first_order_waste(tau, cost, restart, 1)) == pytest.approx(exact, abs=2 * exact**2 + tau**2)


# Asynchronous saves.


@few
@given(st.floats(0.01, 3), st.floats(0, 0.1), st.floats(0, 1), restarts)
def test_an_asynchronous_save_that_fits_is_a_blocking_one_with_a_longer_restart(
    tau: float, snapshot: float, part: float, restart: float
) -> None:
    persist = part * tau
    assert float(asynchronous_goodput(tau, snapshot, persist, restart, 1)) == pytest.approx(
        float(goodput(tau, snapshot, restart + persist, 1)), rel=1e-12
    )


@few
@given(st.floats(0.01, 3), st.floats(0, 0.1), restarts)
def test_nothing_jumps_where_the_persist_stops_fitting(tau: float, snapshot: float, restart: float) -> None:
    fits, just_not = asynchronous_goodput(tau, snapshot, [tau, tau * (1 + 1e-12)], restart, 1)
    assert fits == pytest.approx(just_not, rel=1e-9)


@few
@given(st.floats(0.01, 3), st.floats(0, 0.1), st.floats(0, 5), st.floats(0, 5))
def test_a_longer_persist_never_helps(tau: float, snapshot: float, one: float, other: float) -> None:
    longer, shorter = asynchronous_goodput(tau, snapshot, sorted([one, other], reverse=True), 0.1, 1)
    assert longer <= shorter * (1 + 1e-12)


# Arrays, and what is refused.


def test_arrays_broadcast_and_equal_their_elements_one_by_one() -> None:
    tau, mtbf = np.array([[5.0], [40.0]]), np.array([180.0, 720.0, 3000.0])
    table = goodput(tau, 1, 15, mtbf)
    stale = asynchronous_goodput(tau, 0.05, 17, 15, mtbf)
    assert table.shape == stale.shape == (2, 3)
    for row in range(2):
        for column in range(3):
            assert table[row, column] == goodput(tau[row, 0], 1, 15, mtbf[column])
            assert stale[row, column] == asynchronous_goodput(tau[row, 0], 0.05, 17, 15, mtbf[column])
    for interval in (young, daly, daly_two_term, optimum):
        assert interval(1, mtbf).tolist() == [float(interval(1, each)) for each in mtbf]
    assert best_goodput(1, [0, 15], [[180], [720]]).shape == (2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: goodput(0, 1, 15, 720), "tau is 0; expected a number above 0"),
        (lambda: goodput(30, -1, 15, 720), "cost is -1; expected 0 or more"),
        (lambda: goodput(30, 1, float("nan"), 720), "restart is nan; expected a finite number"),
        (lambda: goodput(30, 1, 15, [720, -3]), "mtbf is -3; expected a number above 0"),
        (lambda: goodput("soon", 1, 15, 720), "tau is 'soon'; expected a number or an array of numbers"),
        (lambda: young(0, 720), "cost is 0; expected a number above 0"),
        (lambda: daly(1, float("inf")), "mtbf is inf; expected a finite number"),
        (lambda: daly_two_term(3, 1), "cost is 3; expected at most 2 mtbf, here 2"),
        (lambda: optimum(1, 0), "mtbf is 0; expected a number above 0"),
        (lambda: best_goodput(1, -15, 720), "restart is -15; expected 0 or more"),
        (lambda: first_order_waste(870, 1, 30, 720), "tau is 870; expected at most mtbf, here 720"),
        (lambda: asynchronous_goodput(8.5, 0.05, -1, 15, 720), "persist is -1; expected 0 or more"),
        (lambda: job_mtbf(264, 0.5), "nodes is 0.5; expected at least 1"),
        (lambda: job_mtbf(-264, 128), "node_mtbf is -264; expected a number above 0"),
    ],
)
def test_a_bad_value_is_refused_by_name_with_what_is_accepted(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError) as error:
        call()
    assert message in str(error.value)
