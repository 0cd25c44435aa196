"""What a run's own noise says of how far out a lone point may lie."""

from __future__ import annotations

import numpy as np
import pytest
from tachograph_collector.detect.tail import FEWEST_POINTS, MAX_POINTS, Tail, weissman


def told(values: np.ndarray) -> Tail:
    tail = Tail()
    for value in values:
        tail.add(float(value))
    return tail


def test_the_worked_number() -> None:
    assert weissman([4, 5, 6, 8, 10], 1000, 50_000) == pytest.approx(18.05, abs=0.01)


def test_heavy_tails_reach_further_than_gaussian_ones_by_about_what_they_do() -> None:
    rng = np.random.default_rng(3)
    heavy = told(rng.standard_t(4, 15_000)).once_in(50_000)
    gaussian = told(rng.standard_normal(15_000)).once_in(50_000)
    assert heavy is not None
    assert 15 < heavy < 25
    assert gaussian is not None
    assert 4.1 < gaussian < 10


def test_few_points_say_nothing() -> None:
    assert told(np.ones(FEWEST_POINTS - 1)).once_in(50_000) is None
    assert told(np.zeros(FEWEST_POINTS + 1)).once_in(50_000) is None


def test_what_is_held_stays_bounded_and_what_is_long_ago_is_forgotten() -> None:
    rng = np.random.default_rng(4)
    tail = told(rng.standard_t(4, 3 * MAX_POINTS))
    wide = tail.once_in(50_000)
    for value in rng.standard_normal(12 * MAX_POINTS):
        tail.add(float(value))
    narrow = tail.once_in(50_000)
    assert tail.num < MAX_POINTS
    assert len(tail.top) <= 66
    assert wide is not None
    assert narrow is not None
    assert narrow < 0.7 * wide
