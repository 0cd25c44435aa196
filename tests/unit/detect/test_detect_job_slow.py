"""A job that has become slower as a whole is one incident, with what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from detect_streams import RUN, T0, Slow, found, ranks
from tachograph_agent.events import RunStart, Step
from tachograph_collector.detect import Settings
from tachograph_collector.detect.settings import JobSlow


def steps(durations, *, first_step=1, attempt=0, t0=T0):
    """One rank that tells wall time only."""
    ends = t0 + np.cumsum(durations)
    return [
        Step(t=float(t), run=RUN, attempt=attempt, rank=0, step=first_step + place, dur=float(durations[place]))
        for place, t in enumerate(ends)
    ]


def noisy(num, step_s=2.0, *, noise=0.02, seed=1):
    return step_s * (1 + noise * np.random.default_rng(seed).standard_normal(num))


def test_a_job_that_slows_by_15_percent_is_found_within_five_minutes_and_cleared():
    durations = noisy(1800)
    durations[900:1300] *= 1.15
    (incident,) = found([RunStart(t=T0, run=RUN, world_size=8), *steps(durations)])
    slow_us = round((T0 + durations[:900].sum()) * 1e6)
    assert (incident.detector, incident.subject, incident.outcome) == ("job_slow", "run", "recovered")
    assert abs(incident.opened_us - slow_us) <= 120e6
    assert incident.found_us - slow_us <= 300e6
    assert incident.evidence.value / incident.evidence.baseline == pytest.approx(1.15, abs=0.04)
    assert incident.evidence.more["cost_s"] == pytest.approx(400 * 2 * 0.15, rel=0.3)


@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_noise_and_what_is_below_10_percent_is_not_flagged(factor):
    for seed in range(5):
        durations = noisy(3000, noise=0.05, seed=seed)
        durations[1500:] *= factor
        assert found(steps(durations)) == []


def wandering(num, step_s, *, imbalance=0.02, persistence=0.9, seed=1):
    """Step times whose noise wanders, as that of the slowest of many ranks with an uneven load does."""
    rng = np.random.default_rng(seed)
    state, told = 0.0, []
    for _ in range(num):
        state = persistence * state + np.sqrt(1 - persistence**2) * imbalance * rng.standard_normal()
        told.append(step_s * (1 + state))
    return np.array(told)


@pytest.mark.parametrize("seed", range(6))
def test_steps_of_a_minute_in_noise_that_wanders_are_no_slow_job(seed):
    assert found(steps(wandering(1440, 61.0, seed=seed))) == []


def test_the_noise_of_three_long_steps_is_a_slow_job_where_so_few_are_asked_for():
    few = Settings(job_slow=JobSlow(least_steps=1))
    assert any(found(steps(wandering(1440, 61.0, seed=seed)), few) for seed in range(6))


def test_a_job_of_long_steps_that_slows_is_found_within_a_quarter_of_an_hour_and_its_cost_is_what_it_lost():
    durations = noisy(240, 50.0)
    durations[120:] *= 1.2
    (incident,) = found([RunStart(t=T0, run=RUN, world_size=8), *steps(durations)])
    assert incident.detector == "job_slow"
    assert 0 < incident.found_us / 1e6 - (T0 + durations[:120].sum()) <= 900
    assert incident.cost.wall_s == pytest.approx(120 * 50 * 0.2, rel=0.2)


def test_two_slow_minutes_are_not_flagged():
    durations = noisy(1500)
    durations[900:930] *= 1.5
    assert found(steps(durations)) == []


def test_every_tenth_step_slow_is_not_a_slow_job():
    durations = noisy(1500)
    durations[700::10] *= 3
    assert [one.detector for one in found(steps(durations))] == ["periodic_slow"]


def test_a_new_attempt_of_another_size_has_its_own_baseline():
    first = steps(noisy(900))
    second = steps(noisy(900, 3.0), first_step=901, attempt=1, t0=first[-1].t + 30)
    assert found([*first, *second]) == []


def test_a_straggler_makes_the_job_slow_and_both_are_said():
    incidents = found(ranks(slow=[Slow(3, 1.3, 200)], num_steps=400))
    assert {(one.detector, one.subject) for one in incidents} == {("straggler", "rank 3"), ("job_slow", "run")}
