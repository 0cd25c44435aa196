"""Hugging Face trainers' console: what its records become."""

from __future__ import annotations

import math

import adapter_runs
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.hf_console import HFConsole


def test_records_are_counted_since_no_step_is_named_and_that_is_said() -> None:
    events, context = read(HFConsole(), samples_b.HF_CONSOLE)
    assert [(step.step, step.count, step.dur) for step in steps(events)] == [(1, 1, None), (2, 1, None), (3, 1, None)]
    assert any("counted log lines" in note for note in context.notes)


def test_a_loss_of_zero_and_a_gradient_that_is_no_number_survive_as_they_are() -> None:
    events, context = read(HFConsole(), samples_b.HF_CONSOLE)
    assert [step.loss for step in steps(events)] == [2.31, 0.0, 0.0]
    assert [math.isnan(step.grad_norm or 0.0) for step in steps(events)] == [False, True, True]
    assert any("dead run" in note for note in context.notes)


def test_only_evaluations_have_a_time_where_no_summary_says_more() -> None:
    events, context = read(HFConsole(), samples_b.HF_CONSOLE)
    assert [(phase.name, phase.dur) for phase in of(events, "phase")] == [("eval", 8.0)]
    assert not context.has_clock
    assert any("can't be known" in note for note in context.notes)
    assert of(events, "run.end") == []


SUMMARY = "{'train_runtime': 38.0, 'train_steps_per_second': 0.1, 'train_loss': 1.2, 'epoch': 1.0}\n"


def test_the_summary_spreads_what_is_no_evaluation_over_the_records_and_ends_the_run() -> None:
    events, context = read(HFConsole(), samples_b.HF_CONSOLE + SUMMARY)
    assert [step.dur for step in steps(events)] == [10.0, 10.0, 10.0]
    assert [(end.status, end.t) for end in of(events, "run.end")] == [("completed", 38.0)]
    assert any("spread evenly" in note for note in context.notes)


def test_a_second_training_after_the_summary_is_a_run_of_its_own() -> None:
    events, _ = read(HFConsole(), (samples_b.HF_CONSOLE + SUMMARY) * 2)
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert [end.t for end in of(events, "run.end")] == [38.0, 76.0]


def test_a_failure_stands_at_the_end_of_what_is_known() -> None:
    events, _ = read(HFConsole(), samples_b.HF_CONSOLE + "torch.OutOfMemoryError: CUDA out of memory. Tried to\n")
    (failure,) = of(events, "failure")
    assert failure.t == 8.0


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(HFConsole(), samples_b.HF_CONSOLE + SUMMARY)
    adapter_runs.assert_silent_on_nothing(HFConsole())
