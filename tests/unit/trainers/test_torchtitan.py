"""torchtitan's console: what its lines become."""

from __future__ import annotations

import adapter_runs
import pytest
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.torchtitan import Torchtitan


def test_a_line_stands_for_the_steps_since_the_line_before_and_lasts_without_save_and_evaluation() -> None:
    events, _ = read(Torchtitan(), samples_b.TORCHTITAN)
    assert [(step.attempt, step.step, step.count, step.dur) for step in steps(events)] == [
        (0, 1, 1, 40.0),
        (0, 10, 9, 10.0),
        (0, 20, 10, 10.0),
        (1, 20, 10, 12.0),
    ]


def test_two_ranks_that_print_the_same_line_are_one_record_of_the_lowest() -> None:
    events, _ = read(Torchtitan(), samples_b.TORCHTITAN)
    assert {step.rank for step in steps(events)} == {0}
    assert [step.loss for step in steps(events)] == [10.5, 9.5, 8.5, 8.51]
    assert steps(events)[1].grad_norm == 2.1


def test_a_synchronous_save_has_its_time_and_the_last_step_names_its_own_number() -> None:
    events, _ = read(Torchtitan(), samples_b.TORCHTITAN)
    assert [(save.step, save.mode, save.dur) for save in of(events, "checkpoint.saved")] == [
        (10, "sync", 5.0),
        (25, "sync", 4.0),
    ]
    assert [save.step for save in of(events, "checkpoint.start")] == [10, 25]
    assert of(events, "run.start")[0].checkpoints is None


def test_evaluation_restart_reload_failure_and_end_are_told() -> None:
    events, _ = read(Torchtitan(), samples_b.TORCHTITAN)
    assert [(start.attempt, start.resume_step) for start in of(events, "attempt.start")] == [(0, 0), (1, 10)]
    assert [(phase.name, phase.dur) for phase in of(events, "phase")] == [("eval", 5.0), ("reload", 5.0)]
    (failure,) = of(events, "failure")
    assert failure.attempt == 0
    assert "illegal memory access" in failure.detail
    assert [end.status for end in of(events, "run.end")] == ["completed"]


STAGED = """\
[titan] 2030-01-02 03:00:00,000 - root - INFO - step: 90  loss: 3.5000  tps: 2,000
[titan] 2030-01-02 03:00:10,000 - root - INFO - step: 100  loss: 3.4000  tps: 1,000
[titan] 2030-01-02 03:00:10,000 - root - INFO - Staging the checkpoint.
[titan] 2030-01-02 03:00:11,500 - root - INFO - Finished staging the checkpoint in 1.50 seconds.
[0] 2030-01-02 03:00:13,000 - root - INFO - Submitted checkpoint save request for checkpoint_id=Id(id='out/step-100')
[titan] 2030-01-02 03:00:21,500 - root - INFO - step: 110  loss: 3.3000  tps: 1,000
[0] 2030-01-02 03:00:23,000 - root - INFO - Submitted checkpoint save request for checkpoint_id=Id(id='out/step-105')
"""


def test_an_asynchronous_save_is_never_said_to_have_landed() -> None:
    events, context = read(Torchtitan(), STAGED)
    assert [(save.step, save.mode, save.dur) for save in of(events, "checkpoint.saved")] == [
        (100, "async", 1.5),
        (105, "async", 0.0),
    ]
    assert of(events, "checkpoint.persisted") == []
    assert any("Asynchronous saves" in note for note in context.notes)


def test_the_first_record_of_an_excerpt_is_as_long_as_its_throughput_says() -> None:
    events, _ = read(Torchtitan(), STAGED)
    assert [(step.count, step.dur) for step in steps(events)] == [(10, 5.0), (10, 10.0), (10, 10.0)]


def test_a_version_that_may_mean_staging_by_saving_counts_as_asynchronous() -> None:
    old = STAGED.replace("Staging the checkpoint.", "Saving the checkpoint (or staging if async is enabled).").replace(
        "Finished staging the checkpoint in", "Finished saving the checkpoint (or staging if async is enabled)in"
    )
    events, context = read(Torchtitan(), old)
    assert of(events, "checkpoint.saved")[0].mode == "async"
    assert any("only staged" in note for note in context.notes)


def test_a_step_number_that_falls_without_a_word_is_a_new_attempt() -> None:
    more = "[titan] 2030-01-02 03:05:00,000 - root - INFO - some start-up line\n"
    for second, step in ((10, 100), (20, 110), (30, 120)):
        more += f"[titan] 2030-01-02 03:05:{second},000 - root - INFO - step: {step}  loss: 3.3900  tps: 1,000\n"
    events, _ = read(Torchtitan(), STAGED + more)
    assert [step.attempt for step in steps(events)] == [0, 0, 0, 1, 1, 1]
    (start,) = of(events, "attempt.start")
    assert start.attempt == 1
    assert start.resume_step is None
    assert [step.dur for step in steps(events) if step.attempt == 1] == [10.0, 10.0, 10.0]


def test_a_loss_of_minus_one_is_unknown() -> None:
    events, context = read(Torchtitan(), STAGED.replace("loss: 3.4000", "loss: -1.0000"))
    assert steps(events)[1].loss is None
    assert any("-1" in note for note in context.notes)


def test_local_times_are_read_in_the_zone_that_was_given() -> None:
    from zoneinfo import ZoneInfo

    utc, context = read(Torchtitan(), STAGED)
    tokyo, told = read(Torchtitan(), STAGED, tz=ZoneInfo("Asia/Tokyo"))
    assert utc[0].t - tokyo[0].t == pytest.approx(9 * 3600)
    assert any("UTC was taken" in note for note in context.notes)
    assert not any("UTC" in note for note in told.notes)


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(Torchtitan(), samples_b.TORCHTITAN)
    adapter_runs.assert_silent_on_nothing(Torchtitan())


def test_a_cut_step_line_is_counted() -> None:
    _, context = read(Torchtitan(), STAGED + "[titan] 2030-01-02 03:00:30,000 - root - INFO - step: 12")
    assert context.skipped_lines == 1


def test_a_save_without_visible_time_has_only_its_end() -> None:
    """At one time ends of saves come before starts: a start there would open a save that never ends."""
    events, _ = read(Torchtitan(), STAGED)
    assert [(start.step, start.t) for start in of(events, "checkpoint.start")] == [(100, steps(events)[1].t)]
    assert [save.step for save in of(events, "checkpoint.saved")] == [100, 105]


def test_ranks_without_a_prefix_that_say_the_same_are_one_attempt_with_one_end() -> None:
    bare = samples_b.TORCHTITAN.replace("[rank0]:", "").replace("[rank1]:", "").replace("[rank0]: ", "")
    doubled = "".join(line * 2 for line in bare.splitlines(keepends=True))
    events, _ = read(Torchtitan(), doubled)
    assert [start.attempt for start in of(events, "attempt.start")] == [0, 1]
    assert [step.step for step in steps(events)] == [1, 10, 20, 20]
    assert len(of(events, "run.end")) == 1
    assert [save.step for save in of(events, "checkpoint.saved")] == [10, 25]
