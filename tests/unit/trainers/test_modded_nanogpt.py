"""modded-nanogpt's log: what its lines become."""

from __future__ import annotations

import adapter_runs
import pytest
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.modded_nanogpt import ModdedNanoGPT


def test_durations_are_differences_of_the_training_time_and_a_reset_is_no_restart() -> None:
    events, context = read(ModdedNanoGPT(), samples_b.MODDED)
    assert [(step.step, step.count, round(step.dur or 0.0, 6)) for step in steps(events)] == [
        (1, 1, 20.0),
        (2, 1, 0.1),
        (3, 1, 0.1),
        (4, 1, 0.15),
        (5, 1, 0.15),
        (6, 1, 0.16),
        (12, 6, 0.9),
    ]
    assert len(of(events, "attempt.start")) == 1
    assert any("no restart" in note for note in context.notes)


def test_all_printed_training_time_is_there_and_the_last_step_ends_the_run() -> None:
    events, context = read(ModdedNanoGPT(), samples_b.MODDED)
    (end,) = of(events, "run.end")
    assert end.t == pytest.approx(20.2 + 1.4)
    assert not context.has_clock
    assert of(events, "run.start")[0].checkpoints == "unseen"


def test_an_average_that_is_not_yet_known_is_no_loss() -> None:
    events, _ = read(ModdedNanoGPT(), samples_b.MODDED)
    assert [step.loss for step in steps(events)] == [10.8, 9.9, 9.1, 8.9, 8.8, 8.7, 8.1]


def test_a_second_training_in_the_same_file_is_a_new_run_after_the_end_and_an_attempt_before_it() -> None:
    other = samples_b.MODDED.replace("train_loss:10.8000", "train_loss:10.9000")
    events, _ = read(ModdedNanoGPT(), samples_b.MODDED + other)
    assert len(of(events, "run.end")) == 2
    unfinished = samples_b.MODDED.replace("step:12/12", "step:11/12")
    events, _ = read(ModdedNanoGPT(), unfinished + other)
    assert len(of(events, "run.end")) == 1
    assert [start.attempt for start in of(events, "attempt.start")] == [0, 1]


def test_the_source_code_at_the_head_is_recognised_but_no_record() -> None:
    head = samples_b.MODDED.partition("step:0/12")[0]
    assert ModdedNanoGPT().sniff(head) > 0.3
    assert read(ModdedNanoGPT(), head)[0] == []


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(ModdedNanoGPT(), samples_b.MODDED)
    adapter_runs.assert_silent_on_nothing(ModdedNanoGPT())
