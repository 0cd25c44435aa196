"""Lightning's metrics.csv and Keras' log: what their rows become."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adapter_runs
import samples_tables
from adapter_runs import of, read, steps
from tachograph_agent.events import Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.metrics_csv import KerasCSV, LightningCSV
from tachograph_agent.trainers.reading import open_log


def test_steps_count_from_zero_and_a_row_stands_for_all_steps_since_the_last() -> None:
    events, _ = read(LightningCSV(), samples_tables.LIGHTNING)
    assert [(step.step, step.count, step.loss) for step in steps(events)] == [
        (10, 10, 5.5),
        (20, 10, 5.1),
        (25, 5, None),
        (30, 5, 4.5),
        (40, 10, 4.1),
        (50, 10, None),
    ]


def test_the_time_of_an_epoch_is_spread_over_its_steps() -> None:
    events, context = read(LightningCSV(), samples_tables.LIGHTNING)
    assert [(step.t, step.dur) for step in steps(events)] == [
        (20.0, 20.0),
        (40.0, 20.0),
        (50.0, 10.0),
        (55.0, 5.0),
        (65.0, 10.0),
        (75.0, 10.0),
    ]
    assert any("epoch_time" in note for note in context.notes)
    assert any("train_loss_epoch is 4.2" in note for note in context.notes)


def test_without_a_time_nothing_has_a_duration_and_that_is_said() -> None:
    events, context = read(LightningCSV(), "epoch,step,train_loss,val_loss\n0,49,2.31,\n0,49,,2.28\n0,99,2.1,\n")
    assert [(step.step, step.dur, step.loss) for step in steps(events)] == [(50, None, 2.31), (100, None, 2.1)]
    assert any("how long anything took can't be known" in note for note in context.notes)
    assert of(events, "run.start")[0].checkpoints == "unseen"


def test_a_file_written_again_under_a_wider_header_is_the_same_history() -> None:
    first = "epoch,step,train_loss\n0,9,5.5\n0,19,5.1\n"
    again = "epoch,step,train_loss,val_loss\n0,9,5.5,\n0,19,5.1,\n0,19,,4.9\n0,29,4.8,\n"
    events, _ = read(LightningCSV(), first + again)
    assert [(step.attempt, step.step) for step in steps(events)] == [(0, 10), (0, 20), (0, 30)]


def test_a_second_header_before_new_rows_is_a_resume_and_no_row_of_its_own() -> None:
    events, context = read(KerasCSV(), samples_tables.KERAS)
    assert [(step.attempt, step.step, step.loss) for step in steps(events)] == [
        (0, 1, 2.31),
        (0, 2, 2.18),
        (1, 3, 2.05),
        (1, 4, 1.95),
    ]
    assert context.skipped_lines == 0
    assert any("a step here is an epoch" in note for note in context.notes)


def test_a_step_that_goes_back_with_other_values_is_a_resume() -> None:
    events, _ = read(LightningCSV(), "epoch,step,train_loss\n0,9,5.5\n0,19,5.1\n0,29,4.9\n0,19,5.2\n0,29,5.0\n")
    assert [(step.attempt, step.step, step.count) for step in steps(events)] == [
        (0, 10, 10),
        (0, 20, 10),
        (0, 30, 10),
        (1, 20, 10),
        (1, 30, 10),
    ]


def test_each_version_directory_is_an_attempt_in_the_order_of_its_number(tmp_path: Path) -> None:
    for version, first in ((0, 9), (2, 29), (10, 49)):
        folder = tmp_path / "lightning_logs" / f"version_{version}"
        folder.mkdir(parents=True)
        rows = "".join(f"0,{step},{5 - step / 100}\n" for step in (first, first + 10))
        (folder / "metrics.csv").write_text("epoch,step,train_loss\n" + rows)
        (folder / "hparams.yaml").write_text("lr: 0.001\n")
    reading = open_log([tmp_path])
    found = [event for batch in reading.batches() for event in batch]
    assert reading.format == "lightning-csv"
    assert [(step.attempt, step.step) for step in steps(found)] == [
        (0, 10),
        (0, 20),
        (1, 30),
        (1, 40),
        (2, 50),
        (2, 60),
    ]


def test_a_row_that_does_not_fit_its_header_is_counted_and_the_rest_is_read() -> None:
    events, context = read(LightningCSV(), "epoch,step,train_loss\n0,9,5.5\n0,x,5.2\n0,19\n0,29,4.9\n0,3")
    assert [step.step for step in steps(events)] == [10, 30]
    assert context.skipped_lines == 3
    assert [skip.line_number for skip in context.skips] == [3, 4, 6]


def test_a_semicolon_and_quotes_separate_as_well() -> None:
    events, _ = read(KerasCSV(), 'epoch;"my ""loss"", squared";loss\n0;1.0;2.5\n1;"0.5";2.25\n')
    assert [(step.step, step.loss) for step in steps(events)] == [(1, 2.5), (2, 2.25)]


def test_a_loss_that_is_not_finite_is_told_as_it_is() -> None:
    events, _ = read(LightningCSV(), "epoch,step,train_loss\n0,9,nan\n0,19,inf\n")
    assert [str(step.loss) for step in steps(events)] == ["nan", "inf"]


def test_nothing_comes_from_nothing() -> None:
    for adapter in (LightningCSV(), KerasCSV()):
        adapter_runs.assert_silent_on_nothing(adapter)
        assert adapter.sniff("a,b,c\n1,2,3\n") == 0.0
        assert adapter.sniff("epoch,step,train_loss\nwhen,where,why\n") == 0.0
        assert adapter.sniff("epoch,step,train_loss\n") == 0.0


def test_damage_costs_the_damaged_lines_only() -> None:
    adapter_runs.assert_survives_damage(LightningCSV(), samples_tables.LIGHTNING)
    adapter_runs.assert_survives_damage(KerasCSV(), samples_tables.KERAS)


def test_a_log_that_grows_tells_a_record_soon_and_the_same_as_when_it_is_whole() -> None:
    rows = [f"0,{step},{5 - step / 100}" for step in range(9, 100, 10)]
    given: list[int] = []

    def lines() -> Iterator[str]:
        yield "epoch,step,train_loss"
        for number, row in enumerate(rows):
            assert len(given) >= number - 3, "records wait for more than three rows"
            yield row

    for event in LightningCSV().read(lines(), Context(run="r7")):
        if isinstance(event, Step):
            given.append(event.step)  # noqa: PERF401 - the lines look at what was given before
    assert given == list(range(10, 101, 10))
