"""Saves that are overdue, slow, never land or go backwards, and what retention leaves to go back to."""

from __future__ import annotations

import pytest
from detect_streams import RUN, T0, found, losses
from tachograph_agent.events import (
    CheckpointDeleted,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    Rollback,
    RunStart,
)
from tachograph_collector.detect import Detectors

STEP_S = 10.0
EVERY = 60
"""Steps between saves: ten minutes."""


def at(step):
    return T0 + STEP_S * step


def training(num):
    return losses([None] * num, step_s=STEP_S)


def sync(step, dur=4.0, **more):
    return [
        CheckpointStart(t=at(step) + 0.1, run=RUN, attempt=0, rank=0, step=step),
        CheckpointSaved(t=at(step) + 0.1 + dur, run=RUN, attempt=0, rank=0, step=step, dur=dur, **more),
    ]


def deferred(step, landed_after_s=60.0):
    saved = CheckpointSaved(t=at(step) + 1.0, run=RUN, attempt=0, rank=0, step=step, dur=0.9, mode="async")
    begin = CheckpointStart(t=at(step) + 0.1, run=RUN, attempt=0, rank=0, step=step, mode="async")
    if landed_after_s is None:
        return [begin, saved]
    return [begin, saved, CheckpointPersisted(t=at(step) + landed_after_s, run=RUN, attempt=0, rank=0, step=step)]


def saves(make, steps, **more):
    return [event for step in steps for event in make(step, **more)]


def kinds(incidents):
    return [(one.detector, one.severity) for one in incidents]


def test_saves_as_usual_are_nothing_to_say():
    assert found([*training(600), *saves(sync, range(60, 600, EVERY))]) == []
    assert found([*training(600), *saves(deferred, range(60, 600, EVERY))]) == []


def test_a_save_is_overdue_after_twice_the_interval_but_half_an_hour_at_least():
    events = [RunStart(t=T0, run=RUN, world_size=64), *training(800), *saves(sync, range(60, 361, EVERY))]
    (incident,) = found(events)
    assert kinds([incident]) == [("checkpoint_overdue", "critical")]
    landed_us = round((at(360) + 4.1) * 1e6)
    assert (incident.opened_us, incident.found_us) == (landed_us, landed_us + 1_800_000_000)
    at_risk_s = (incident.updated_us - incident.opened_us) / 1e6
    assert at_risk_s == pytest.approx(at(800) - at(360) - 4.1, abs=62)
    assert incident.evidence.more["at_risk_gpu_hours"] == pytest.approx(at_risk_s * 64 / 3600)
    assert incident.cost.gpu_hours == pytest.approx(at_risk_s * 64 / 3600)


def test_what_is_overdue_is_over_when_one_lands_or_the_attempt_ends():
    events = [*training(800), *saves(sync, range(60, 361, EVERY))]
    (landed,) = found([*events, *sync(700)])
    assert landed.outcome == "recovered"
    (died,) = found([*events, Failure(t=at(800) + 1, run=RUN, category="gpu")])
    assert died.outcome == "attempt ended"


def test_a_planned_interval_counts_before_any_save_and_without_one_nothing_is_overdue():
    planned = RunStart(t=T0, run=RUN, planned_interval_s=1200.0)
    assert kinds(found([planned, *training(300)])) == [("checkpoint_overdue", "critical")]
    assert found(training(300)) == []
    unseen = RunStart(t=T0, run=RUN, planned_interval_s=1200.0, checkpoints="unseen")
    detectors = Detectors()
    detectors.add([unseen, *training(300)])
    assert detectors.look() == []
    assert detectors.sights(RUN)["checkpoint_overdue"].state == "blind"


def test_a_save_three_times_slower_than_usual_is_one_incident_that_the_next_one_ends():
    events = [*training(700), *saves(sync, range(60, 361, EVERY)), *sync(420, dur=30.0), *saves(sync, (480, 540, 600))]
    (incident,) = found(events)
    assert kinds([incident]) == [("checkpoint_slow", "warning")]
    assert (incident.evidence.value, incident.evidence.baseline) == (pytest.approx(30), pytest.approx(4))
    assert incident.outcome == "recovered"


def test_a_save_that_failed_says_which_is_left():
    failed = CheckpointFailed(t=at(420) + 50, run=RUN, attempt=0, rank=0, step=420, error="disk full")
    events = [*training(500), *saves(deferred, range(60, 361, EVERY)), *deferred(420, None), failed]
    (incident,) = found([*events, *deferred(480)])
    assert kinds([incident]) == [("checkpoint_not_landed", "warning")]
    assert "failed (disk full)" in incident.summary
    assert incident.evidence.more["newest_landed_step"] == 360
    assert incident.outcome == "a later save landed"


def test_saves_that_are_never_told_to_land_are_given_up_after_half_an_hour():
    events = [*training(800), *saves(deferred, range(60, 361, EVERY)), *deferred(420, None)]
    incidents = found(events)
    (lost,) = [one for one in incidents if one.detector == "checkpoint_not_landed"]
    assert lost.found_us == round((at(420) + 0.1 + 1800) * 1e6)
    assert "step 420 was saved and never landed" in lost.summary


def test_a_save_that_is_overtaken_never_landed():
    events = [
        *training(600),
        *saves(deferred, range(60, 361, EVERY)),
        *deferred(420, None),
        *saves(deferred, (480, 540)),
    ]
    (incident,) = found(events)
    assert "step 420 was overtaken" in incident.summary


def test_a_save_that_takes_longer_to_land_than_the_interval_is_a_warning():
    events = [*training(700), *saves(deferred, range(60, 541, EVERY)), *deferred(600, landed_after_s=700.0)]
    assert kinds(found(events)) == [("checkpoint_persist", "warning")]


def test_saves_of_many_ranks_are_one_save():
    events = [*training(600), *saves(sync, range(60, 600, EVERY))]
    for event in list(events):
        if isinstance(event, CheckpointStart | CheckpointSaved):
            twin = type(event)(t=event.t + 0.5, run=RUN, attempt=0, rank=1, step=event.step)
            events.append(twin)
    assert found(events) == []


def test_a_step_number_that_goes_back_is_a_warning_but_after_a_rollback_it_is_not():
    events = [*training(350), *saves(sync, (60, 120, 180, 240))]
    back = CheckpointSaved(t=at(300), run=RUN, attempt=0, rank=0, step=150, dur=4.0)
    assert kinds(found([*events, back])) == [("checkpoint_backwards", "warning")]
    rolled = [
        *training(240),
        *saves(sync, (60, 120, 180)),
        Rollback(t=at(240) + 1, run=RUN, attempt=0, to_step=120, reason="operator"),
        *losses([None] * 100, step_s=STEP_S, first_step=121, t0=at(240) + 1),
        CheckpointSaved(t=at(240) + 305, run=RUN, attempt=0, rank=0, step=150, dur=4.0),
    ]
    assert found(rolled) == []


def kept(hours, num_kept):
    """A save each hour of which only the newest few are kept."""
    steps = [360 * hour for hour in range(1, hours + 1)]
    events = [*losses([None] * (36 * hours + 10), step_s=100.0), *saves(sync, ())]
    for place, step in enumerate(steps):
        saved_at = T0 + 10.0 * step + 1
        events.append(CheckpointSaved(t=saved_at, run=RUN, attempt=0, rank=0, step=step // 10, dur=1.0))
        if place >= num_kept:
            events.append(CheckpointDeleted(t=saved_at + 1, run=RUN, step=steps[place - num_kept] // 10))
    return events


def test_retention_that_reaches_back_less_than_six_hours_is_a_warning():
    (incident,) = found(kept(12, 3))
    assert kinds([incident]) == [("retention", "warning")]
    assert incident.evidence.more["reach_storage_s"] == pytest.approx(2 * 3600, rel=0.01)
    assert incident.cleared_us is None


def test_retention_that_reaches_back_far_enough_and_young_runs_are_fine():
    assert found(kept(12, 8)) == []
    assert found(kept(5, 2)) == []


def test_a_lone_blocking_save_among_deferred_ones_is_not_slow_but_falling_back_to_them_is():
    events = [*training(700), *saves(deferred, range(60, 361, EVERY))]
    stop = sync(420, dur=30.0)
    assert found([*events, *stop, *saves(deferred, (480, 540))]) == []
    fell_back = found([*events, *stop, *saves(sync, (480, 540), dur=30.0)])
    assert kinds(fell_back) == [("checkpoint_slow", "warning")]
    assert fell_back[0].found_us == round((at(480) + 30.1) * 1e6)
