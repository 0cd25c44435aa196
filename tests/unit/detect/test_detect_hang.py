"""Nobody steps: it is said when it must be, and taken back where steps had gone on."""

from __future__ import annotations

import pytest
from detect_streams import RUN, T0, found, live, losses, ranks
from tachograph_agent.events import (
    AttemptEnd,
    AttemptStart,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    Phase,
    PhaseStart,
    RunEnd,
    Step,
)
from tachograph_collector.detect import Detectors


def hangs(changes):
    return [(one.what, one.incident.detector) for one in changes]


def told(events, now_s):
    """What is told by who looks for the first time so long after ``T0``."""
    detectors = Detectors()
    detectors.add(events)
    return hangs(detectors.look(round((T0 + now_s) * 1e6)))


def stopped(num=100, step_s=2.0):
    return losses([None] * num, step_s=step_s)


def test_no_step_for_a_minute_is_a_hang_that_began_with_the_last_step():
    detectors = Detectors()
    detectors.add(stopped())
    end_us = round((T0 + 200) * 1e6)
    assert detectors.look(end_us + 64_000_000) == []
    (change,) = detectors.look(end_us + 66_000_000)
    incident = change.incident
    assert (incident.detector, incident.subject, incident.severity) == ("hang", "run", "critical")
    assert (incident.opened_us, incident.found_us) == (end_us, end_us + 60_000_000)


def test_long_steps_have_longer_patience():
    assert told(stopped(step_s=30.0), 3300) == []
    assert told(stopped(step_s=30.0), 3306) == [("opened", "hang")]


def test_a_hang_that_a_failure_ends_is_over_with_it():
    events = [*stopped(), Failure(t=T0 + 900, run=RUN, category="collective_timeout")]
    (incident,) = found(events)
    assert incident.outcome == "failure: collective_timeout"
    assert incident.cleared_us == round((T0 + 900) * 1e6)


@pytest.mark.parametrize("end", [Failure, AttemptEnd, RunEnd])
def test_silence_after_an_end_is_no_hang(end):
    detectors = Detectors()
    detectors.add([*stopped(), end(t=T0 + 201, run=RUN)])
    detectors.look(round((T0 + 90_000) * 1e6))
    assert [one for one in detectors.incidents() if one.detector != "failure"] == []


def test_a_first_step_has_half_an_hour_and_a_load_twenty_minutes():
    up = AttemptStart(t=T0, run=RUN, attempt=0)
    for events, limit_s in (([up], 1800), ([up, PhaseStart(t=T0, run=RUN, attempt=0, name="reload")], 1200)):
        assert told(events, limit_s) == []
        assert told(events, limit_s + 6) == [("opened", "hang")]


def test_a_save_and_an_evaluation_have_ten_minutes():
    for begin in (
        CheckpointStart(t=T0 + 200.5, run=RUN, attempt=0, rank=0, step=100),
        PhaseStart(t=T0 + 200.5, run=RUN, attempt=0, name="eval"),
    ):
        assert told([*stopped(), begin], 800) == []
        assert told([*stopped(), begin], 806) == [("opened", "hang")]


def test_after_a_save_and_an_evaluation_patience_begins_anew():
    events = [
        *stopped(),
        CheckpointStart(t=T0 + 200.5, run=RUN, attempt=0, rank=0, step=100),
        CheckpointSaved(t=T0 + 400, run=RUN, attempt=0, rank=0, step=100),
        PhaseStart(t=T0 + 400, run=RUN, attempt=0, name="eval"),
        Phase(t=T0 + 500, run=RUN, attempt=0, name="eval", dur=100.0),
    ]
    assert told(events, 560) == []
    assert told(events, 570) == [("opened", "hang")]


def test_an_evaluation_that_is_told_of_at_its_end_only_takes_the_hang_back():
    (incident,) = found([*stopped(), Phase(t=T0 + 400, run=RUN, attempt=0, name="eval", dur=199.0)])
    assert incident.is_withdrawn
    assert "evaluation" in incident.outcome


def test_the_rank_with_the_least_progress_is_named():
    events = [one for one in ranks(num_steps=100) if not (isinstance(one, Step) and one.step > 98 and one.rank == 5)]
    detectors = Detectors()
    detectors.add(events)
    (change,) = detectors.look(round((max(one.t for one in events) + 70) * 1e6))
    assert (change.incident.subject, change.incident.node) == ("rank 5", "n1")


def test_records_that_were_missing_while_steps_went_on_are_no_hang():
    events = [*stopped(), *losses([None] * 50, first_step=401, t0=T0 + 800)]
    (incident,) = found(events)
    assert incident.is_withdrawn
    assert "records were missing" in incident.outcome


def test_sparse_records_are_no_hang():
    events = [
        Step(t=T0 + 80.0 * place, run=RUN, attempt=0, rank=0, step=40 * place, count=40, dur=80.0)
        for place in range(1, 30)
    ]
    assert found(events) == []


def test_records_of_each_fortieth_step_only_are_no_hang_and_a_longer_silence_is_one():
    events = [Step(t=T0 + 80.0 * place, run=RUN, attempt=0, rank=0, step=40 * place, dur=2.0) for place in range(1, 30)]
    assert [one for one in found(events) if not one.is_withdrawn] == []
    before = [("opened", "hang"), ("cleared", "hang")]  # of the second record nobody could know yet
    assert told(events, 29 * 80 + 2400) == before
    assert told(events, 29 * 80 + 2406) == [*before, ("opened", "hang")]


def test_after_nobody_looked_for_a_while_silence_counts_from_then():
    detectors = Detectors()
    detectors.add(stopped())
    end_us = round((T0 + 200) * 1e6)
    detectors.look(end_us + 10_000_000)
    assert detectors.look(end_us + 100_000_000) == []
    for second in range(101, 164):
        assert detectors.look(end_us + second * 1_000_000) == []
    assert [one for second in range(164, 168) for one in hangs(detectors.look(end_us + second * 1_000_000))] == [
        ("opened", "hang")
    ]


def test_a_hang_is_told_live_when_it_is_told_of_the_recording():
    events = [*stopped(), *losses([None] * 50, first_step=101, t0=T0 + 500)]
    seen = [(one.what, one.incident.found_us, one.incident.cleared_us) for one in live(events, 1.0)]
    (incident,) = found(events)
    assert seen[0] == ("opened", incident.found_us, None)
    assert seen[-1] == ("cleared", incident.found_us, incident.cleared_us)


@pytest.mark.parametrize("end", [Failure, AttemptEnd, RunEnd])
def test_what_ranks_still_tell_of_their_last_step_after_the_end_starts_no_watch(end):
    """A false hang, and a save long overdue, of a dead attempt: its other ranks' clocks were a little ahead."""
    events = ranks(8, 400, step_s=10.0)
    last = max(one.step for one in events if isinstance(one, Step))
    died = next(one.t for one in events if isinstance(one, Step) and one.step == last and one.rank == 3)
    saves = [
        CheckpointSaved(t=one.t + 0.5, run=RUN, attempt=0, rank=0, step=one.step, dur=0.4)
        for one in events
        if isinstance(one, Step) and one.rank == 0 and one.step % 60 == 0
    ]
    detectors = Detectors()
    detectors.add([*events, *saves, end(t=died, run=RUN)])
    detectors.look(round((died + 3600) * 1e6))
    assert [one for one in detectors.incidents() if one.detector != "failure"] == []


def test_steps_that_go_on_after_a_failure_that_stopped_nothing_are_watched_again():
    events = stopped(200)
    (hang,) = found([*events, Failure(t=T0 + 100, run=RUN, category="unknown"), Phase(t=T0 + 900, run=RUN, name="x")])
    assert hang.opened_us == round((T0 + 400) * 1e6)


def test_evaluations_told_of_at_their_end_only_look_like_a_hang_once_and_then_no_more():
    events, t, step = [], T0, 0
    for _ in range(4):
        events += losses([None] * 60, step_s=2.0, first_step=step + 1, t0=t)
        t, step = t + 120.0 + 200.0, step + 60
        events.append(Phase(t=t, run=RUN, attempt=0, name="eval", dur=199.9))
    events += losses([None] * 60, step_s=2.0, first_step=step + 1, t0=t)
    (once,) = found(events)
    assert once.outcome == "withdrawn: it was an evaluation, told of at its end only"
    hung = found([*events, Phase(t=t + 120 + 401, run=RUN, attempt=0, name="x", dur=0.0)])
    assert [one.outcome for one in hung] == [once.outcome, None]
    assert hung[1].found_us - hung[1].opened_us == round(2 * 199.9e6)


def test_a_hang_says_whose_stack_to_look_at_and_what_ending_it_costs():
    detectors = Detectors()
    detectors.add(stopped())
    (change,) = detectors.look(round((T0 + 300) * 1e6))
    said = change.incident
    assert said.advice is not None
    assert "py-spy dump" in said.advice
    assert "no checkpoint has landed yet" in said.advice


def test_two_records_far_apart_in_steps_and_time_are_no_hang_where_no_pace_was_told():
    events = [Step(t=T0 + after, run=RUN, attempt=0, step=step) for after, step in ((0, 966), (77_005, 4120))]
    (incident,) = found([AttemptStart(t=T0 - 1, run=RUN, attempt=0), *events])
    assert incident.outcome.startswith("withdrawn: the next record was several steps on")
    assert "for 21.4 h in training" in incident.summary
