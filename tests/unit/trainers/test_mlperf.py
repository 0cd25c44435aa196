"""MLPerf logs: start-up, steps from whatever the log tells, evaluations, and how it ended."""

from __future__ import annotations

import json
from typing import Any

import pytest
from adapter_runs import START, assert_silent_on_nothing, assert_survives_damage, of, read, steps
from tachograph_agent.trainers.mlperf import MLPerf

ADAPTER = MLPerf()


def line(at_s: float, key: str, value: Any = None, **metadata: Any) -> str:
    told = {"namespace": "", "time_ms": round((START + at_s) * 1000), "event_type": "POINT_IN_TIME", "key": key}
    return ":::MLLOG " + json.dumps({**told, "value": value, "metadata": {"file": "train.py", "lineno": 7, **metadata}})


HEAD = [line(-5.0, "cache_clear", True), line(3.0, "init_start"), line(0.0, "init_start"), line(90.0, "init_stop")]
SIZES = [line(10.0, "global_batch_size", 8), line(10.0, "max_sequence_length", 100)]
END = line(200.0, "run_stop", status="success")


def timing(at_s: float, dur: float, position: int) -> str:
    return line(at_s, "tracked_stats", {"train_step_timing": dur}, step=position)


TIMED = [
    *HEAD, *SIZES, line(100.0, "run_start"), line(100.1, "block_start", first_epoch_num=0, epoch_count=2400),
    timing(112.0, 11.5, 800), timing(123.0, 11.0, 1600), timing(134.0, 11.0, 2400), line(134.0, "block_stop"),
    line(134.0, "eval_start", epoch_num=2400), line(144.0, "eval_accuracy", 2.7, epoch_num=2400),
    line(144.5, "eval_stop", epoch_num=2400), timing(156.0, 11.0, 3200), END,
]  # fmt: skip


def test_the_run_begins_with_the_earliest_rank_and_ends_as_run_stop_says() -> None:
    events, context = read(ADAPTER, "\n".join(TIMED))
    (start,), (attempt,), (end,) = (of(events, kind) for kind in ("run.start", "attempt.start", "run.end"))
    assert (start.t, start.checkpoints, attempt.t) == (START, "unseen", START)
    assert (end.t, end.status) == (START + 200.0, "completed")
    assert context.skipped_lines == 0


def test_step_timings_are_steps_counted_from_one() -> None:
    events, _ = read(ADAPTER, "\n".join(TIMED))
    assert [(s.step, s.t - START, s.dur, s.count, s.tokens) for s in steps(events)] == [
        (1, 112.0, 11.5, 1, 800.0),
        (2, 123.0, 11.0, 1, 800.0),
        (3, 134.0, 11.0, 1, 800.0),
        (4, 156.0, 11.0, 1, 800.0),
    ]
    assert [(p.name, p.t - START, p.dur) for p in of(events, "phase")] == [("eval", 144.5, 10.5)]


def test_several_ranks_that_time_the_same_step_are_one() -> None:
    lines = [*TIMED[:-5], timing(134.002, 11.1, 2400), *TIMED[-5:]]
    assert [s.step for s in steps(read(ADAPTER, "\n".join(lines))[0])] == [1, 2, 3, 4]


def test_without_timings_the_stretch_before_an_evaluation_is_one_record_of_its_steps() -> None:
    lines = [
        *HEAD, *SIZES, line(100.0, "run_start"), line(102.0, "block_start", first_epoch_num=0),
        line(130.0, "eval_start", epoch_num=2400), line(140.0, "eval_stop", epoch_num=2400),
        line(170.0, "eval_start", epoch_num=4800), line(180.0, "eval_stop", epoch_num=4800),
        line(180.0, "epoch_stop", epoch_num=4800),
        END,
    ]  # fmt: skip
    found = steps(read(ADAPTER, "\n".join(lines))[0])
    assert [(s.step, s.count, s.dur, s.t - START) for s in found] == [(3, 3, 30.0, 130.0), (6, 3, 30.0, 170.0)]


def test_where_only_epochs_are_told_a_step_is_an_epoch_and_a_note_says_so() -> None:
    ends = [(110.0, "epoch_start", 1), (119.0, "epoch_stop", 1), (120.0, "epoch_start", 2), (129.0, "epoch_stop", 2)]
    epochs = [line(at_s, key, epoch_num=number) for at_s, key, number in ends]
    events, context = read(ADAPTER, "\n".join([*HEAD, line(105.0, "run_start"), *epochs, END]))
    assert [(s.step, s.dur) for s in steps(events)] == [(1, 14.0), (2, 9.0)]
    assert any("one epoch" in note for note in context.notes)


@pytest.mark.parametrize(("told", "status"), [("aborted", "failed"), ("success", "completed")])
def test_an_aborted_run_is_no_success(told: str, status: str) -> None:
    lines = ["+ srun --ntasks=2 bash -c ...", *TIMED[:-1], line(200.0, "run_stop", status=told)]
    assert [e.status for e in of(read(ADAPTER, "\n".join(lines))[0], "run.end")] == [status]


def test_an_unknown_status_is_said_and_ends_nothing() -> None:
    events, context = read(ADAPTER, "\n".join([*TIMED[:-1], line(200.0, "run_stop")]))
    assert of(events, "run.end") == []
    assert any("neither success nor aborted" in note for note in context.notes)


def test_a_second_start_without_a_stop_is_another_attempt_and_after_a_stop_another_run() -> None:
    later = [line(1000.0, "init_start"), line(1010.0, "run_start"), timing(1020.0, 9.0, 800)]
    crashed, _ = read(ADAPTER, "\n".join([*TIMED[:-1], *later]))
    assert [(s.step, s.attempt) for s in steps(crashed)] == [(1, 0), (2, 0), (3, 0), (4, 0), (1, 1)]
    assert of(crashed, "run.end") == []
    again, _ = read(ADAPTER, "\n".join([*TIMED, *later]))
    assert len(of(again, "run.end")) == 1
    assert [(a.attempt, a.resume_step) for a in of(again, "attempt.start")] == [(0, 0), (1, 0)]


def test_broken_lines_are_counted_with_their_reason() -> None:
    bad = [":::MLLOG", ':::MLLOG {"key": "x", "time_ms": "noon"}', ':::MLLOG {"time_ms": 5}', TIMED[3][:60]]
    events, context = read(ADAPTER, "\n".join([*bad, *TIMED]))
    assert context.skipped_lines == 4
    assert len(steps(events)) == 4


def test_glued_lines_are_two() -> None:
    lines = [*TIMED[:8], TIMED[8] + TIMED[9], *TIMED[10:]]
    assert [s.step for s in steps(read(ADAPTER, "\n".join(lines))[0])] == [1, 2, 3, 4]


def test_damage_never_raises() -> None:
    assert_survives_damage(ADAPTER, "\n".join([*HEAD[1:3], *TIMED[6:10], *TIMED[12:]]))
    assert_silent_on_nothing(ADAPTER)
    assert ADAPTER.sniff(TIMED[0]) > 0.9
