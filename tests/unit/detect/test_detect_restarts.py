"""Attempts that follow each other and get nowhere are one incident, with who failed first."""

from __future__ import annotations

from detect_streams import RUN, T0, found, losses
from tachograph_agent.events import AttemptEnd, AttemptStart, CheckpointSaved, Failure, RunStart


def tries(num, *, every_s=300.0, node=None, planned=False, saves=()):
    """Attempts that start at step 100, make ten steps, and fail; ``saves`` of them land one first."""
    events = [RunStart(t=T0, run=RUN, world_size=16)]
    for number in range(num):
        t0 = T0 + every_s * number
        resume = 110 if number and saves else 100
        events += [
            AttemptStart(t=t0, run=RUN, attempt=number, resume_step=resume),
            *losses([None] * 10, step_s=2.0, attempt=number, first_step=resume + 1, t0=t0 + 20),
        ]
        if number in saves:
            events.append(CheckpointSaved(t=t0 + 45, run=RUN, attempt=number, rank=0, step=110 + number, dur=1.0))
        if planned:
            events.append(AttemptEnd(t=t0 + 60, run=RUN, attempt=number))
        else:
            events.append(Failure(t=t0 + 60, run=RUN, attempt=number, category="network", node=node and node(number)))
            events.append(Failure(t=t0 + 61, run=RUN, attempt=number, category="collective_timeout", node="n9"))
    return events


def test_five_attempts_within_half_an_hour_are_a_loop():
    (incident,) = found(tries(6, node=lambda number: "n3" if number % 2 == 0 else f"m{number}"))
    assert (incident.detector, incident.subject, incident.severity) == ("restart_loop", "run", "critical")
    assert (incident.opened_us, incident.found_us) == (round(T0 * 1e6), round((T0 + 1200) * 1e6))
    assert "the first failed on n3 (the network failed)" in incident.summary
    assert incident.evidence.more["cost_gpu_hours"] > 0


def test_a_node_that_fails_first_in_three_of_them_is_the_suspect():
    (incident,) = found(tries(6, node=lambda number: "n3"))
    assert incident.node == "n3"
    assert "leave it out" in incident.advice


def test_four_attempts_or_planned_stops_are_no_loop():
    assert found(tries(4)) == []
    assert found(tries(8, planned=True)) == []
    assert found(tries(8, every_s=7200.0)) == []


def test_three_attempts_in_a_row_without_a_new_checkpoint_are_a_loop_where_saves_are_told():
    (incident,) = found(tries(6, every_s=7200.0, saves=(0,)))
    assert "attempts in a row landed no new checkpoint" in incident.summary
    assert incident.found_us == round((T0 + 4 * 7200) * 1e6)


def test_a_new_checkpoint_ends_the_loop():
    (incident,) = found(tries(6, every_s=7200.0, saves=(0, 5)))
    assert incident.outcome == "a new checkpoint landed"


def test_an_attempt_that_lasts_ends_the_loop_where_no_saves_are_told():
    events = tries(5)[:-2]
    going_on = losses([None] * 1000, step_s=2.0, attempt=4, first_step=111, t0=T0 + 1240)
    (incident,) = found([*events, *going_on, Failure(t=T0 + 3245, run=RUN, attempt=4, category="gpu")])
    assert incident.outcome == "recovered"
