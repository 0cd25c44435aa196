"""Trainers' consoles with a step a line or a block: mmengine, fairseq, LLaMA-Factory, OLMo, Composer, RETURNN."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import adapter_runs
import pytest
import samples_consoles as samples
from adapter_runs import of, read, steps
from tachograph_agent.trainers.composer import Composer
from tachograph_agent.trainers.fairseq import Fairseq
from tachograph_agent.trainers.llamafactory import LLaMAFactory
from tachograph_agent.trainers.mmengine import MMEngine
from tachograph_agent.trainers.mmengine_scalars import MMEngineScalars
from tachograph_agent.trainers.olmo import OLMo
from tachograph_agent.trainers.returnn import RETURNN

THREE = datetime(2030, 1, 2, 3, tzinfo=UTC).timestamp()


def test_mmengine_counts_iterations_over_epochs_and_a_resume_begins_an_attempt() -> None:
    events, _ = read(MMEngine(), samples.MMENGINE)
    assert [(step.attempt, step.step, step.count, step.dur) for step in steps(events)] == [
        (0, 10, 10, 20.0),
        (0, 20, 10, 20.0),
        (0, 30, 10, 20.0),
        (1, 30, 10, 22.0),
    ]
    assert [(start.t - THREE, start.resume_step) for start in of(events, "attempt.start")] == [(0.0, 0), (600.0, 20)]
    assert of(events, "failure")[0].attempt == 0


def test_mmengine_a_save_is_over_when_the_evaluation_after_it_begins() -> None:
    events, _ = read(MMEngine(), samples.MMENGINE)
    (start,), (saved,), (phase,) = (of(events, kind) for kind in ("checkpoint.start", "checkpoint.saved", "phase"))
    assert (start.step, start.t - THREE, saved.t - THREE) == (20, 70.0, 76.0)
    assert (phase.name, phase.t - THREE, phase.dur) == ("eval", 86.0, 10.0)


def test_mmengine_a_norm_that_is_nan_leaves_the_loss_as_it_is() -> None:
    events, _ = read(MMEngine(), samples.MMENGINE)
    step = steps(events)[1]
    assert step.loss == 3.0
    assert step.grad_norm is not None
    assert math.isnan(step.grad_norm)


@pytest.mark.parametrize(("num_bad", "noted"), [(1, []), (2, ["2 of 9 records, first at step 80"])])
def test_norms_that_are_no_numbers_beside_a_loss_that_is_one_are_noted(num_bad: int, noted: list[str]) -> None:
    norms = ["1.0"] * (9 - num_bad) + ["nan"] * num_bad
    lines = [
        f"2030/01/02 03:00:{number:02d} - mmengine - INFO - Epoch(train) [1][{10 * number}/735]  lr: 2e-04  "
        f"time: 0.1  loss: 2.5  grad_norm: {norm}"
        for number, norm in enumerate(norms, start=1)
    ]
    _, context = read(MMEngine(), "\n".join(lines))
    told = [note for note in context.notes if "gradient norm" in note]
    assert len(told) == len(noted)
    for note, words in zip(told, noted, strict=True):
        assert words in note


def test_mmengine_without_a_year_says_which_was_taken() -> None:
    events, context = read(MMEngine(), samples.MMENGINE.replace("2030/01/02", "01/02"), year=2031)
    assert steps(events)[0].t == datetime(2031, 1, 2, 3, 0, 50, tzinfo=UTC).timestamp()
    assert any("2031" in note for note in context.notes)


def test_mmcv_is_read_as_well_and_the_first_record_stands_for_the_interval() -> None:
    events, _ = read(MMEngine(), samples.MMCV)
    assert [(step.step, step.count, step.dur, step.loss) for step in steps(events)] == [
        (50, 50, 25.0, 1.5),
        (100, 50, 25.0, 1.4),
        (150, 50, 30.0, 1.3),
    ]


def test_mmengine_scalars_make_a_timeline_of_their_durations() -> None:
    events, context = read(MMEngineScalars(), samples.MMENGINE_SCALARS, start_unix_seconds=1000.0)
    assert [(step.step, step.count, step.t, step.dur) for step in steps(events)] == [
        (50, 50, 1025.0, 25.0),
        (100, 50, 1050.0, 25.0),
        (150, 50, 1080.0, 30.0),
    ]
    assert not context.has_clock
    assert any("valuations" in note for note in context.notes)


def test_mmcv_scalars_count_within_the_epoch() -> None:
    lines = "\n".join(
        f'{{"mode": "train", "epoch": {epoch}, "iter": {done}, "data_time": 0.1, "loss": 1.5, "time": 0.5}}'
        for epoch, done in ((1, 50), (1, 100), (2, 50), (2, 100))
    )
    events, _ = read(MMEngineScalars(), lines)
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 50), (0, 100), (0, 150), (0, 200)]


def test_fairseq_counts_updates_and_tells_durations_finer_than_its_times() -> None:
    events, context = read(Fairseq(), samples.FAIRSEQ)
    assert [(step.step, step.count, step.dur) for step in steps(events)] == [
        (1, 1, 6.0),  # since training began: ups=0 is unknown, not standing still
        (2, 1, 0.25),
        (3, 1, 0.25),
        (5, 2, 1.0),
    ]
    times = [step.t for step in steps(events)]
    assert times == sorted(set(times))
    assert all(int(t) == THREE + 16 for t in times[:3])
    assert context.skipped_lines == 0


def test_fairseq_tells_its_save_evaluation_start_and_end() -> None:
    events, _ = read(Fairseq(), samples.FAIRSEQ)
    assert [(save.step, save.dur) for save in of(events, "checkpoint.saved")] == [(3, 3.5)]
    assert [(phase.t - THREE, phase.dur) for phase in of(events, "phase")] == [(26.0, 6.0)]
    assert [(start.t - THREE, start.resume_step) for start in of(events, "attempt.start")] == [(0.0, 0)]
    assert of(events, "run.end")[0].t == THREE + 40


def test_fairseq_counts_a_step_line_that_is_cut_off() -> None:
    cut = samples.FAIRSEQ[: samples.FAIRSEQ.index("num_updates=3")]
    events, context = read(Fairseq(), cut)
    assert [step.step for step in steps(events)] == [1, 2]
    assert context.skipped_lines == 1


def test_fairseq_goes_on_where_a_checkpoint_was_loaded() -> None:
    loaded = "2030-01-02 04:00:00 | INFO | fairseq.trainer | Loaded checkpoint out/c.pt (epoch 2 @ 3 updates)\n"
    again = "2030-01-02 04:00:10 | INFO | fairseq.trainer | begin training epoch 2\n"
    line = "2030-01-02 04:00:14 | INFO | train_inner | epoch 002: 1 / 9 loss=9, ups=0, num_updates=4, gnorm=1\n"
    events, _ = read(Fairseq(), samples.FAIRSEQ.rsplit("\n", 2)[0] + "\n" + loaded + again + line)
    assert [start.resume_step for start in of(events, "attempt.start")] == [0, 3]
    assert (steps(events)[-1].attempt, steps(events)[-1].count, steps(events)[-1].dur) == (1, 1, 4.0)


def test_llamafactory_takes_rates_from_differences_and_a_stopwatch_that_goes_back_is_a_restart() -> None:
    events, context = read(LLaMAFactory(), samples.LLAMAFACTORY)
    assert [(step.attempt, step.step, step.count, step.t, step.dur) for step in steps(events)] == [
        (0, 10, 10, 20.0, 20.0),
        (0, 20, 10, 40.0, 20.0),
        (0, 30, 10, 70.0, 20.0),
        (1, 40, 10, 90.0, 20.0),
        (1, 50, 10, 110.0, 20.0),
    ]
    assert [(phase.t, phase.dur) for phase in of(events, "phase")] == [(50.0, 10.0)]
    assert any("throughput" in note for note in context.notes)
    assert steps(events)[3].tokens == 1000.0


def test_llamafactory_a_first_record_after_a_resume_does_not_stand_for_all_steps_before_it() -> None:
    table = "step  510/2000  elapsed 0:00:01  remaining 0:00:09\nstep  700/2000  elapsed 0:00:20  remaining 0:00:09\n"
    assert LLaMAFactory().sniff(table) >= 0.8
    events, context = read(LLaMAFactory(), table)
    assert [(step.step, step.count, step.dur) for step in steps(events)] == [(510, 1, 1.0), (700, 190, 19.0)]
    assert any("resume" in note for note in context.notes)


def test_llamafactory_reads_days_and_says_what_it_could_not_read() -> None:
    lines = samples.llamafactory((10, "23:59:00", {"loss": 1.0}), (20, "1 day, 0:01:00", {"loss": 1.0}))
    events, context = read(LLaMAFactory(), lines + '\n{"current_steps": 30, "elapsed_time": "soon"}\n{"current_st')
    assert steps(events)[-1].dur == 120.0
    assert context.skipped_lines == 2


def test_olmo_takes_loss_and_norm_from_the_lines_below_its_header() -> None:
    events, _ = read(OLMo(), samples.OLMO)
    assert [(step.attempt, step.step, step.loss, step.grad_norm, step.dur) for step in steps(events)] == [
        (0, 1, 10.5, 3.5, 10.0),
        (0, 2, 10.4, 3.4, 2.0),
        (0, 3, 10.3, None, 2.5),
        (0, 4, 10.2, None, 2.0),
        (1, 4, 10.21, None, 3.0),
    ]
    assert [start.resume_step for start in of(events, "attempt.start")] == [0, 3]
    assert len(of(events, "run.end")) == 1


def test_olmo_a_save_beside_training_lands_when_it_is_said_to() -> None:
    events, _ = read(OLMo(), samples.OLMO)
    assert [(save.step, save.mode, save.t - THREE) for save in of(events, "checkpoint.saved")] == [
        (2, "sync", 20.5),
        (3, "async", 23.0),
    ]
    assert [(save.step, save.t - THREE) for save in of(events, "checkpoint.persisted")] == [(3, 30.0)]


def test_composer_counts_batches_of_the_run_and_takes_evaluation_from_its_stopwatch() -> None:
    events, context = read(Composer(), samples.COMPOSER)
    assert [(step.step, step.loss) for step in steps(events)] == [(1, 9.9), (2, 9.8), (3, 9.7), (4, 9.6)]
    assert all(abs((step.dur or 0.0) - 4.0) < 0.01 for step in steps(events))
    assert [(phase.name, phase.dur) for phase in of(events, "phase")] == [("eval", 36.0)]
    assert any("hours" in note for note in context.notes)


def test_composer_without_a_stopwatch_takes_its_rate() -> None:
    text = "".join(line for line in samples.COMPOSER.splitlines(keepends=True) if "Train time/train" not in line)
    events, _ = read(Composer(), text)
    assert [step.dur for step in steps(events)] == [4.0] * 4


def test_returnn_a_step_that_falls_with_a_new_epoch_is_no_restart() -> None:
    events, _ = read(RETURNN(), samples.RETURNN)
    assert [(step.attempt, step.step, step.dur) for step in steps(events)] == [
        (0, 1, 2.5),
        (0, 2, 0.5),
        (0, 3, 0.5),
        (0, 4, 0.5),
    ]
    assert [(phase.t, phase.dur) for phase in of(events, "phase")] == [(5.0, 2.0)]
    assert [save.step for save in of(events, "checkpoint.saved")] == [2]


def test_returnn_started_again_goes_on_after_the_steps_it_names() -> None:
    again = samples.RETURNN.split("Save model")[0] + "Starting training at epoch 2, global train step 2\n"
    events, _ = read(RETURNN(), again + samples.RETURNN.split("ep 1 dev")[-1].split("\n", 1)[1])
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert of(events, "attempt.start")[-1].resume_step == 2


def test_ranks_that_print_the_same_step_are_no_restarts() -> None:
    for prefix in ("[rank{}]:", "{}: ", "[default{}]:", "worker-{} | "):
        lines = []
        for line in samples.MMCV.splitlines():
            lines += [prefix.format(rank) + line.replace("grad_norm: 5.0", f"grad_norm: 5.{rank}") for rank in range(3)]
        events, context = read(MMEngine(), "\n".join(lines))
        assert [(step.attempt, step.step) for step in steps(events)] == [(0, 50), (0, 100), (0, 150)], prefix
        assert any("ranks" in note for note in context.notes)


def test_neighbouring_lines_of_one_step_without_prefix_are_ranks_as_well() -> None:
    lines = [line.replace("loss: 1.", f"loss: {rank}.") for line in samples.MMCV.splitlines() for rank in range(3)]
    events, _ = read(MMEngine(), "\n".join(lines))
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 50), (0, 100), (0, 150)]


def test_these_adapters_are_silent_on_nothing() -> None:
    for adapter in (MMEngine(), MMEngineScalars(), Fairseq(), LLaMAFactory(), OLMo(), Composer(), RETURNN()):
        adapter_runs.assert_silent_on_nothing(adapter)
