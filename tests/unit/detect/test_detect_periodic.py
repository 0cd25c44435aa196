"""A slow step every so many steps is said once, with period and cost, unless saves or evaluations explain it."""

from __future__ import annotations

import numpy as np
import pytest
from detect_streams import RUN, T0, found, live
from tachograph_agent.events import AttemptStart, CheckpointSaved, Phase, RunStart, Step


def training(slow_at, num=1_200, *, step_s=2.0, slow_s=10.0, seed=1, attempt=0, t0=T0, first=1):
    """Steps that take 2 s, and 10 s where ``slow_at`` says so; also when each ended."""
    rng = np.random.default_rng(seed)
    events, ends, t = [], {}, t0
    for step in range(first, first + num):
        dur = (slow_s if slow_at(step) else step_s) * (1 + 0.02 * rng.standard_normal())
        t += dur
        ends[step] = t
        events.append(Step(t=t, run=RUN, attempt=attempt, rank=0, step=step, dur=dur))
    return events, ends


def periodic(events):
    return [one for one in found(events) if one.detector == "periodic_slow"]


def test_a_slow_step_in_fifty_is_one_incident_with_its_period_and_its_cost() -> None:
    events, ends = training(lambda step: step % 50 == 0)
    price = RunStart(t=T0, run=RUN, world_size=100, price_per_gpu_hour=2.0)
    incidents = found([price, *events])
    assert [one.detector for one in incidents] == ["periodic_slow"]
    (one,) = incidents
    assert one.evidence.more["period_steps"] == 50
    assert one.opened_us == round(ends[100] * 1e6)  # the first after warm-up
    assert one.found_us <= round(ends[450] * 1e6)
    num = one.evidence.num_samples
    assert one.cost.wall_s == pytest.approx(8.0 * num, rel=0.05)
    assert one.cost.money == pytest.approx(one.cost.wall_s * 100 / 3600 * 2.0)
    assert one.evidence.more["share_of_time"] == pytest.approx(8 / 108, rel=0.05)
    assert one.severity == "warning"
    assert "every 50 steps" in one.summary


def test_what_costs_little_is_told_as_info_and_what_costs_nearly_nothing_is_not() -> None:
    little, _ = training(lambda step: step % 100 == 0, slow_s=6.0)
    assert [one.severity for one in periodic(little)] == ["info"]
    nothing, _ = training(lambda step: step % 100 == 0, slow_s=3.2)
    assert periodic(nothing) == []


@pytest.mark.parametrize("told", ["before the step ends", "after the step has ended"])
@pytest.mark.parametrize("what", ["save", "eval"])
def test_saves_and_evaluations_explain_slow_steps(what, told) -> None:
    events, ends = training(lambda step: step % 50 == 0)
    for step in range(50, 1_201, 50):
        at = ends[step] - 0.5 if told.startswith("before") else ends[step] + 0.1
        if what == "save":
            events.append(CheckpointSaved(t=at, run=RUN, attempt=0, rank=0, step=step - 1, dur=7.0))
        else:
            events.append(Phase(t=at, run=RUN, attempt=0, rank=0, name="eval", dur=7.0))
    assert periodic(events) == []


@pytest.mark.parametrize("every", [40, 50])
def test_saves_do_not_hide_another_period(every) -> None:
    events, ends = training(lambda step: step % 20 == 0 or step % every == 0, 600)
    events += [
        CheckpointSaved(t=ends[step] - 0.5, run=RUN, attempt=0, rank=0, step=step - 1, dur=7.0)
        for step in range(every, 600, every)
    ]
    (one,) = periodic(events)
    assert one.evidence.more["period_steps"] == 20


def test_slow_steps_without_a_period_are_none() -> None:
    for seed in range(10):
        at = set(np.random.default_rng(seed).choice(np.arange(50, 1_200), 60, replace=False).tolist())
        events, _ = training(lambda step, at=at: step in at, seed=seed)
        assert periodic(events) == []


def test_it_is_over_when_it_stops_and_can_come_again() -> None:
    events, ends = training(lambda step: step % 20 == 0 and not 500 < step <= 800)
    first, second = periodic(events)
    assert ends[500] * 1e6 < first.cleared_us <= ends[565] * 1e6
    assert second.opened_us == round(ends[820] * 1e6)


def test_a_new_attempt_starts_afresh() -> None:
    events, ends = training(lambda step: step % 20 == 0, 400)
    again, _ = training(lambda step: False, 400, attempt=1, t0=ends[400] + 60, first=401)
    start = AttemptStart(t=ends[400] + 30, run=RUN, attempt=1, resume_step=400)
    (one,) = periodic([*events, start, *again])
    assert one.outcome == "attempt ended"


def test_looking_every_second_with_restarts_finds_the_same() -> None:
    events, _ = training(lambda step: step % 30 == 0, 400)
    told = [
        change.incident
        for change in live(events, 40.0, restart_every=3)
        if change.incident.detector == "periodic_slow" and change.what == "opened"
    ]
    assert [(one.incident_id, one.found_us) for one in told] == [
        (one.incident_id, one.found_us) for one in periodic(events)
    ]
