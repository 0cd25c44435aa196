"""The predictive band holds a healthy window's goodput as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from healthy_runs import timeline
from tachograph_collector.model.band import Band, predictive_band
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.mtbf import RateBelief, rate_belief

DAY = 1440.0
DESIGN = {"tau": 37.28, "cost": 1.0, "restart": 15.0, "mtbf": 720.0}
KNOWN = RateBelief(1e9, 720e9)
"""The true rate, all but certain."""


def band(belief: RateBelief, window: float, **changes: object) -> Band:
    settings: dict[str, object] = {
        "window_s": window,
        "tau_s": 37.28,
        "costs_s": [1.0],
        "restarts_s": [15.0],
        "startup_s": 0.0,
    }
    return predictive_band(belief, **{**settings, **changes})  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(("days", "simulated"), [(1.0, True), (7.0, True), (14.0, False)])
def test_nine_of_ten_healthy_windows_lie_in_a_ninety_percent_band_learnt_from_the_past(
    days: float, simulated: bool
) -> None:
    past = 10 * DAY
    window = days * DAY
    future = timeline(21, 400, window, **DESIGN).look(window).kept / window
    num_past = np.random.default_rng(22).poisson(past / 720, 400)
    bands = [
        band(rate_belief(int(num), past), window, coverage=0.9, seed=i, num_draws=800) for i, num in enumerate(num_past)
    ]
    inside = [told.low <= share <= told.high for told, share in zip(bands, future, strict=True)]
    assert 0.86 <= np.mean(inside) <= 0.96
    assert (np.mean([told.simulated for told in bands]) > 0.5) == simulated


@pytest.mark.parametrize("days", [1.0, 5.0])
def test_simulated_windows_are_distributed_like_real_ones(days: float) -> None:
    window = days * DAY
    real = timeline(23, 20_000, window, **DESIGN).look(window).kept / window
    told = band(KNOWN, window, num_draws=20_000, coverage=0.9)
    assert told.simulated
    assert (told.low, told.high) == pytest.approx(tuple(np.quantile(real, [0.05, 0.95])), abs=0.004)
    assert told.mean == pytest.approx(real.mean(), abs=0.001)


def test_asynchronous_windows_too() -> None:
    design = {"tau": 8.5, "cost": 0.05, "restart": 15.0, "mtbf": 720.0, "persist": 0.92}
    real = timeline(24, 20_000, DAY, **design).look(DAY).kept / DAY
    told = band(KNOWN, DAY, tau_s=8.5, costs_s=[0.05], persist_s=0.92, num_draws=20_000)
    assert (told.mean, told.deviation) == pytest.approx((real.mean(), real.std()), abs=0.001)


def test_a_healthy_day_has_a_standard_deviation_of_over_three_points() -> None:
    assert 100 * band(KNOWN, DAY, num_draws=20_000).deviation == pytest.approx(3.4, abs=0.15)


def test_below_twenty_mtbfs_the_band_is_never_normal() -> None:
    assert band(KNOWN, 19.9 * 720).simulated
    assert not band(KNOWN, 20.1 * 720).simulated


def test_where_simulation_ends_and_the_normal_band_begins_they_agree() -> None:
    below, above = (band(KNOWN, share * 720, num_draws=10_000) for share in (19.99, 20.01))
    assert (below.low, below.high) == pytest.approx((above.low, above.high), abs=0.003)


def test_few_failures_make_a_wide_band() -> None:
    few, many = (band(rate_belief(num, num * 720.0), DAY) for num in (1, 100))
    assert few.high - few.low > many.high - many.low


def test_a_window_in_the_middle_of_a_run_may_begin_in_any_interval() -> None:
    told = band(KNOWN, DAY, startup_s=None, num_draws=20_000)
    whole = timeline(25, 20_000, 3 * DAY, **DESIGN)
    later = whole.look(2 * DAY).kept - whole.look(1 * DAY).kept
    assert told.mean == pytest.approx(np.mean(later) / DAY, abs=0.003)


def test_the_same_seed_gives_the_same_band() -> None:
    assert band(KNOWN, DAY, seed=3) == band(KNOWN, DAY, seed=3)


def test_values_that_make_no_sense_are_named() -> None:
    with pytest.raises(ModelError, match="restarts_s"):
        band(KNOWN, DAY, restarts_s=[])
    with pytest.raises(ModelError, match="coverage is 1"):
        band(KNOWN, DAY, coverage=1.0)
