"""A job that has become slower as a whole is one incident, with what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from detect_streams import RUN, T0, Slow, found, ranks
from tachograph_agent.events import RunStart, Step


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
