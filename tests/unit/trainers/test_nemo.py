"""NeMo's console and its progress bar: what they become."""

from __future__ import annotations

import adapter_runs
import samples_tables
from adapter_runs import of, steps
from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.nemo import NeMo


def read(text: str) -> tuple[list[AnyEvent], Context]:
    context = Context(run="r7")
    return list(NeMo().read(text.replace("\r", "\n").split("\n"), context)), context


def test_the_global_step_counts_from_zero_and_a_line_stands_for_all_steps_since_the_last() -> None:
    events, context = read(samples_tables.nemo2())
    assert [(step.step, step.count, step.dur, step.loss) for step in steps(events)] == [
        (1, 1, 2.0, 9.0),
        (11, 10, 20.0, 8.9),
        (21, 10, 20.0, 8.8),
        (31, 10, 20.0, 8.7),
        (41, 10, 20.0, 8.6),
    ]
    assert not context.has_clock


def test_a_save_is_told_with_its_time_and_goes_on_the_timeline() -> None:
    events, _ = read(samples_tables.NEMO_2)
    assert [(save.step, save.mode, save.dur, save.t) for save in of(events, "checkpoint.saved")] == [
        (11, "sync", 5.5, 27.5)
    ]


def test_an_asynchronous_save_blocks_nothing_and_lands_when_it_is_finalized() -> None:
    events, _ = read(
        samples_tables.nemo2(0, 20)
        + "[NeMo I] Scheduled async checkpoint save for /out/step=11\n"
        + "[NeMo I] Global Checkpoint Save : Rank: 0 : Iteration: 11 : Start time: 1.0s : Save duration: 0.5s\n"
        + samples_tables.nemo2(20, 40)
        + "[NeMo I] Async checkpoint save for step 11 (/out/step=11) finalized successfully.\n"
    )
    assert [(save.step, save.mode, save.t) for save in of(events, "checkpoint.saved")] == [(11, "async", 22.0)]
    assert [(save.step, save.t) for save in of(events, "checkpoint.persisted")] == [(11, 62.0)]


def test_a_global_step_that_goes_back_is_a_new_attempt() -> None:
    events, _ = read(samples_tables.NEMO_2)
    assert [start.attempt for start in of(events, "attempt.start")] == [0, 1]
    assert [(step.step, step.count) for step in steps(events) if step.attempt == 1] == [
        (12, 10),
        (22, 10),
        (32, 10),
        (42, 10),
    ]


def test_a_bar_drawn_again_and_again_tells_each_step_once_on_the_bars_own_time() -> None:
    events, _ = read(samples_tables.NEMO_1)
    assert [step.step for step in steps(events)] == list(range(1, 21))
    assert {step.dur for step in steps(events)} == {2.9}
    assert steps(events)[-1].t == 30 + 19 * 3


def test_the_next_epochs_bar_goes_on_where_the_last_one_ended() -> None:
    events, _ = read(samples_tables.nemo1(0, 10, 30) + samples_tables.nemo1(10, 20, 3).replace("Epoch 0", "Epoch 1"))
    assert [step.step for step in steps(events)] == list(range(1, 21))
    assert (steps(events)[9].t, steps(events)[10].t) == (57.0, 60.0)


def test_a_line_without_a_timing_has_no_duration() -> None:
    events, _ = read(samples_tables.nemo2().replace("train_step_timing in s: 2.0", "train_step_timing in s: nan"))
    assert [step.dur for step in steps(events)] == [None] * 5


def test_a_cut_off_line_is_counted() -> None:
    events, context = read(samples_tables.nemo2() + "Training epoch 0, iteration 50/9")
    assert len(steps(events)) == 5
    assert context.skipped_lines == 1


def test_nothing_comes_from_nothing() -> None:
    adapter_runs.assert_silent_on_nothing(NeMo())
    assert NeMo().sniff("Epoch 1: 100%|####| 10/10 [00:01<00:00, 9.9it/s, loss=2.3]\n") == 0.0


def test_damage_costs_the_damaged_lines_only() -> None:
    adapter_runs.assert_survives_damage(NeMo(), samples_tables.NEMO_2)
    adapter_runs.assert_survives_damage(NeMo(), samples_tables.nemo1(0, 4).replace("\r", "\n"))
