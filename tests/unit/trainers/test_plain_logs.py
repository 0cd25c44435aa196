"""Consoles that nobody wrote a reader for, and logs with little in them: no step, no date, glued by MPI."""

from __future__ import annotations

from datetime import UTC, datetime

import adapter_runs
import pytest
import samples_consoles as samples
from adapter_runs import of, read, steps
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.folding import Folding
from tachograph_agent.trainers.horovod import Horovod
from tachograph_agent.trainers.iterations import Iterations
from tachograph_agent.trainers.keyvalue import KeyValue
from tachograph_agent.trainers.tensorboard_viewer import TensorBoardViewer

THREE = datetime(2030, 1, 2, 3, tzinfo=UTC).timestamp()


def test_a_line_with_a_step_and_a_loss_is_a_record_and_one_of_an_evaluation_is_none() -> None:
    events, context = read(KeyValue(), samples.KEY_VALUE)
    assert [(step.step, step.count, step.loss, step.t - THREE, step.dur) for step in steps(events)] == [
        (100, 10, 2.5, 0.0, 10.0),
        (110, 10, 2.4, 10.0, 10.0),
        (120, 10, 2.3, 20.0, 10.0),
    ]
    assert any("no format that is documented" in note for note in context.notes)


@pytest.mark.parametrize(
    ("line", "step", "loss", "dur"),
    [
        ("step: {} loss: 2.5 took 1.5", 20, 2.5, 15.0),
        ("Iter {}/500, train loss 2.5, iter time (ms): 250.0", 20, 2.5, 2.5),
        ("[iteration {}] loss=nan dt=0.5s", 20, None, 5.0),
        ('{{"global_step": {}, "loss": 2.5, "step_time": 2}}', 20, 2.5, 20.0),
        ("Step [{}/100] Loss: 2.5e-1", 20, 0.25, None),
    ],
)
def test_names_that_trainers_use_are_guessed(line: str, step: int, loss: float | None, dur: float | None) -> None:
    text = "\n".join(line.format(number) for number in (10, 20, 30))
    assert registry.recognise(text.encode()) == "key-value"
    record = steps(read(KeyValue(), text)[0])[1]
    assert (record.step, record.dur) == (step, dur)
    assert record.loss == loss or (loss is None and record.loss != record.loss)


def test_lines_that_mpi_glued_are_parted_and_one_rank_is_taken() -> None:
    events, _ = read(KeyValue(), samples.GLUED)
    assert [(step.attempt, step.step, step.dur) for step in steps(events)] == [
        (0, 10, 15.0),
        (0, 20, 15.0),
        (0, 30, 15.0),
    ]


def test_horovods_trace_says_who_was_alive_and_when() -> None:
    events, _ = read(Horovod(), samples.HOROVOD)
    assert [(beat.rank, round(beat.t - THREE - 240.0, 6)) for beat in of(events, "heartbeat")] == [
        (3, 5.678901),
        (1, 6.012345),
    ]
    assert of(events, "run.start") == []


def test_iterations_without_numbers_are_counted_and_hours_of_silence_are_in_no_account() -> None:
    events, context = read(Iterations(), samples.ITERATIONS)
    assert [(step.attempt, step.step, step.dur) for step in steps(events)] == [
        (0, 1, 30.0),
        (0, 2, 30.4),
        (0, 3, 89.4),
        (1, 4, 40.0),
    ]
    (end,), (gap,) = of(events, "run.end"), of(events, "gap")
    assert (end.t - THREE, gap.since - THREE, gap.t - THREE) == (150.0, 150.0, 34 * 3600.0)
    assert of(events, "attempt.start")[1].resume_step == 3
    assert any("34.0 hours" in note for note in context.notes)


def test_a_log_without_dates_passes_midnight_and_a_stop_is_no_step_time() -> None:
    events, context = read(Folding(), samples.FOLDING)
    assert [(step.step, step.t, step.dur) for step in steps(events)] == [
        (1000, 0.0, None),
        (2000, 300.0, 300.0),
        (3000, 750.0, 300.0),
    ]
    assert [(finding.check, finding.value, finding.t) for finding in of(events, "health")] == [
        ("stopped", 150.0, 480.0)
    ]
    assert not context.has_clock
    assert any("no date" in note for note in context.notes)


def test_files_read_in_the_wrong_order_are_no_restart() -> None:
    events, context = read(TensorBoardViewer(), samples.VIEWER)
    assert [(step.attempt, step.step, step.t, step.dur) for step in steps(events)] == [
        (0, 100, 1_900_000_000.25, None),
        (0, 200, 1_900_003_600.5, None),
    ]
    assert any("no restart" in note for note in context.notes)


def test_a_step_that_falls_while_time_goes_on_is_a_restart() -> None:
    events, _ = read(TensorBoardViewer(), samples.VIEWER.replace("1900000000.25", "1900007200.25"))
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 200), (1, 100)]


def test_these_adapters_are_silent_on_nothing() -> None:
    for adapter in (KeyValue(), Horovod(), Iterations(), Folding(), TensorBoardViewer()):
        adapter_runs.assert_silent_on_nothing(adapter)


def test_a_tag_whose_rank_has_thousands_of_digits_is_no_tag() -> None:
    events, _ = read(
        Horovod(), f"[1,{'7' * 5000}]<stdout>:[1,3]<stdout>:2030-01-02 03:00:00: T horovod/made_up.cc:1] up"
    )
    assert [beat.rank for beat in of(events, "heartbeat")] == [3]
