"""nanoGPT's console: what its lines become."""

from __future__ import annotations

import adapter_runs
import samples_b
from adapter_runs import START, of, read, steps
from tachograph_agent.trainers.nanogpt import NanoGPT


def test_iter_counts_from_zero_and_a_line_stands_for_all_iterations_since_the_last() -> None:
    events, _ = read(NanoGPT(), samples_b.NANOGPT)
    first = [step for step in steps(events) if step.attempt == 0]
    assert [(step.step, step.count, step.dur) for step in first] == [
        (1, 1, None),
        (11, 10, 2.5),
        (21, 10, 2.5),
        (31, 10, None),
        (41, 10, 2.5),
    ]
    assert [step.tokens for step in first] == [1000.0, 10_000.0, 10_000.0, 10_000.0, 10_000.0]


def test_the_time_of_an_iteration_that_evaluated_is_no_steps_time() -> None:
    events, context = read(NanoGPT(), samples_b.NANOGPT)
    (evaluation,) = of(events, "phase")
    assert (evaluation.name, evaluation.dur, evaluation.t) == ("eval", 5.0, 42.25)
    assert steps(events)[3].t == 42.5
    assert any("includes evaluation" in note for note in context.notes)


def test_a_save_holds_the_state_after_the_evaluated_step() -> None:
    events, _ = read(NanoGPT(), samples_b.NANOGPT)
    assert [(save.step, save.mode, save.t) for save in of(events, "checkpoint.saved")] == [(30, "sync", 42.25)]
    assert of(events, "run.start")[0].checkpoints is None


def test_a_log_without_a_save_says_that_saves_are_unseen() -> None:
    events, _ = read(NanoGPT(), samples_b.NANOGPT.replace("saving checkpoint to out\n", ""))
    assert of(events, "run.start")[0].checkpoints == "unseen"


def test_resuming_is_a_new_attempt_whose_first_line_is_one_step() -> None:
    events, _ = read(NanoGPT(), samples_b.NANOGPT)
    assert [(start.attempt, start.t) for start in of(events, "attempt.start")] == [(0, 0.0), (1, 45.0)]
    second = [step for step in steps(events) if step.attempt == 1]
    assert [(step.step, step.count, step.dur) for step in second] == [(31, 1, None), (41, 10, 2.6)]


def test_a_history_that_is_written_again_is_dropped_and_other_values_are_a_new_attempt() -> None:
    lines = "iter 10: loss 9.1, time 250.00ms, mfu 3%\niter 20: loss 8.1, time 250.00ms, mfu 3%\n"
    again, _ = read(NanoGPT(), lines + lines + "iter 30: loss 7.1, time 250.00ms, mfu 3%\n")
    assert [(step.attempt, step.step) for step in steps(again)] == [(0, 11), (0, 21), (0, 31)]
    back, _ = read(NanoGPT(), lines + lines.replace("250", "260"))
    assert [(step.attempt, step.step) for step in steps(back)] == [(0, 11), (0, 21), (1, 11), (1, 21)]


def test_the_timeline_starts_at_zero_or_where_it_is_told_and_says_so() -> None:
    events, context = read(NanoGPT(), samples_b.NANOGPT)
    placed, told = read(NanoGPT(), samples_b.NANOGPT, start_unix_seconds=START)
    assert not context.has_clock
    assert any("starts at 0" in note for note in context.notes)
    assert any("where --start says" in note for note in told.notes)
    assert [event.t + START for event in events] == [event.t for event in placed]


def test_a_failure_stands_where_the_timeline_was() -> None:
    events, _ = read(NanoGPT(), samples_b.NANOGPT + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n")
    (failure,) = of(events, "failure")
    assert failure.attempt == 1
    assert failure.t == steps(events)[-1].t


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(NanoGPT(), samples_b.NANOGPT)
    adapter_runs.assert_silent_on_nothing(NanoGPT())


def test_a_cut_last_line_is_counted_with_its_number() -> None:
    _, context = read(NanoGPT(), samples_b.NANOGPT + "iter 50: loss 7.3000, ti")
    assert [skip.line_number for skip in context.skips] == [14]
