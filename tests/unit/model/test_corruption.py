"""Silent corruption and retention: the formulas against runs that are played out corruption by corruption."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.corruption import (
    Rung,
    chance_without_clean,
    clean_rung,
    corrupted_goodput,
    corruption_waste,
    goodput_from_scratch,
    reach,
)
from tachograph_collector.model.theory import asynchronous_goodput

few = settings(deadline=None, max_examples=100, derandomize=True)
EVERY_SIX_HOURS = [Rung(0, 20), Rung(360, None)]


def test_played_out_corruption_leaves_what_is_expected() -> None:
    delay, rung, restart, mtbf = 600, 720, 5, 5000
    clean = np.random.default_rng(1).exponential(mtbf, 400_000)
    kept = rung * np.floor(clean / rung)
    cycles = clean + delay + restart
    expected = float(corrupted_goodput(1, delay, rung, restart, mtbf))
    error = np.std(kept - expected * cycles) / np.sqrt(clean.size) / cycles.mean()
    assert abs(kept.sum() / cycles.sum() - expected) < 4 * error
    # The first order is visibly off here, to the low side.
    assert 1 - float(corruption_waste(delay, rung, restart, mtbf)) < expected - 10 * error


@few
@given(st.floats(0, 0.01), st.floats(0, 0.01), st.floats(0, 0.01), st.floats(100, 1e5))
def test_rare_corruption_costs_the_first_orders_waste(delay: float, rung: float, restart: float, mtbf: float) -> None:
    waste = float(corruption_waste(delay * mtbf, rung * mtbf, restart * mtbf, mtbf))
    exact = 1 - float(corrupted_goodput(1, delay * mtbf, rung * mtbf, restart * mtbf, mtbf))
    assert exact == pytest.approx(waste, abs=2 * waste**2 + 1e-12)


def test_the_specifications_ladder_is_predicted_to_half_a_point() -> None:
    clean = asynchronous_goodput(8.5, 0.05, 0.92, 5, 720)
    for delay, simulated in [(30, 0.978), (360, 0.932)]:
        rung = clean_rung(delay, EVERY_SIX_HOURS, 8.5, 0.05)
        assert float(corrupted_goodput(clean, delay, rung, 5, 7 * 1440)) == pytest.approx(simulated, abs=0.005)
    assert chance_without_clean([30, 360], 8.5, 0.05).tolist() == [1, 1]
    assert float(goodput_from_scratch(clean, 30, 7)) == pytest.approx(0.22, abs=0.01)


def test_corruption_without_delay_or_rungs_or_restart_costs_nothing_and_endless_ones_everything() -> None:
    assert float(corrupted_goodput(0.9, 0, 0, 0, 720)) == 0.9
    assert float(corrupted_goodput(0.9, 1e12, 0, 0, 720)) == pytest.approx(0, abs=1e-8)
    assert float(corrupted_goodput(0.9, 0, 1e12, 0, 720)) == 0
    assert float(corrupted_goodput(0.9, 30, 1e-12, 5, 720)) == pytest.approx(
        float(corrupted_goodput(0.9, 30, 0, 5, 720))
    )


def test_played_out_retention_has_no_clean_checkpoint_as_often_as_expected() -> None:
    tau, cost, num = 37.0, 1.0, 200_000
    struck = np.random.default_rng(2).uniform(0, tau + cost, num)
    for delay, keep in [(30, 1), (60, 2), (38, 1), (100, 3), (200, 3)]:
        saves_since = np.floor((struck + delay) / (tau + cost))
        expected = float(chance_without_clean(delay, tau, cost, keep))
        assert np.mean(saves_since >= keep) == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(num))


@few
@given(st.floats(0, 5000), st.floats(1, 500), st.integers(1, 30))
def test_a_ladder_reaches_back_exactly_as_far_as_a_clean_checkpoint_is_sure(
    tau_delay: float, tau: float, keep: int
) -> None:
    sure = float(chance_without_clean(tau_delay, tau, 1, keep)) == 0
    assert sure == bool(reach([Rung(0, keep)], tau, 1) >= tau_delay)


def test_latest_only_reaches_back_nowhere_and_a_rung_that_keeps_all_everywhere() -> None:
    assert float(reach([Rung(0, 1)], 8.5, 0.05)) == 0
    assert float(reach(EVERY_SIX_HOURS, 8.5, 0.05)) == np.inf
    assert float(clean_rung(1, [Rung(0, 1)], 8.5, 0.05)) == np.inf


def test_the_finest_rung_that_reaches_is_used_and_none_is_finer_than_the_saves() -> None:
    ladder = [Rung(360, 8), Rung(60, 12), Rung(0, 10)]
    assert clean_rung([80, 90, 660, 661, 2520, 2521], ladder, 9, 0).tolist() == [9, 60, 60, 360, 360, np.inf]
    assert clean_rung(80, ladder, [9, 100, 500], 0).tolist() == [9, 100, 500]
    assert reach(ladder, [9, 500], 0).tolist() == [2520, 5500]


@pytest.mark.parametrize("duration", [1, 30, 300])
def test_a_run_that_always_starts_again_keeps_the_time_since_the_last_event(duration: float) -> None:
    since = np.minimum(np.random.default_rng(4).exponential(7, 200_000), duration)
    error = since.std() / np.sqrt(since.size) / duration
    assert abs(since.mean() / duration - float(goodput_from_scratch(1, duration, 7))) < 4 * error


@few
@given(st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter_to_corruption(unit: float) -> None:
    assert float(corrupted_goodput(0.9, 30 * unit, 60 * unit, 5 * unit, 10080 * unit)) == pytest.approx(
        float(corrupted_goodput(0.9, 30, 60, 5, 10080))
    )
    assert float(chance_without_clean(30 * unit, 37 * unit, unit)) == pytest.approx(30 / 38)


def test_arrays_of_delays_equal_their_elements_one_by_one() -> None:
    delays = np.array([0.0, 30.0, 360.0])
    assert corruption_waste(delays, 360, 5, 10080).tolist() == [
        float(corruption_waste(delay, 360, 5, 10080)) for delay in delays
    ]
    assert corrupted_goodput(0.98, delays, [[0], [360]], 5, 10080).shape == (2, 3)
    assert chance_without_clean(delays[:, None], 37, 1, [1, 2]).shape == (3, 2)
    assert goodput_from_scratch(0.98, [7, 30], 7).shape == (2,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: corruption_waste(-1, 360, 5, 10080), "delay is -1; expected 0 or more"),
        (lambda: corruption_waste(30, 360, 5, 0), "mtbf_sdc is 0; expected a number above 0"),
        (lambda: corrupted_goodput(1.2, 30, 360, 5, 10080), "clean_goodput is 1.2; expected a share from 0 to 1"),
        (lambda: corrupted_goodput(0.9, 30, float("nan"), 5, 10080), "rung is nan; expected a finite number"),
        (lambda: chance_without_clean(30, 37, 1, 0), "keep is 0; expected a whole number of at least 1"),
        (lambda: chance_without_clean(30, 37, 1, 1.5), "keep is 1.5; expected a whole number of at least 1"),
        (lambda: goodput_from_scratch(0.9, 0, 7), "duration is 0; expected a number above 0"),
        (lambda: Rung(-1, 20), "every is -1; expected 0 or more"),
        (lambda: Rung(0, 0), "keep is 0; expected a whole number of at least 1"),
        (lambda: Rung([1, 2], 1), "every is an array of shape (2,); expected one number"),
        (lambda: reach([], 37, 1), "rungs is empty; expected at least one rung"),
    ],
)
def test_bad_retention_is_refused_by_name_with_what_is_accepted(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError) as error:
        call()
    assert message in str(error.value)
