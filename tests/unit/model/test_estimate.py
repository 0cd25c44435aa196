"""The model's numbers, measured from logs whose numbers are known."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from event_runs import DAY, RUN, START, Design, booked
from tachograph_agent.events import RunStart
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.estimate import Measured, measure


def measured(design: Design, seed: int = 0) -> Measured:
    told = measure(*booked(design, seed))
    assert told is not None
    return told


def test_every_number_is_measured_with_how_often() -> None:
    told = measured(Design(days=3, failures=[DAY, 2 * DAY]))
    assert told.interval_s == pytest.approx(2_240)
    assert told.mean_cost_s == pytest.approx(60)
    assert told.restart.mean_s == pytest.approx(900, abs=1)
    assert sum(told.restart_parts.values()) == pytest.approx(900, abs=1)
    assert told.startup_s == pytest.approx(900, abs=1)
    assert told.restart.num == 2
    assert told.tau.num == told.cost.num > 100
    assert told.persist.num == 0
    assert not told.is_async
    assert told.raw_mtbf.num_failures == told.incident_mtbf.num_failures == 2
    assert told.mtbf_s == pytest.approx(1.5 * DAY, abs=1)
    assert told.mtbf_interval_s == (told.incident_mtbf.low_s, told.incident_mtbf.high_s)


def test_asynchronous_saves_block_briefly_and_persist_later() -> None:
    told = measured(Design(days=1, tau=510, cost=3, persist=55, failures=[]))
    assert told.is_async
    assert (told.mean_cost_s, told.mean_persist_s) == pytest.approx((3, 55))
    assert told.interval_s == pytest.approx(510)


def test_planned_down_time_is_no_exposure() -> None:
    away = measured(Design(days=3, failures=[DAY], planned={2 * DAY: 36_000.0}))
    stayed = measured(Design(days=3, failures=[DAY]))
    # The machines were away for ten hours, and the restart after that was planned too.
    assert stayed.exposure_s - away.exposure_s == pytest.approx(36_000 + 899, abs=120)
    assert away.restart.num == stayed.restart.num == 1
    assert away.raw_mtbf.num_failures == 1


def test_a_save_that_did_not_land_makes_one_interval_longer_and_no_other() -> None:
    told = measured(Design(days=7, failing_saves=0.1, failures=[]), seed=3)
    assert told.interval_s == pytest.approx(2_240)
    assert told.tau.range_s is not None
    assert told.tau.range_s[1] >= 2 * 2_240 - 1


def test_follow_ups_join_their_incident_and_both_counts_are_told() -> None:
    told = measured(Design(days=4, failures=[DAY, DAY + 950.0, DAY + 3_000.0, 3 * DAY]))
    assert told.raw_mtbf.num_failures == 4
    assert told.incident_mtbf.num_failures == 2
    assert [len(one.stops) for one in told.incidents] == [3, 1]
    assert told.incident_down.num == 2
    assert told.incident_down.range_s == pytest.approx((900, 3_000 + 900), abs=60)


def test_an_interval_far_too_long_does_not_make_one_incident_of_all_failures() -> None:
    failures = [i * 40_000.0 for i in range(1, 60)]
    told = measured(Design(days=30, tau=52_200, records=400, failures=failures))
    assert told.incident_mtbf.num_failures == 59


def test_a_plan_is_a_prior_worth_one_failure() -> None:
    design = Design(days=2, failures=[DAY], start=RunStart(t=START, run=RUN, planned_mtbf_s=0.6 * DAY))
    told = measured(design)
    assert told.mtbf_s == pytest.approx((2 + 0.6) * DAY / 2, abs=1)
    other = measure(*booked(design), planned_mtbf_s=1.0 * DAY)
    assert other is not None
    assert other.mtbf_s == pytest.approx((2 + 1) * DAY / 2, abs=1)


def test_without_a_failure_the_mtbf_has_a_lower_bound_only() -> None:
    told = measured(Design(days=3, failures=[]))
    assert told.mtbf_s is None
    assert told.mtbf_interval_s == (pytest.approx(DAY, rel=0.002), math.inf)
    assert told.restart_is_guess
    assert told.restarts_s == pytest.approx([900], abs=1)


def test_a_run_that_only_started_has_nothing_to_measure() -> None:
    ledger = Ledger()
    ledger.add([RunStart(t=START, run=RUN)])
    assert measure(ledger.books(RUN), ledger.details(RUN)) is None


def test_what_is_measured_does_not_depend_on_how_often_steps_are_told() -> None:
    few, many = (measured(Design(days=3, records=num), seed=5) for num in (1, 16))
    assert np.allclose(
        [few.interval_s or 0, few.mean_cost_s or 0, few.mtbf_s or 0],
        [many.interval_s or 0, many.mean_cost_s or 0, many.mtbf_s or 0],
        rtol=0.001,
    )


def test_a_failure_before_which_the_next_attempt_was_at_work_held_nothing_up() -> None:
    """Parts of a log in the wrong order give attempts that overlap: one ends after the next has made its steps."""
    books, details = booked(Design(days=3, failures=[DAY]))
    overlapping = [msgspec.structs.replace(it, resumed_at_us=it.at_us - 7_200_000_000) for it in details.interruptions]
    told = measure(books, msgspec.structs.replace(details, interruptions=overlapping))
    assert told is not None
    assert told.restarts_s.tolist() == [0.0]
