"""What happens between Megatron's records: saves, evaluations, loads, failures, ends and fresh starts."""

from __future__ import annotations

from adapter_runs import of, read, steps
from megatron_lines_made_up import BEGIN_S, EVALUATED, LOADED, SAVED, SAVING, SCHEDULED, mark, record
from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.megatron import Megatron

ADAPTER = Megatron()
WATCHDOG = (
    "[rank{rank}]:[E102 03:{minute:02d}:00.500000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000)"
    " ran for 600013 milliseconds before timing out."
)


def told(*lines: str) -> list[AnyEvent]:
    return read(ADAPTER, "\n".join(lines))[0]


def test_a_save_takes_the_time_that_the_records_leave_out() -> None:
    events = told(record(1, 2.0), record(2, 4.0), SAVING.format(2), SAVED.format(2), record(3, 16.0), record(4, 18.0))
    (start,), (saved,) = of(events, "checkpoint.start"), of(events, "checkpoint.saved")
    assert (start.step, start.t - BEGIN_S, start.mode) == (2, 4.0, "sync")
    assert (saved.step, saved.t - BEGIN_S, saved.mode) == (2, 14.0, "sync")


def test_a_save_between_two_lines_begins_when_its_step_was_done() -> None:
    events = told(record(10, 20.0), record(20, 40.0), SAVING.format(25), SAVED.format(25), record(30, 70.0))
    (start,), (saved,) = of(events, "checkpoint.start"), of(events, "checkpoint.saved")
    assert (start.t - BEGIN_S, saved.t - BEGIN_S) == (60.0, 70.0)
    assert len(steps(events)) == 3


def test_an_asynchronous_save_goes_on_at_once_and_lands_later() -> None:
    events = told(
        record(1, 2.0), record(2, 4.0), SAVING.format(2), SCHEDULED.format(2), record(3, 7.0), record(4, 9.0),
        SAVED.format(2), record(5, 11.0), record(6, 13.0),
    )  # fmt: skip
    (start,), (saved,), (landed,) = (of(events, f"checkpoint.{kind}") for kind in ("start", "saved", "persisted"))
    assert (start.t - BEGIN_S, start.mode) == (4.0, "async")
    assert (saved.t - BEGIN_S, saved.mode) == (5.0, "async")
    assert (landed.step, landed.tier) == (2, "storage")
    assert 9.0 <= landed.t - BEGIN_S <= 11.0


def test_a_local_save_is_no_landed_one() -> None:
    line = "  successfully saved local checkpoint from iteration       2"
    (landed,) = of(told(record(1, 2.0), record(2, 4.0), line, record(3, 6.0)), "checkpoint.persisted")
    assert (landed.step, landed.tier) == (2, "local")


def test_a_save_that_a_crash_cut_off_is_never_closed() -> None:
    events = told(record(1, 2.0), record(2, 4.0), SAVING.format(2), record(1, 60.0), record(2, 62.0))
    assert [(e.step, e.attempt) for e in of(events, "checkpoint.start")] == [(2, 0)]
    assert of(events, "checkpoint.saved") == []


def test_a_save_whose_length_nobody_knows_has_none_and_is_not_left_open() -> None:
    events = told(record(1, 2.0), record(2, 4.0), SAVING.format(2), SAVED.format(2))
    assert of(events, "checkpoint.start") == []
    assert [(e.step, e.t - BEGIN_S) for e in of(events, "checkpoint.saved")] == [(2, 4.0)]


def test_a_start_that_does_not_say_what_it_resumed_is_noted() -> None:
    _, context = read(ADAPTER, "\n".join([record(8, 2.0), record(9, 4.0), record(8, 62.0), record(9, 64.0)]))
    assert any("first record shows how far back" in note for note in context.notes)


def test_a_timer_tells_how_long_a_save_took_where_no_clock_does() -> None:
    timer = "    save-checkpoint ................................: (5000.00, 5100.00)"
    lines = [
        record(1),
        record(2),
        SAVING.format(2),
        SAVED.format(2),
        "(min, max) time across ranks (ms):",
        timer,
        record(3),
    ]
    events = told(*lines, record(4))
    (start,), (saved,) = of(events, "checkpoint.start"), of(events, "checkpoint.saved")
    assert (start.t, saved.t) == (4.0, 9.0)
    assert [s.t for s in steps(events)] == [2.0, 4.0, 11.0, 13.0]


def test_an_evaluation_fills_its_gap() -> None:
    events = told(
        record(1, 2.0), record(2, 4.0), "-" * 80, EVALUATED.format(2), "-" * 80, record(3, 13.0), record(4, 15.0)
    )
    (phase,) = of(events, "phase")
    assert (phase.name, phase.t - BEGIN_S, phase.dur) == ("eval", 11.0, 7.0)


def test_an_evaluation_and_a_save_in_one_gap_are_parted_by_what_was_seen_before() -> None:
    events = told(
        record(1, 2.0), record(2, 4.0), EVALUATED.format(2), record(3, 9.0), record(4, 11.0), EVALUATED.format(4),
        SAVING.format(4), SAVED.format(4), record(5, 26.0), record(6, 28.0),
    )  # fmt: skip
    assert [round(p.dur, 3) for p in of(events, "phase")] == [3.0, 3.0]
    (start,), (saved,) = of(events, "checkpoint.start"), of(events, "checkpoint.saved")
    assert (start.t - BEGIN_S, saved.t - BEGIN_S) == (14.0, 24.0)


def test_a_load_line_opens_an_attempt_and_tells_what_it_resumed() -> None:
    events = told(
        "using world size: 64, data-parallel size: 8", mark("before the start of training step", 0.0),
        record(10, 20.0), record(20, 40.0), "using world size: 32, data-parallel size: 4", LOADED.format(20),
        mark("before the start of training step", 100.0), record(21, 104.0), record(30, 122.0),
    )  # fmt: skip
    starts = of(events, "attempt.start")
    assert [(s.attempt, s.resume_step, s.world_size, s.t - BEGIN_S) for s in starts] == [
        (0, None, 64, 0.0),
        (1, 20, 32, 100.0),
    ]
    assert [(s.step, s.count, s.attempt) for s in steps(events)] == [(10, 10, 0), (20, 10, 0), (21, 1, 1), (30, 9, 1)]


def test_a_log_without_a_save_cannot_say_what_is_at_risk() -> None:
    lines = [record(1, 2.0), record(2, 4.0)]
    (start,) = of(told(*lines), "run.start")
    assert (start.checkpoints, start.t - BEGIN_S) == ("unseen", 0.0)
    (start,) = of(told(*lines, SAVING.format(2), SAVED.format(2)), "run.start")
    assert start.checkpoints is None


def test_a_fresh_start_after_the_end_is_another_run_and_after_a_crash_another_attempt() -> None:
    first = [record(1, 2.0), record(2, 4.0), SAVING.format(2), SAVED.format(2)]
    done = mark("after training is done", 10.0)
    again = [mark("before the start of training step", 100.0), record(1, 102.0), record(2, 104.0)]
    events = told(*first, done, *again)
    assert [(e.status, e.t - BEGIN_S) for e in of(events, "run.end")] == [("completed", 10.0)]
    assert sorted(e.t - BEGIN_S for e in of(events, "run.start")) == [0.0, 100.0]
    assert [(e.resume_step, e.attempt) for e in of(events, "attempt.start")] == [(0, 1)]
    assert of(told(*first, *again), "run.end") == []


def test_an_ordered_exit_is_no_failure() -> None:
    events = told(record(1, 2.0), record(2, 4.0), mark("exiting program at iteration 2", 9.0), record(3, 100.0))
    (end,) = of(events, "attempt.end")
    assert (end.planned, end.attempt, end.t - BEGIN_S) == (True, 0, 9.0)
    assert of(events, "failure") == []


def test_failure_lines_between_the_records_are_one_failure_of_the_attempt_they_ended() -> None:
    lines = [WATCHDOG.format(rank=rank, minute=30, seq=77) for rank in (3, 9)]
    events = told(record(1, 2.0), record(2, 4.0), *lines, LOADED.format(1), record(2, 3600.0), record(3, 3602.0))
    (failure,) = of(events, "failure")
    assert (failure.category, failure.attempt, failure.t - BEGIN_S) == ("collective_timeout", 0, 1800.5)
    assert failure.dur == 600.013
    assert failure.unknown_fields["ranks"] == [3, 9]
    assert [s.attempt for s in steps(events)] == [0, 0, 1, 1]


def test_an_error_that_training_survived_is_no_failure() -> None:
    trace = ["Traceback (most recent call last):", "ValueError: a made-up one"]
    events, context = read(ADAPTER, "\n".join([record(1, 2.0), record(2, 4.0), *trace, record(3, 6.0), record(4, 8.0)]))
    assert of(events, "failure") == []
    assert context.counters["errors that training survived"] == 1


def test_failure_lines_alone_give_no_steps() -> None:
    events = told(WATCHDOG.format(rank=3, minute=30, seq=77))
    assert [event.kind for event in events] == ["failure"]


def test_an_old_record_stands_where_its_time_says_and_in_the_attempt_of_that_time() -> None:
    lines = [record(i, 2.0 * i) for i in (1, 2, 3)]
    events = told(*lines, record(2, 60.0), record(3, 62.0), lines[1], record(4, 64.0))
    assert [(s.step, s.t - BEGIN_S, s.attempt) for s in steps(events)][-3:] == [(3, 62.0, 1), (2, 4.0, 0), (4, 64.0, 1)]


def test_a_clock_that_jumps_makes_no_evaluation_of_years() -> None:
    years = 3 * 366 * 86_400.0
    events = told(
        record(1, 2.0), record(2, 4.0), EVALUATED.format(2), record(3, years), EVALUATED.format(3),
        record(4, years + 5.0),
    )  # fmt: skip
    assert [phase.dur for phase in of(events, "phase")] == [3.0]
    assert [step.step for step in steps(events)] == [1, 2, 3, 4]


def test_a_first_record_does_not_stand_for_years() -> None:
    slow = 200 * 86_400_000.0
    events = told(record(700, None, ms=slow), record(710, None), record(720, None))
    assert [(step.step, step.count, step.dur) for step in steps(events)] == [
        (700, 1, slow / 1000),
        (710, 10, 20.0),
        (720, 10, 20.0),
    ]
