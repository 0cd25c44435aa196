"""Advice on the interval: what a change would give, and when there is none to give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tachograph_collector.model.advice import Advice, advise, predicted_goodput, undivided
from tachograph_collector.model.theory import asynchronous_goodput, best_goodput, goodput, optimum

WIDE = (0.54, 2.09)
"""The MTBF's interval after ten failures, as a factor."""


def advice(tau: float, *, mtbf: float = 720.0, restart: float = 15.0, cost: float = 1.0, **changes: object) -> Advice:
    settings: dict[str, object] = {"mtbf_interval_s": (mtbf * WIDE[0], mtbf * WIDE[1])}
    # the fields come by name, which the checker can't see
    return advise(tau_s=tau, cost_s=cost, restarts_s=[restart], mtbf_s=mtbf, **{**settings, **changes})  # type: ignore[arg-type]


def test_three_hours_between_saves_cost_seven_points() -> None:
    told = advice(180.0, restart=30.0)
    assert told.kind == "change"
    assert 100 * told.in_use.goodput == pytest.approx(83.90, abs=0.005)
    assert 100 * told.best.goodput == pytest.approx(100 * best_goodput(1, 30, 720))
    assert told.gain_points == pytest.approx(7.06, abs=0.01)
    assert told.best.tau_s == pytest.approx(37.28, abs=0.005)


def test_the_mtbfs_interval_is_carried_through() -> None:
    told = advice(180.0, restart=30.0)
    assert told.in_use.low == pytest.approx(goodput(180, 1, 30, 720 * 0.54))
    assert told.in_use.high == pytest.approx(goodput(180, 1, 30, 720 * 2.09))
    assert told.best.low == pytest.approx(goodput(optimum(1, 720), 1, 30, 720 * 0.54))
    assert told.best_range_s == pytest.approx((float(optimum(1, 720 * 0.54)), float(optimum(1, 720 * 2.09))))


@pytest.mark.parametrize("tau", [18.7, 37.28, 74.5])
def test_inside_the_flat_top_nothing_is_advised(tau: float) -> None:
    assert advice(tau, restart=5.0).kind == "flat_top"
    assert advice(tau, restart=5.0).gain_points < 1.3


def test_a_change_that_another_mtbf_in_the_interval_would_not_want_is_uncertain() -> None:
    assert advice(80.0).kind == "uncertain"
    assert advice(80.0, mtbf_interval_s=(700.0, 740.0)).kind == "change"


def test_saving_far_too_often_is_certain_even_before_the_first_failure() -> None:
    told = advice(3.0, mtbf=2_000.0, mtbf_interval_s=(333.0, math.inf))
    assert told.kind == "change"


def test_where_restarts_dominate_no_interval_helps() -> None:
    told = advice(37.28, restart=60.0)
    assert told.kind == "restarts_dominate"
    assert told.restart_points == pytest.approx(100 * (1 - math.exp(-60 / 720)))
    assert told.restart_points > told.interval_points


def test_restarts_and_interval_make_up_all_the_waste() -> None:
    told = advice(90.0, restart=22.0)
    assert told.restart_points + told.interval_points == pytest.approx(100 - 100 * told.in_use.goodput)


def test_random_restarts_enter_by_the_mean_of_what_survives_them() -> None:
    told = predicted_goodput(37.28, 1.0, [5.0, 25.0, 90.0], 720.0)
    assert told == pytest.approx(np.mean([float(goodput(37.28, 1, r, 720)) for r in (5, 25, 90)]))


def test_an_asynchronous_save_that_takes_longer_than_the_interval_costs_half() -> None:
    for persist, kept in ((0.92, 96.66), (5.0, 96.12), (17.0, 47.68)):
        told = advise(
            tau_s=8.5,
            cost_s=0.05,
            restarts_s=[15.0],
            mtbf_s=720.0,
            mtbf_interval_s=(700.0, 740.0),
            persist_s=persist,
        )
        assert 100 * told.in_use.goodput == pytest.approx(kept, abs=0.005)
        assert told.in_use.goodput == pytest.approx(asynchronous_goodput(8.5, 0.05, persist, 15, 720))
    assert told.kind == "change"
    assert told.best.tau_s == pytest.approx(17.0)


def test_the_mtbf_that_nobody_divided_keeps_half() -> None:
    told = undivided(870.0, cost_s=1.0, restarts_s=[30.0], mtbf_s=720.0)
    assert told is not None
    assert 100 * told.goodput == pytest.approx(49.27, abs=0.005)
    assert told.points == pytest.approx(100 * float(best_goodput(1, 30, 720)) - 49.27, abs=0.01)
    assert undivided(719.0, cost_s=1.0, restarts_s=[30.0], mtbf_s=720.0) is None
    assert undivided(870.0, cost_s=1.0, restarts_s=[30.0], mtbf_s=math.inf) is None
