"""The loss curve: bounded, of one rank, and still the shape of the run."""

from __future__ import annotations

import math
from itertools import pairwise

from tachograph_agent.events import Step
from tachograph_collector.cli.losscurve import LossCurve


def test_few_losses_are_all_kept_and_those_that_are_no_numbers_are_left_out() -> None:
    curve = LossCurve()
    for number, loss in enumerate([2.5, math.nan, None, math.inf, 2.25], 1):
        curve.add(Step(t=float(number), step=number, loss=loss))
    assert curve.points() == [(1_000_000, 1, 2.5), (5_000_000, 5, 2.25)]


def test_a_million_losses_stay_within_the_bound_and_reach_from_the_beginning_to_the_end() -> None:
    curve = LossCurve(max_points=100)
    for number in range(1, 100_001):
        curve.add(Step(t=float(number), step=number, loss=1 / number))
    steps = [step for _, step, _ in curve.points()]
    assert 50 <= len(steps) <= 100
    assert steps[0] < 5000
    assert steps[-1] > 95_000
    assert max(b - a for a, b in pairwise(steps)) <= 4096  # as dense at the beginning as at the end


def test_a_spike_of_one_step_among_a_million_is_still_there() -> None:
    curve = LossCurve(max_points=100)
    for number in range(1, 100_001):
        curve.add(Step(t=float(number), step=number, loss={31_415: 99.0, 92_653: 0.0}.get(number, 2.0)))
    points = curve.points()
    assert (31_415_000_000, 31_415, 99.0) in points
    assert (92_653_000_000, 92_653, 0.0) in points


def test_the_lowest_rank_that_reports_a_loss_is_followed() -> None:
    curve = LossCurve()
    for number in (1, 2):
        for rank in (5, 0, 3):
            curve.add(Step(t=float(number), step=number, rank=rank, loss=float(rank)))
    assert [loss for _, _, loss in curve.points()] == [0.0, 0.0]
