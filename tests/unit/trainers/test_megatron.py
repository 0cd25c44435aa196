"""Megatron's output: records become steps, in whatever shape, unit and order they come."""

from __future__ import annotations

import math
from datetime import timedelta, timezone

import pytest
from adapter_runs import assert_silent_on_nothing, assert_survives_damage, of, read, steps
from megatron_lines_made_up import BEGIN_S, EVALUATED, LOADED, SAVED, SAVING, SCHEDULED, mark, record
from tachograph_agent.trainers import megatron_reader
from tachograph_agent.trainers.megatron import Megatron
from tachograph_agent.trainers.megatron_columns import Columns

ADAPTER = Megatron()


def log(*lines: str) -> str:
    return "\n".join(lines)


def every(interval: int, upto: int, *, begin_s: float = 0.0, ms: float = 2000.0) -> list[str]:
    return [record(i, begin_s + i * ms / 1000, ms=ms) for i in range(interval, upto + 1, interval)]


def test_a_record_is_the_step_that_ended_at_its_time() -> None:
    events, context = read(ADAPTER, log(record(1, 20.0, ms=9000.0), record(2, 22.0), record(3, 24.5, ms=2500.0)))
    found = steps(events)
    assert [(s.step, s.t - BEGIN_S, s.dur, s.count) for s in found] == [
        (1, 20.0, 9.0, 1),
        (2, 22.0, 2.0, 1),
        (3, 24.5, 2.5, 1),
    ]
    assert context.has_clock


def test_the_loss_is_the_language_models_and_not_the_routers() -> None:
    events, _ = read(ADAPTER, log(record(1, 2.0, loss="3.250000E+00"), record(2, 4.0, loss="3.125000E+00")))
    assert [(s.loss, s.grad_norm) for s in steps(events)] == [(3.25, 0.512), (3.125, 0.512)]


def test_a_line_stands_for_all_iterations_since_the_last() -> None:
    events, _ = read(ADAPTER, log(record(1, 3.0, ms=3000.0), record(10, 21.0), record(20, 41.0), record(30, 61.0)))
    assert [(s.step, s.count, s.dur) for s in steps(events)] == [
        (1, 1, 3.0),
        (10, 9, 18.0),
        (20, 10, 20.0),
        (30, 10, 20.0),
    ]


def test_the_first_line_of_an_excerpt_stands_for_a_whole_interval_of_its_log() -> None:
    events, _ = read(ADAPTER, log(record(700, 20.0), record(710, 40.0)))
    assert [(s.step, s.count, s.dur) for s in steps(events)] == [(700, 10, 20.0), (710, 10, 20.0)]


def test_seconds_and_milliseconds_are_told_apart() -> None:
    old = log(*(record(i, unit="s", ms=105_500.0) for i in (7, 8)))
    assert [s.dur for s in steps(read(ADAPTER, old)[0])] == [105.5, 105.5]


def test_tokens_come_from_batch_and_sequence_length_and_follow_a_growing_batch() -> None:
    lines = [record(i, 2.0 * i, tokens=2048, batch=128 if i < 4 else 256) for i in range(1, 7)]
    assert [s.tokens for s in steps(read(ADAPTER, log(*lines))[0])] == [128 * 2048.0] * 3 + [256 * 2048.0] * 3
    assert steps(read(ADAPTER, log(record(1, 2.0), record(2, 4.0)))[0])[0].tokens is None


def test_a_falling_number_is_a_new_attempt_though_nothing_says_so() -> None:
    lines = [*every(1, 6), record(4, 60.0), record(5, 62.0)]
    events, _ = read(ADAPTER, log(*lines))
    assert [(s.step, s.attempt) for s in steps(events)] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 0),
        (5, 0),
        (6, 0),
        (4, 1),
        (5, 1),
    ]
    (start,) = of(events, "attempt.start")
    assert (start.attempt, start.resume_step, start.t - BEGIN_S) == (1, None, 58.0)


@pytest.mark.parametrize("has_times", [True, False])
def test_rows_that_a_logger_wrote_again_are_no_attempt(has_times: bool) -> None:
    rows = [record(i, 2.0 * i if has_times else None, ms=2000.0 + i, loss=f"{3 - i / 10:.6E}") for i in range(1, 9)]
    events, _ = read(ADAPTER, log(*rows[:6], *rows))
    assert {s.attempt for s in steps(events)} == {0}
    assert {(s.step, s.t, s.dur) for s in steps(events)} == {
        (s.step, s.t, s.dur) for s in steps(read(ADAPTER, log(*rows))[0])
    }


def test_one_record_printed_by_several_ranks_is_one_step() -> None:
    lines = [f"[rank{rank}]:{record(i, 2.0 * i + rank / 1000)}" for i in range(1, 5) for rank in (6, 7)]
    events, context = read(ADAPTER, log(*lines))
    assert [s.step for s in steps(events)] == [1, 2, 3, 4]
    assert context.counters["repeated records"] == 4


def test_missing_lines_are_a_hole_and_no_restart() -> None:
    events, _ = read(ADAPTER, log(*every(1, 4), "[...]", record(30, 60.0), record(31, 62.0)))
    assert [(s.step, s.count, s.attempt) for s in steps(events)[3:]] == [(4, 1, 0), (30, 1, 0), (31, 1, 0)]


def test_without_a_clock_the_timeline_is_made_of_durations_and_holes_count() -> None:
    lines = log(record(11), record(12), "[...]", record(15), record(16))
    events, context = read(ADAPTER, lines)
    assert [(s.step, s.t) for s in steps(events)] == [(11, 2.0), (12, 4.0), (15, 10.0), (16, 12.0)]
    assert not context.has_clock
    assert any("no clock" in note for note in context.notes)
    placed, _ = read(ADAPTER, lines, start_unix_seconds=BEGIN_S)
    assert [s.t - BEGIN_S for s in steps(placed)] == [2.0, 4.0, 10.0, 12.0]


def test_a_start_line_with_a_date_places_records_without_times() -> None:
    lines = log(
        mark("before the start of training step", 100.0), record(1), record(2),
        mark("before the start of training step", 400.0), record(2, ms=4000.0), record(3),
    )  # fmt: skip
    events, context = read(ADAPTER, lines)
    assert [(s.step, s.t - BEGIN_S, s.attempt) for s in steps(events)] == [
        (1, 102.0, 0),
        (2, 104.0, 0),
        (2, 404.0, 1),
        (3, 406.0, 1),
    ]
    assert context.has_clock
    assert [a.t - BEGIN_S for a in of(events, "attempt.start")] == [100.0, 400.0]


def test_local_times_are_read_in_the_zone_that_is_told_and_else_a_note_says_utc() -> None:
    lines = log(record(1, 2.0), record(2, 4.0))
    _, context = read(ADAPTER, lines)
    assert any("UTC was taken" in note for note in context.notes)
    events, context = read(ADAPTER, lines, tz=timezone(timedelta(hours=8)))
    assert steps(events)[0].t == BEGIN_S + 2.0 - 8 * 3600
    assert not any("UTC" in note for note in context.notes)


def test_a_loss_that_is_not_there_is_unknown_and_counters_of_trouble_are_kept() -> None:
    lines = log(
        record(1, 2.0), record(2, 4.0, loss=None, nans=1), record(3, 6.0, loss="NaN", skipped=1), record(4, 8.0)
    )
    found = steps(read(ADAPTER, lines)[0])
    assert found[1].loss is None
    assert found[1].unknown_fields == {"nan_iterations": 1}
    assert found[2].loss is not None
    assert math.isnan(found[2].loss)
    assert found[2].unknown_fields == {"skipped": 1}
    assert (found[3].loss, found[3].step) == (2.5, 4)


def test_glued_records_are_two() -> None:
    lines = log(record(1, 2.0), record(2, 4.0) + record(3, 6.0), record(4, 8.0))
    assert [(s.step, s.t - BEGIN_S, s.loss) for s in steps(read(ADAPTER, lines)[0])] == [
        (i, 2.0 * i, 2.5) for i in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("cut", [(40, 90), (75, 160), (130, 200)])
def test_a_record_wrapped_over_three_lines_is_one(cut: tuple[int, int]) -> None:
    whole = record(3, 6.0)
    wrapped = [whole[: cut[0]], whole[cut[0] : cut[1]], whole[cut[1] :]]
    events, context = read(ADAPTER, log(record(1, 2.0), record(2, 4.0), *wrapped, record(4, 8.0)))
    assert [(s.step, s.dur, s.loss) for s in steps(events)] == [(i, 2.0, 2.5) for i in (1, 2, 3, 4)]
    assert context.skipped_lines == 0


@pytest.mark.parametrize("length", [40, 60, 100, 128])
def test_a_cut_last_record_is_counted_and_costs_nothing_else(length: int) -> None:
    events, context = read(ADAPTER, log(record(1, 2.0), record(2, 4.0), record(3, 6.0)[:length]))
    assert [s.step for s in steps(events)] == [1, 2]
    assert context.skipped_lines == 1
    assert context.skips[0].line_number == 3


def test_a_number_or_a_duration_beyond_belief_is_skipped_and_the_rest_read() -> None:
    lines = [record(1), record(2), record(10**17), record(3), record(4, ms=1e15), record(5)]
    events, context = read(ADAPTER, log(*lines))
    assert [s.step for s in steps(events)] == [1, 2, 3, 5]
    assert context.skipped_lines == 2


def test_prefixes_and_colours_are_taken_off() -> None:
    colour = "\x1b[32m{}\x1b[0m"
    for dress in ("[default7]:{}", "[rank15]: {}", " 7: {}", "worker-2 | {}", colour, "[rank15]:" + colour):
        events, _ = read(ADAPTER, log(*(dress.format(line) for line in every(1, 4))))
        assert [(s.step, s.t - BEGIN_S, s.loss) for s in steps(events)] == [(i, 2.0 * i, 2.5) for i in (1, 2, 3, 4)], (
            dress
        )


@pytest.mark.parametrize("has_norm", [True, False])
def test_the_fast_path_says_what_the_slow_path_says(monkeypatch: pytest.MonkeyPatch, has_norm: bool) -> None:
    norm = "{:.3f}" if has_norm else None
    lines = [
        record(i, 2.0 * i, ms=2000.0 + i, loss=f"{2 + 1 / i:.6E}", grad_norm=norm and norm.format(i / 7))
        for i in range(1, 60)
    ]
    lines[40:40] = [SAVING.format(40), SAVED.format(40)]
    lines.insert(20, record(20, 40.0, loss=None, nans=1))
    fast, _ = read(ADAPTER, log(*lines))
    monkeypatch.setattr(megatron_reader, "columns_of", lambda line, *, has_times: Columns())
    slow, _ = read(ADAPTER, log(*lines))
    for one, other in zip(fast, slow, strict=True):
        assert (one.kind, one.t) == (other.kind, other.t)
        assert getattr(one, "loss", 0) == getattr(other, "loss", 0)
        assert getattr(one, "grad_norm", 0) == getattr(other, "grad_norm", 0)
        assert one.dur == pytest.approx(other.dur)


def test_damage_never_raises() -> None:
    text = log(
        mark("before the start of training step", 0.0), *every(10, 30), SAVING.format(30), SAVED.format(30),
        EVALUATED.format(30), "[rank7]:[E102 03:10:28.123456789 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught"
        " collective operation timeout: WorkNCCL(SeqNum=44, OpType=ALLREDUCE, NumelIn=5, NumelOut=5,"
        " Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
        LOADED.format(30), record(31, 900.0), record(40, 918.0), SAVING.format(40), SCHEDULED.format(40),
        record(50, 940.0), SAVED.format(40), "[after training is done] datetime: 2030-01-02 03:20:00 ",
    )  # fmt: skip
    assert_survives_damage(ADAPTER, text)
    assert_silent_on_nothing(ADAPTER)


def test_the_format_is_recognised_by_its_records() -> None:
    assert ADAPTER.sniff(log("loading", record(1, 2.0))) > 0.9
    assert ADAPTER.sniff(log("loading", SAVING.format(10))) > 0.5
    assert ADAPTER.sniff("step: 1 loss: 2.0") == 0.0
