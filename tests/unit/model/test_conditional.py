"""The main alarm: quiet on healthy runs, and it hears two points of hidden loss within a week."""

from __future__ import annotations

import numpy as np
import pytest
from healthy_runs import Runs, timeline
from scipy.special import ndtri
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.conditional import conditional_check, explained_goodput, lost_per_failure
from tachograph_collector.model.theory import goodput, optimum

DAY = 1440.0
DESIGNS = {
    "C=1, R=15, M=720": {"tau": 37.28, "cost": 1.0, "restart": 15.0, "mtbf": 720.0},
    "half of Young's interval": {"tau": 18.97, "cost": 1.0, "restart": 15.0, "mtbf": 720.0},
    "every 3 h, M=6 h": {"tau": 180.0, "cost": 1.0, "restart": 30.0, "mtbf": 360.0},
    "M=50 h": {"tau": 76.79, "cost": 1.0, "restart": 30.0, "mtbf": 3000.0},
    "slow storage": {"tau": 113.4, "cost": 10.0, "restart": 30.0, "mtbf": 720.0},
    "restarts that vary": {"tau": 37.28, "cost": 1.0, "restart": 30.0, "mtbf": 720.0, "spread": 1.0},
    "asynchronous": {"tau": 8.5, "cost": 0.05, "restart": 15.0, "mtbf": 720.0, "persist": 0.92},
}


def z_scores(runs: Runs, design: dict[str, float]) -> np.ndarray:
    """The check's z for every run, with the MTBF that each run would measure itself."""
    expected, deviation = explained_goodput(
        runs.window,
        runs.down,
        runs.num_at_work,
        design["tau"],
        design["cost"],
        runs.window / np.maximum(runs.num_failures, 0.5),
        design.get("persist", 0.0),
    )
    return np.asarray((runs.kept / runs.window - expected) / deviation)


@pytest.mark.parametrize("days", [7.0, 30.0])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_nominal_one_percent_alarm_fires_in_at_most_one_and_a_half_percent_of_healthy_runs(
    name: str, days: float
) -> None:
    runs = timeline(1, 10_000, days * DAY, **DESIGNS[name]).look(days * DAY)
    alarms = np.mean(z_scores(runs, DESIGNS[name]) < ndtri(0.01))
    assert alarms <= 0.015


def test_two_hidden_points_are_found_within_seven_days_in_four_of_five_runs() -> None:
    design = DESIGNS["C=1, R=15, M=720"]
    healthy = timeline(2, 5_000, 7 * DAY, **design).look(7 * DAY)
    slow = timeline(2, 5_000, 7 * DAY, **design, hidden=0.0210).look(7 * DAY)
    assert 100 * np.mean(healthy.kept - slow.kept) / (7 * DAY) == pytest.approx(2.0, abs=0.05)
    assert np.mean(z_scores(slow, design) < ndtri(0.01)) >= 0.80


def test_looking_every_day_of_a_week_keeps_its_level_and_finds_two_points_in_four_of_five_runs() -> None:
    design = DESIGNS["C=1, R=15, M=720"]
    limit = ndtri(0.01 / 7)
    fired = {}
    for hidden in (0.0, 0.0210):
        runs = timeline(3, 5_000, 7 * DAY, **design, hidden=hidden)
        looks = [z_scores(runs.look(day * DAY), design) < limit for day in range(1, 8)]
        fired[hidden] = np.mean(np.any(looks, axis=0))
    assert fired[0.0] <= 0.015
    assert fired[0.0210] >= 0.80


def test_two_points_stand_out_in_three_days_where_plain_goodput_needs_four_weeks() -> None:
    design = DESIGNS["C=1, R=15, M=720"]
    runs = timeline(4, 5_000, 28 * DAY, **design)
    three = runs.look(3 * DAY)
    found = -0.02 / (np.std(runs.look(28 * DAY).kept) / (28 * DAY))
    conditional = np.median(z_scores(timeline(4, 5_000, 3 * DAY, **design, hidden=0.0210).look(3 * DAY), design))
    assert conditional < -2.5
    assert found == pytest.approx(-3.1, abs=0.3)
    assert np.std(three.kept) / (3 * DAY) > 0.018  # plain goodput of three days: two points are one deviation


def test_a_healthy_day_swings_by_three_points_so_one_point_below_the_model_is_noise() -> None:
    design = DESIGNS["C=1, R=15, M=720"]
    day = timeline(5, 20_000, DAY, **design).look(DAY)
    assert 100 * np.std(day.kept) / DAY == pytest.approx(3.4, abs=0.15)
    month = timeline(6, 4_000, 30 * DAY, **design).look(30 * DAY)
    assert 100 * np.std(month.kept) / (30 * DAY) == pytest.approx(0.6, abs=0.05)
    assert np.mean(month.kept) / (30 * DAY) == pytest.approx(goodput(37.28, 1, 15, 720), abs=0.001)


def test_the_worked_numbers() -> None:
    assert lost_per_failure(38.28, 720) == pytest.approx(18.97, abs=0.005)
    assert lost_per_failure(38.28, np.inf) == pytest.approx(19.14)
    assert lost_per_failure(1.0, 1e5) == pytest.approx(0.5 - 1e-5 / 12, rel=1e-9)
    assert lost_per_failure(1.0, 9.9e3) == pytest.approx(lost_per_failure(1.0, 1.01e4), rel=1e-5)
    expected, deviation = explained_goodput(3 * DAY, 90, 6, 37.28, 1, 720)
    assert (float(expected), float(deviation)) == pytest.approx((0.9279, 0.0070), abs=5e-5)
    assert optimum(1, 720) == pytest.approx(37.28, abs=0.005)


def test_the_alarm_says_how_much_is_missing() -> None:
    told = conditional_check(
        exposure_s=3 * DAY, kept_s=0.90 * 3 * DAY, down_s=90, num_failures=6, tau_s=37.28, cost_s=1, mtbf_s=720
    )
    assert told.fires
    assert told.missing_s == pytest.approx(0.0279 * 3 * DAY, abs=1)
    quiet = conditional_check(
        exposure_s=3 * DAY,
        kept_s=0.91 * 3 * DAY,
        down_s=90,
        num_failures=6,
        tau_s=37.28,
        cost_s=1,
        mtbf_s=720,
        num_looks=30,
    )
    assert not quiet.fires


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"alpha": 0.7}, "alpha is 0.7"),
        ({"num_looks": 0}, "num_looks is 0"),
        ({"exposure_s": 0.0}, "window is 0"),
        ({"mtbf_s": -1.0}, "mtbf is -1"),
    ],
)
def test_values_that_make_no_sense_are_named(change: dict[str, float], says: str) -> None:
    good = {"exposure_s": 10.0, "kept_s": 5.0, "down_s": 0.0, "num_failures": 0, "tau_s": 1.0, "cost_s": 0.1}
    with pytest.raises(ModelError, match=says):
        conditional_check(**{**good, "mtbf_s": 100.0, **change})  # type: ignore[arg-type]  # fields by name
