"""llm.c's console and main.log: what their lines become."""

from __future__ import annotations

import math

import adapter_runs
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.llmc import LLMC


def test_each_line_is_a_step_with_its_own_milliseconds() -> None:
    events, context = read(LLMC(), samples_b.LLMC)
    assert [(step.step, step.count, step.dur) for step in steps(events)] == [
        (1, 1, 1.5),
        (2, 1, 0.5125),
        (3, 1, 0.5125),
        (4, 1, 0.5125),
    ]
    assert steps(events)[0].grad_norm == 15.36
    assert math.isnan(steps(events)[3].grad_norm or 0.0)
    assert steps(events)[1].loss == 10.1
    assert any("evaluations and saves" in note for note in context.notes)


def test_a_save_is_told_once_and_the_last_step_ends_the_run() -> None:
    events, _ = read(LLMC(), samples_b.LLMC)
    assert [(save.step, save.t) for save in of(events, "checkpoint.saved")] == [(2, 2.0125)]
    assert [(end.status, end.t) for end in of(events, "run.end")] == [("completed", 3.0375)]


def test_lines_without_a_time_have_no_durations_and_say_so() -> None:
    events, context = read(
        LLMC(), "s:0 tel:10.9000\ns:1 trl:10.8000 lr:1e-4 norm:9.10\ns:20 trl:9.8 lr:1e-4 norm:8.10\n"
    )
    assert [(step.step, step.count, step.dur, step.grad_norm) for step in steps(events)] == [
        (1, 1, None, 9.1),
        (20, 19, None, 8.1),
    ]
    assert any("can't be known" in note for note in context.notes)
    untimed = samples_b.LLMC.replace("| 512.50 ms ", "").replace("| 1500.00 ms ", "")
    events, context = read(LLMC(), untimed)
    assert [step.dur for step in steps(events)] == [None] * 4
    assert any("can't be known" in note for note in context.notes)


def test_the_first_versions_lines_count_from_zero() -> None:
    events, _ = read(LLMC(), "step 0: train loss 5.35 (took 1300.5 ms)\nstep 1: train loss 4.35 (took 300.5 ms)\n")
    assert [(step.step, step.loss, step.dur) for step in steps(events)] == [(1, 5.35, 1.3005), (2, 4.35, 0.3005)]


def test_falling_back_is_a_new_attempt_and_after_the_last_step_a_new_run() -> None:
    lines = samples_b.LLMC.splitlines(keepends=True)
    again = "".join(lines[5:6]).replace("9.1000", "9.2000")
    events, _ = read(LLMC(), "".join(lines[:6]) + "".join(lines[1:2]).replace("10.1000", "10.2000") + again)
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    assert of(events, "run.end") == []
    events, _ = read(LLMC(), samples_b.LLMC + samples_b.LLMC.replace("loss 11.0093", "loss 11.1"))
    assert len(of(events, "run.end")) == 2
    assert len(of(events, "run.start")) == 2


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(LLMC(), samples_b.LLMC)
    adapter_runs.assert_silent_on_nothing(LLMC())


def test_without_any_duration_no_start_stands_behind_its_own_steps() -> None:
    """At one time steps come before starts: a start there would make the steps belong to an attempt before."""
    events, _ = read(LLMC(), "s:1 trl:10.8000 lr:1e-4 norm:9.10\ns:20 trl:9.8 lr:1e-4 norm:8.10\n")
    assert of(events, "attempt.start") == []
    assert {step.t for step in steps(events)} == {0.0}
