"""Hugging Face's trainer_state.json: what its history becomes."""

from __future__ import annotations

import math

import adapter_runs
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.hf_state import HFTrainerState


def test_steps_are_numbered_and_several_evaluation_sets_of_one_step_are_no_repetitions() -> None:
    events, _ = read(HFTrainerState(), samples_b.hf_state())
    assert [(step.step, step.count, step.loss) for step in steps(events)] == [(100, 100, 2.31), (200, 100, 2.21)]
    assert math.isnan(steps(events)[1].grad_norm or 0.0)
    assert [phase.dur for phase in of(events, "phase")] == [4.0, 8.0, 6.0]


def test_only_the_evaluations_time_is_known() -> None:
    events, context = read(HFTrainerState(), samples_b.hf_state())
    assert [step.dur for step in steps(events)] == [None, None]
    assert any("18.0 s are known" in note for note in context.notes)
    assert not context.has_clock
    assert of(events, "run.start")[0].checkpoints == "unseen"
    assert of(events, "run.end") == []


def test_a_training_that_reached_its_last_step_is_completed() -> None:
    events, _ = read(HFTrainerState(), samples_b.hf_state(max_steps=200))
    assert [end.status for end in of(events, "run.end")] == ["completed"]


def test_a_summary_gives_the_steps_their_share_of_the_time() -> None:
    state = samples_b.hf_state(max_steps=200)
    summary = '{"epoch": 0.2, "step": 200, "train_loss": 2.2, "train_runtime": 58.0},\n    {\n      "epoch": 0,'
    events, _ = read(HFTrainerState(), state.replace('{\n      "epoch": 0,', summary, 1))
    assert [step.dur for step in steps(events)] == [20.0, 20.0]
    assert of(events, "run.end")[0].t == 58.0


def test_the_histories_that_later_checkpoints_repeat_count_once() -> None:
    once, _ = read(HFTrainerState(), samples_b.hf_state())
    twice, _ = read(HFTrainerState(), samples_b.hf_state() + "\n" + samples_b.hf_state())
    assert twice == once or [repr(event) for event in twice] == [repr(event) for event in once]


def test_of_a_file_that_is_cut_off_the_whole_records_are_read() -> None:
    text = samples_b.hf_state()
    events, context = read(HFTrainerState(), text[: text.index('"eval_b_loss"')])
    assert [step.step for step in steps(events)] == [100]
    assert [phase.dur for phase in of(events, "phase")] == [4.0, 8.0]
    assert context.skipped_lines == 1


def test_damaged_files_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(HFTrainerState(), samples_b.hf_state())
    assert HFTrainerState().sniff("") == 0.0
    assert read(HFTrainerState(), "")[0] == []
    assert read(HFTrainerState(), "prose, no JSON")[0] == []
    assert read(HFTrainerState(), '{"log_history": [' + "[" * 50_000)[0] == []
