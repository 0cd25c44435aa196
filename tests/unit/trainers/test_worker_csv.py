"""Step times of workers: what their rows become."""

from __future__ import annotations

from pathlib import Path

import adapter_runs
import samples_tables
from adapter_runs import of, read, steps
from tachograph_agent.trainers.reading import open_log
from tachograph_agent.trainers.worker_csv import WorkerCSV


def test_a_step_lasts_as_long_as_its_slowest_worker_and_each_tells_its_own_part() -> None:
    events, context = read(WorkerCSV(), samples_tables.WORKERS)
    assert [(step.rank, step.step, step.dur, step.busy_s) for step in steps(events)] == [
        (0, 1, 0.41, 0.4),
        (1, 1, 0.41, 0.41),
        (2, 1, 0.41, 0.39),
        (0, 2, 0.9, 0.405),
        (1, 2, 0.9, 0.9),
        (2, 2, 0.9, 0.395),
        (0, 3, 0.41, 0.4),
        (1, 3, 0.41, 0.41),
        (2, 3, 0.41, 0.39),
    ]
    assert [step.t for step in steps(events)][::3] == [0.41, 1.31, 1.72]
    assert any("synchronous" in note for note in context.notes)
    assert any("no numbers" in note for note in context.notes)
    assert not any("no unit" in note for note in context.notes)


def test_a_time_without_a_unit_is_said_to_be_one() -> None:
    _, context = read(WorkerCSV(), "worker,step,batch_time_norm\n0,1,400\n1,1,500\n")
    assert any("no unit; milliseconds were taken" in note for note in context.notes)


def test_a_column_that_counts_steps_numbers_them_and_zero_is_the_first() -> None:
    events, _ = read(WorkerCSV(), "rank,step,step_time_s\n0,0,1.5\n1,0,1.0\n0,1,1.5\n1,1,1.0\n")
    assert [(step.rank, step.step) for step in steps(events)] == [(0, 1), (1, 1), (0, 2), (1, 2)]


def test_a_file_for_each_worker_gives_its_number(tmp_path: Path) -> None:
    for worker in range(3):
        rows = "".join(f"{step},{0.5 + worker / 10}\n" for step in range(4))
        (tmp_path / f"worker_{worker}.csv").write_text("step,step_time_s\n" + rows)
    reading = open_log([tmp_path])
    found = [event for batch in reading.batches() for event in batch]
    assert reading.format == "worker-csv"
    assert {step.rank for step in steps(found)} == {0, 1, 2}
    assert [(step.step, step.dur) for step in steps(found)][::3] == [(1, 0.7), (2, 0.7), (3, 0.7), (4, 0.7)]


def test_workers_with_names_are_numbered_as_they_appear() -> None:
    events, _ = read(WorkerCSV(), "worker,step,step_time_s\nlion,1,1.5\ntiger,1,1.0\nlion,2,1.5\n")
    assert [(step.rank, step.step) for step in steps(events)] == [(0, 1), (1, 1), (0, 2)]


def test_rows_that_cannot_be_are_counted() -> None:
    text = "worker,step,step_time_s\n0,1,1.5\n0,x,1\n0,3,-1\n0,4,nan\n,5,1\n0,6,99999999999\n0,7,2.0\n"
    events, context = read(WorkerCSV(), text)
    assert [step.step for step in steps(events)] == [1, 7] or [step.step for step in steps(events)] == [1, 2]
    assert context.skipped_lines == 5


def test_nothing_comes_from_nothing() -> None:
    adapter_runs.assert_silent_on_nothing(WorkerCSV())
    assert WorkerCSV().sniff("worker,step,step_time_s\n") == 0.0
    assert WorkerCSV().sniff("worker,step,step_time_s\na,b,c\n") == 0.0
    assert of(read(WorkerCSV(), "worker,step,step_time_s\n")[0], "run.start") == []


def test_damage_costs_the_damaged_lines_only() -> None:
    adapter_runs.assert_survives_damage(WorkerCSV(), samples_tables.WORKERS)
