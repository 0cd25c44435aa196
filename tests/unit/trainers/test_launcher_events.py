"""What launchers and loggers write as JSON: torchelastic's events, NVRx' cycles, nv-one-logger's spans."""

from __future__ import annotations

import adapter_runs
import samples_consoles as samples
from adapter_runs import START, of, read, steps
from tachograph_agent.trainers.nvrx_cycles import NVRxCycles
from tachograph_agent.trainers.one_logger import OneLogger
from tachograph_agent.trainers.torchelastic_events import TorchelasticEvents


def test_torchelastic_one_failure_of_several_ranks_is_one() -> None:
    events, context = read(TorchelasticEvents(), samples.TORCHELASTIC_EVENTS)
    (failure,) = of(events, "failure")
    assert (failure.t, failure.rank, failure.node, failure.unknown_fields["ranks"]) == (130.0, 3, "node-1", [3, 5])
    assert "out of memory" in failure.detail
    assert [start.attempt for start in of(events, "attempt.start")] == [0, 1]
    assert [(end.t, end.status) for end in of(events, "run.end")] == [(901.0, "completed")]
    assert of(events, "run.start")[0].world_size == 8
    assert not context.has_clock


def test_torchelastic_with_timestamps_has_a_clock() -> None:
    line = samples.elastic("FAILED", 0, 60, 0).replace('"timestamp": 0', f'"timestamp": {START * 1000:.0f}')
    events, context = read(TorchelasticEvents(), line)
    assert of(events, "attempt.start")[0].t == START - 60
    assert of(events, "failure")[0].t == START
    assert context.has_clock


def test_torchelastic_a_restart_without_its_failure_is_a_failure_that_is_inferred() -> None:
    text = "\n".join([samples.elastic("SUCCEEDED", 0, 50, 0), samples.elastic("FAILED", 0, 90, 2)])
    events, _ = read(TorchelasticEvents(), text)
    assert [(failure.attempt, failure.inferred) for failure in of(events, "failure")] == [(0, True), (2, False)]


def test_nvrx_each_cycle_is_an_attempt_as_its_newest_file_has_it() -> None:
    events, context = read(NVRxCycles(), samples.NVRX)
    starts = of(events, "attempt.start")
    assert [(start.attempt, start.world_size) for start in starts] == [(0, 16), (1, 16)]
    assert starts[1].t - starts[0].t == 3600.0
    (failure,) = of(events, "failure")
    assert (failure.t - starts[0].t, failure.category) == (58 * 60.0, "unknown")
    assert of(events, "attempt.end") == []
    assert len(context.notes) == 3
    assert any("Steps are not told" in note for note in context.notes)


def test_nvrx_a_file_that_is_cut_off_leaves_the_others() -> None:
    events, context = read(NVRxCycles(), samples.NVRX[:120] + "\n" + samples.NVRX)
    assert len(of(events, "attempt.start")) == 2
    assert context.skipped_lines == 1


def test_one_logger_takes_differences_of_running_totals() -> None:
    events, _ = read(OneLogger(), samples.ONE_LOGGER)
    assert [(step.step, step.count, step.t - START, step.dur) for step in steps(events)] == [
        (110, 10, 45.0, 25.0),  # since training began, warm-up included
        (120, 10, 75.0, 20.0),
    ]
    assert of(events, "attempt.start")[0].resume_step == 100
    assert [(save.step, save.t - START) for save in of(events, "checkpoint.saved")] == [(110, 49.0)]
    assert {phase.name: phase.dur for phase in of(events, "phase")} == {"reload": 10.0, "eval": 6.0}
    assert of(events, "run.end")[0].t == START + 76


def test_one_logger_an_error_of_the_application_is_a_failure() -> None:
    error = samples.told(
        "error",
        samples.BEGIN_MS + 60_000,
        "application_error",
        exception_type="torch.OutOfMemoryError",
        exception_message="CUDA out of memory",
    )
    events, _ = read(OneLogger(), "\n".join([*samples.ONE_LOGGER.split("\n")[:6], error]))
    (failure,) = of(events, "failure")
    assert failure.t == START + 60
    assert "memory" in failure.detail.lower()


def test_these_adapters_are_silent_on_nothing() -> None:
    for adapter in (OneLogger(), TorchelasticEvents(), NVRxCycles()):
        adapter_runs.assert_silent_on_nothing(adapter)
