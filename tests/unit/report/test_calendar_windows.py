"""A window's accounts are those of the run's time within it, to the microsecond."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tachograph_collector.ledger.books import ACCOUNTS
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.windows import clip
from unit.report import made_up
from unit.report.made_up import HOUR, MIN, START, S


def clipped(report: RunReport, since: int | None, until: int | None) -> RunReport:
    within = clip(report, Window(since, until))
    assert within is not None
    return within


def test_a_window_around_the_run_changes_nothing_but_says_that_it_was_there() -> None:
    report = made_up.three_attempts()
    within = clipped(report, 0, 10**18)
    assert within.books.accounts_us == report.books.accounts_us
    assert within.books.subs_us == report.books.subs_us
    assert within.books.lost_by_cause_us == report.books.lost_by_cause_us
    assert within.books.at_risk_us == report.books.at_risk_us
    assert within.books.num_minutes == report.books.num_minutes
    assert within.details == report.details
    assert (within.books.num_failures, within.books.num_planned_stops, within.books.num_rollbacks) == (1, 1, 1)
    assert within.steps == report.steps


def test_windows_side_by_side_sum_to_the_run() -> None:
    report = made_up.three_attempts()
    rng = random.Random(11)
    books = report.books
    cuts = sorted(rng.randrange(books.start_us, books.end_us) for _ in range(9))
    edges = [None, *cuts, None]
    parts = [clipped(report, a, b) for a, b in pairwise(edges)]
    for account in ACCOUNTS:
        assert sum(part.books.accounts_us[account] for part in parts) == books.accounts_us[account]
    assert sum(part.books.wall_us for part in parts) == books.wall_us
    assert sum(part.books.num_failures for part in parts) == 1
    assert sum(len(part.details.interruptions) for part in parts) == 3
    assert sum(part.books.at_risk_us or 0 for part in parts) == books.at_risk_us
    for part in parts:
        for account in ACCOUNTS:
            by_minute = sum(getattr(minute, f"{account}_us") for minute in part.details.minutes)
            assert by_minute == part.books.accounts_us[account]


def test_the_denominator_is_the_runs_time_within_the_window() -> None:
    within = clipped(made_up.clean(), START + HOUR, START + 100 * HOUR)
    assert within.books.wall_us == HOUR
    assert within.books.goodput == 1.0


def test_a_minute_that_the_edge_cuts_keeps_only_what_lies_within() -> None:
    within = clipped(made_up.three_attempts(), START + 10 * MIN - 20 * S, START + 10 * MIN + 30 * S)
    assert [(m.start_us, m.kept_us, m.restart_us, m.label) for m in within.details.minutes] == [
        (START + 9 * MIN, 0, 20 * S, "restart"),
        (START + 10 * MIN, 30 * S, 0, "kept"),
    ]
    assert within.books.num_minutes == {"kept": 1, "checkpoint": 0, "lost": 0, "restart": 1}


def test_an_edge_within_one_minute_on_both_sides_counts_it_once() -> None:
    within = clipped(made_up.clean(), START + 10 * MIN + 10 * S, START + 10 * MIN + 25 * S)
    assert [minute.kept_us for minute in within.details.minutes] == [15 * S]
    assert within.books.wall_us == 15 * S


def test_gpu_hours_are_told_where_the_world_sizes_explain_the_whole_run_and_unknown_where_not() -> None:
    steady = clipped(made_up.clean(world=8), START + HOUR, None)
    assert steady.books.gpu is not None
    assert steady.books.gpu.held == 8 * HOUR
    elastic = clipped(made_up.three_attempts(), START + HOUR, None)
    assert elastic.books.gpu is None
    assert any("GPU-hours of the window are unknown" in note for note in elastic.notes)


def test_what_happened_outside_is_not_counted_and_losses_are_cut_too() -> None:
    report = made_up.three_attempts()
    within = clipped(report, START + 5 * HOUR, START + 7 * HOUR)
    assert (within.books.num_attempts, within.books.num_failures, within.books.num_planned_stops) == (1, 0, 0)
    assert [it.how for it in within.details.interruptions] == ["rollback"]
    assert within.books.lost_by_cause_us == {"loss_spike": 20 * MIN + 30 * S}
    assert [save.step for save in within.details.checkpoints] == [5_000]
    assert within.loss_points
    assert all(START + 5 * HOUR <= point[0] < START + 7 * HOUR for point in within.loss_points)


@pytest.mark.parametrize("window", [Window(None, START), Window(START + 99 * HOUR, None), Window(0, 1)])
def test_a_run_without_time_in_the_window_is_not_there(window: Window) -> None:
    assert clip(made_up.three_attempts(), window) is None
