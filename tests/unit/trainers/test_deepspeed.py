"""DeepSpeed's console: what its lines become."""

from __future__ import annotations

import adapter_runs
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.deepspeed import DeepSpeed


def test_a_line_stands_for_ten_steps_and_lasts_since_the_one_before_less_the_save() -> None:
    events, _ = read(DeepSpeed(), samples_b.DEEPSPEED)
    assert [(step.attempt, step.step, step.count, step.dur) for step in steps(events)] == [
        (0, 10, 10, 10.0),
        (0, 20, 10, 10.0),
        (0, 30, 10, 10.0),
        (1, 30, 10, 10.0),
        (1, 40, 10, 10.0),
    ]


def test_skipped_steps_are_counted_by_the_engine_and_not_by_the_lines_of_every_rank() -> None:
    events, context = read(DeepSpeed(), samples_b.DEEPSPEED)
    # it is there, which the checker can't see
    assert [step.unknown_fields["skipped"] for step in steps(events)] == [1, 1, 2, 1, 1]  # type: ignore[index]
    assert of(events, "failure") != []
    assert all("overflow" not in (failure.detail or "").lower() for failure in of(events, "failure"))
    assert any("1 of 40 steps were skipped" in note and "39 were useful" in note for note in context.notes)


def test_a_save_is_whole_when_it_is_ready() -> None:
    events, _ = read(DeepSpeed(), samples_b.DEEPSPEED)
    (start,) = of(events, "checkpoint.start")
    (saved,) = of(events, "checkpoint.saved")
    assert (start.step, saved.step, saved.mode, saved.t - start.t) == (20, 20, "sync", 3.0)


def test_without_the_ready_line_a_save_ends_with_its_last_file_once_training_goes_on() -> None:
    quiet = "".join(line for line in samples_b.DEEPSPEED.splitlines(keepends=True) if "ready now" not in line)
    (saved,) = of(read(DeepSpeed(), quiet)[0], "checkpoint.saved")
    (ready,) = of(read(DeepSpeed(), samples_b.DEEPSPEED)[0], "checkpoint.saved")
    assert (saved.step, saved.t) == (ready.step, ready.t)


def test_a_save_that_is_broken_off_never_counts() -> None:
    cut = samples_b.DEEPSPEED.partition("[2030-01-02 03:00:53,000]")[0]
    events, _ = read(DeepSpeed(), cut)
    assert len(of(events, "checkpoint.start")) == 1
    assert of(events, "checkpoint.saved") == []


def test_starts_failure_and_end_are_told() -> None:
    events, _ = read(DeepSpeed(), samples_b.DEEPSPEED)
    assert [start.attempt for start in of(events, "attempt.start")] == [0, 1]
    assert [failure.attempt for failure in of(events, "failure")] == [0]
    (end,) = of(events, "run.end")
    assert end.t == of(events, "attempt.start")[0].t + 136.0


def test_a_log_without_a_save_says_that_saves_are_unseen() -> None:
    bare = "".join(line for line in samples_b.DEEPSPEED.splitlines(keepends=True) if "[Torch]" not in line)
    assert of(read(DeepSpeed(), bare)[0], "run.start")[0].checkpoints == "unseen"


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(DeepSpeed(), samples_b.DEEPSPEED)
    adapter_runs.assert_silent_on_nothing(DeepSpeed())
