"""The simulators show the model's reference numbers.

Goodput in percent. Numbers that are stated to one decimal are met within 0.06 (their rounding, and a hundredth for
their having been simulated themselves) and four standard errors of ours, of at most 0.03 each unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tachograph_collector.model import theory
from tachograph_collector.model.simulate import (
    Corruption,
    Design,
    Elastic,
    Failures,
    Outcome,
    Retention,
    Spares,
    simulate,
)

MINUTE = 60.0
DAY = 86_400.0
ROUNDING = 0.06
LARGEST_ERROR = 0.03


def simulated(design: Design, failures: Failures, num_runs: int = 10_000, days: float = 30, seed: int = 1) -> Outcome:
    return simulate(design, failures, duration_s=days * DAY, num_runs=num_runs, seed=seed)


def shows(outcome: Outcome, percent: float, largest_error: float = LARGEST_ERROR) -> bool:
    error = 100 * outcome.standard_error
    return error < largest_error and abs(100 * outcome.goodput - percent) < ROUNDING + 4 * error


def ladder(mtbf_s: float) -> Sequence[Design]:
    """C = 1, R = 30 = 10 + 12 + 3 + 5 minutes; what each row changes."""
    best_s, best_async_s = (float(theory.optimum(cost_s, mtbf_s)) for cost_s in (60.0, 3.0))
    every_3_h = Design(
        interval_s=180 * MINUTE,
        blocking_s=MINUTE,
        detect_s=10 * MINUTE,
        replace_s=12 * MINUTE,
        reload_s=3 * MINUTE,
        warmup_s=5 * MINUTE,
        nodes=128,
    )
    asynchronous = replace(every_3_h, interval_s=best_async_s, blocking_s=0.05 * MINUTE, persist_s=0.92 * MINUTE)
    watched = replace(asynchronous, detect_s=0.5 * MINUTE)
    spared = replace(
        watched,
        spares=Spares(2, swap_s=0.5 * MINUTE, charged=False),
        warmup_s=3.8 * MINUTE,
        peer_share=0.95,
        peer_reload_s=0.8 * MINUTE,
    )
    return every_3_h, replace(every_3_h, interval_s=best_s), asynchronous, watched, spared


@pytest.mark.parametrize(
    ("tau", "cost", "restart", "mtbf"),
    [(37.28, 1, 15, 720), (19, 1, 15, 720), (75, 1, 15, 720), (180, 1, 30, 720), (870, 1, 30, 720), (20, 0, 30, 180)],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_blocking_runs_agree_with_the_closed_form(
    tau: float, cost: float, restart: float, mtbf: float, seed: int
) -> None:
    """|z| < 4 with 200 runs of half a year, which is what makes the runs' ends not count."""
    design = Design(interval_s=tau * MINUTE, blocking_s=cost * MINUTE, replace_s=restart * MINUTE)
    outcome = simulated(design, Failures(mtbf * MINUTE), num_runs=200, days=180, seed=seed)
    z = (outcome.goodput - float(theory.goodput(tau, cost, restart, mtbf))) / outcome.standard_error
    assert abs(z) < 4
    low, high = outcome.goodput_interval()
    assert high - low == pytest.approx(2 * 1.972 * outcome.standard_error, rel=1e-3)
    assert low < outcome.goodput < high


@pytest.mark.parametrize("persist", [0.92, 5, 17])
def test_asynchronous_runs_agree_with_the_closed_form(persist: float) -> None:
    design = Design(
        interval_s=8.5 * MINUTE, blocking_s=0.05 * MINUTE, persist_s=persist * MINUTE, replace_s=15 * MINUTE
    )
    outcome = simulated(design, Failures(720 * MINUTE), num_runs=200, days=180)
    expected = float(theory.asynchronous_goodput(8.5, 0.05, persist, 15, 720))
    assert abs(outcome.goodput - expected) < 4 * outcome.standard_error


def test_a_save_that_is_skipped_makes_the_interval_longer_instead() -> None:
    design = Design(interval_s=8.5 * MINUTE, blocking_s=3, persist_s=17 * MINUTE, overrun="skip", replace_s=15 * MINUTE)
    outcome = simulated(design, Failures(720 * MINUTE), num_runs=400, days=180)
    # The first save after each restart is not late yet, which is worth a little.
    expected = float(theory.asynchronous_goodput(17, 0.05, 17, 15, 720))
    assert expected - 4 * outcome.standard_error < outcome.goodput < expected + 0.001 + 4 * outcome.standard_error


@pytest.mark.parametrize(
    ("hours", "percents"),
    [(6, (70.4, 85.3, 90.2, 92.7, 96.6)), (12, (83.9, 91.0, 94.7, 95.9, 97.9)), (50, (95.5, 96.5, 98.4, 98.7, 99.2))],
)
def test_the_ladder_shows_its_reference_numbers(hours: float, percents: Sequence[float]) -> None:
    mtbf_s = hours * 3600.0
    for design, percent in zip(ladder(mtbf_s), percents, strict=True):
        assert shows(simulated(design, Failures(mtbf_s)), percent), design


@pytest.mark.parametrize(("count", "percent"), [(2, 96.4), (4, 95.0)])
def test_charged_spares_cost_what_they_are(count: int, percent: float) -> None:
    design = replace(ladder(720 * MINUTE)[4], spares=Spares(count, swap_s=0.5 * MINUTE, charged=True))
    assert shows(simulated(design, Failures(720 * MINUTE)), percent)


CLUSTERED = Failures(720 * MINUTE, cluster_probability=0.3, cluster_within_s=20 * MINUTE)
PLANNED = Design(interval_s=37.28 * MINUTE, blocking_s=MINUTE, replace_s=15 * MINUTE)


def test_clusters_leave_a_goodput_that_the_raw_mean_gap_gets_wrong() -> None:
    outcome = simulated(PLANNED, CLUSTERED)
    assert shows(outcome, 92.3)
    assert CLUSTERED.mean_gap_s / MINUTE == pytest.approx(507)
    raw_mean_gap_s = outcome.wall_us / 1e6 / float(np.mean(outcome.num_failures))
    assert raw_mean_gap_s / MINUTE == pytest.approx(507, rel=0.01)
    wrong = float(theory.best_goodput(1, 15, 507))
    assert 100 * wrong == pytest.approx(91.1, abs=0.05)
    assert outcome.goodput - wrong > 0.01


@pytest.mark.parametrize("other", [float(theory.optimum(1, 507)), 45.0, 19.0, 75.0])
def test_clusters_leave_the_best_interval_unchanged(other: float) -> None:
    """The same failures strike both designs, so that their difference is far less uncertain than either."""
    best = simulated(PLANNED, CLUSTERED, num_runs=20_000)
    worse = simulated(replace(PLANNED, interval_s=other * MINUTE), CLUSTERED, num_runs=20_000)
    gains = best.goodputs - worse.goodputs
    assert gains.mean() > 2 * gains.std() / len(gains) ** 0.5


@pytest.mark.parametrize(
    ("detection", "retention", "percent", "largest_error", "own_error"),
    [
        (30, Retention(20, 6 * 3600.0), 97.8, 0.03, 0.0),
        (360, Retention(20, 6 * 3600.0), 93.2, 0.06, 0.0),
        # Whole runs are lost or not: a run's goodput has a standard deviation of 22 points, so that a figure from 200
        # runs is 1.6 points off by itself. Two of these are granted to it.
        (30, Retention(1), 25, 0.5, 3.2),
        (360, Retention(1), 22, 0.5, 3.2),
    ],
)
def test_corruption_costs_what_its_detection_and_the_ladder_of_saves_make_it_cost(
    detection: float, retention: Retention, percent: float, largest_error: float, own_error: float
) -> None:
    """R = 5 holds all that a failure takes beyond its lost interval, the write of the last save included."""
    design = Design(interval_s=8.5 * MINUTE, blocking_s=3, persist_s=0, reload_s=5 * MINUTE, retention=retention)
    failures = Failures(720 * MINUTE, corruption=Corruption(7 * DAY, detection * MINUTE))
    outcome = simulated(design, failures, num_runs=2500)
    error = 100 * outcome.standard_error
    assert error < largest_error
    assert abs(100 * outcome.goodput - percent) < ROUNDING + own_error + 4 * error
    if retention.last == 1:
        # The next can strike once the last has been noticed, and one that was not noticed by the end isn't counted.
        assert np.mean(outcome.num_from_scratch) == pytest.approx(30 / (7 + detection / 1440), rel=0.03)


def test_a_runs_goodput_over_30_days_varies_by_0_6_points_and_over_a_day_by_3_4() -> None:
    month, day = (simulated(PLANNED, Failures(720 * MINUTE), num_runs=5000, days=days) for days in (30, 1))
    assert 100 * np.std(month.goodputs) == pytest.approx(0.6, abs=0.05)
    # A simulated day begins with training; a day out of a long run can begin in a restart, and varies a little more.
    assert 100 * np.std(day.goodputs) == pytest.approx(3.4, abs=0.15)


def test_elastic_runs_are_worth_more_than_waiting_where_replacement_takes_hours() -> None:
    waiting = replace(PLANNED, replace_s=4 * 3600.0)
    elastic = replace(waiting, elastic=Elastic(replicas=8, min_replicas=4, reconfigure_s=60))
    wait, go_on = (simulated(design, Failures(720 * MINUTE), num_runs=2000) for design in (waiting, elastic))
    # Seven replicas of eight for 4 h and to the next save, instead of none: 7/8 of the waiting is won, less the rejoin.
    assert go_on.goodput - wait.goodput == pytest.approx(0.19, abs=0.03)
    assert np.all(go_on.useful_us <= go_on.kept_us)
    assert np.mean(go_on.useful_us) < np.mean(go_on.kept_us)
