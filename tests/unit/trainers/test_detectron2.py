"""detectron2's log.txt: what its lines become."""

from __future__ import annotations

from datetime import UTC, datetime

import adapter_runs
import samples_b
from adapter_runs import of, read, steps
from tachograph_agent.trainers.detectron2 import Detectron2


def test_iter_counts_from_zero_and_the_first_record_lasts_since_training_started() -> None:
    events, _ = read(Detectron2(), samples_b.DETECTRON2)
    assert [(step.attempt, step.step, step.count, step.dur) for step in steps(events)] == [
        (0, 20, 20, 10.0),
        (0, 40, 20, 9.0),
        (0, 60, 20, 9.0),
        (1, 20, 20, 10.0),
        (1, 30, 10, 4.5),
        (2, 20, 20, 10.0),
        (2, 40, 20, 9.0),
    ]
    assert steps(events)[0].loss == 7.5


def test_a_start_from_zero_is_a_new_run_after_a_finished_training_and_an_attempt_after_an_interruption() -> None:
    events, context = read(Detectron2(), samples_b.DETECTRON2, year=2031)
    begin = datetime(2031, 3, 4, 10, 0, tzinfo=UTC).timestamp()
    (end,) = of(events, "run.end")
    assert (end.status, end.t) == ("completed", begin + 54.0)
    assert [(start.attempt, start.resume_step, start.t - begin) for start in of(events, "attempt.start")] == [
        (0, 0, 0.0),
        (1, 0, 300.0),
        (2, 0, 360.0),
    ]
    assert [start.t - begin for start in of(events, "run.start")] == [0.0, 300.0]
    assert any("new run" in note and "new attempt" in note for note in context.notes)


def test_the_final_save_is_of_the_last_iteration_and_a_periodic_one_of_the_iteration_in_its_name() -> None:
    events, _ = read(Detectron2(), samples_b.DETECTRON2)
    (start,) = of(events, "checkpoint.start")
    final, periodic = of(events, "checkpoint.saved")
    assert (final.step, final.dur) == (60, 0.0)  # less than the log's one second, so only its end is told
    assert start.step == periodic.step == 20
    assert periodic.t - start.t == 3.0  # 12 s to the next record, 9 s of which were its 20 iterations


def test_a_save_after_which_nothing_came_is_not_said_to_be_over() -> None:
    cut = samples_b.DETECTRON2.partition("[03/04 10:06:42]")[0]
    for after in ("", samples_b.DETECTRON2.replace("03/04 10", "03/04 11")):
        events, _ = read(Detectron2(), cut + after)
        assert of(events, "checkpoint.start")[0].step == 20
        assert [save.step for save in of(events, "checkpoint.saved")][:2] == ([60, 60] if after else [60])


def test_evaluation_lasts_from_its_first_to_its_last_line() -> None:
    events, _ = read(Detectron2(), samples_b.DETECTRON2)
    assert [(phase.name, phase.dur) for phase in of(events, "phase")] == [("eval", 4.0)]


def test_the_assumed_year_and_zone_are_said() -> None:
    _, context = read(Detectron2(), samples_b.DETECTRON2)
    assert any("no year" in note for note in context.notes)
    assert any("no zone" in note for note in context.notes)


def test_an_exception_leaves_no_finished_training() -> None:
    lines = samples_b.DETECTRON2.splitlines(keepends=True)
    lines[5:5] = ["[03/04 10:00:48] d2.engine.train_loop ERROR: Exception during training:\n"]
    events, _ = read(Detectron2(), "".join(lines[:6]))
    assert of(events, "run.end") == []


def test_damaged_logs_never_raise_and_nothing_gives_nothing() -> None:
    adapter_runs.assert_survives_damage(Detectron2(), samples_b.DETECTRON2)
    adapter_runs.assert_silent_on_nothing(Detectron2())
