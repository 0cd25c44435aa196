"""Phases as rules 2, 3, 5, 6 and 9 of ``docs/ledger.md`` use them: told with or without ``dur``, at once, across saves.

Steps take 2 s unless a test says otherwise; ``four`` is (kept, checkpoint, lost, restart) in seconds.
"""

from __future__ import annotations

import itertools

import pytest
from ledger_oracle.answers import Read, answers_of, differences, ledger_answers
from ledger_oracle.build import Log
from ledger_oracle.feeding import little_memory
from tachograph_collector.ledger import Ledger


def begun() -> Log:
    """Five steps from 10 to 20."""
    return Log().start(0).up(0, resume=0).steps(10, 1, 5)


def saved() -> Log:
    """Five steps from 10 to 20, a save to 25, five steps more to 35."""
    return begun().save(5, 20, 25).steps(25, 6, 10)


# ---- phases told without dur


def test_phase_without_dur_begins_with_its_start(read: Read) -> None:
    log = begun().own("phase.start", 22, name="eval").own("phase", 40, name="eval").steps(40, 6, 7).end(44)
    assert read(log).s("kept/eval", "kept/train") == [18, 10 + 2 + 4]


def test_phase_without_dur_begins_with_the_last_start_before_it(read: Read) -> None:
    log = begun().own("phase.start", 22, name="eval").own("phase.start", 30, name="eval")
    log.own("phase", 40, name="eval").own("phase.start", 41, name="eval").steps(40, 6, 7).end(44)
    assert read(log).s("kept/eval") == [10]


def test_phase_without_dur_does_not_begin_with_the_start_of_another(read: Read) -> None:
    log = begun().own("phase.start", 22, name="eval").own("phase.start", 30, name="data_wait")
    log.own("phase", 40, name="eval").steps(40, 6, 7).end(44)
    assert read(log).s("kept/eval", "kept/data_wait") == [18, 0]


def test_phase_without_dur_or_start_has_no_length(read: Read) -> None:
    log = begun().own("phase", 40, name="eval").steps(40, 6, 7).end(44)
    assert read(log).s("kept/eval", "kept/train") == [0, 34]


def test_restart_phase_without_dur_begins_with_its_start(read: Read) -> None:
    log = saved().failure(35).own("phase.start", 37, name="detect").own("phase", 47, name="detect")
    log.as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    assert read(log).s("restart/detect") == [10]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_phases_without_dur_are_the_same_in_whatever_order_they_arrive(order: tuple[int, ...]) -> None:
    log = begun().steps(60, 6, 7).end(64)
    phases = Log().own("phase.start", 22, name="eval").own("phase.start", 30, name="eval")
    phases.own("phase", 40, name="eval").own("phase", 50, name="eval")
    at_once = ledger_answers(log.events + phases.events)
    assert at_once["r"].s("kept/eval") == [20]
    ledger = Ledger()
    ledger.add(log.events)
    for place in order:
        ledger.add([phases.events[place]])
        answers_of(ledger)
    assert differences(answers_of(ledger), at_once) == []


# ---- several at once


def test_evaluation_goes_before_waiting_for_data(read: Read) -> None:
    log = begun().phase("eval", 20, 30).phase("data_wait", 25, 40).steps(40, 6, 7).end(44)
    assert read(log).s("kept/eval", "kept/data_wait") == [10, 10]


def test_of_two_restart_phases_the_later_begun_counts(read: Read) -> None:
    log = saved().failure(35).phase("replace", 40, 60).phase("detect", 45, 50)
    log.as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    assert read(log).s("restart/replace", "restart/detect") == [20, 5]


def test_phase_that_several_ranks_tell_counts_once(read: Read) -> None:
    log = begun()
    for rank in range(3):
        log.phase("eval", 20, 30, rank=rank)
    assert read(log.steps(30, 6, 7).end(34)).s("kept/eval", "kept/train") == [10, 14]


def test_unknown_phase_changes_nothing(read: Read) -> None:
    log = begun().phase("lunch", 20, 30).own("phase.start", 22, name="lunch").steps(30, 6, 7).end(34)
    assert read(log).s("kept/train") == [24]


# ---- where they lie


def test_evaluation_that_a_save_interrupts_keeps_both_parts(read: Read) -> None:
    log = begun().phase("eval", 20, 60).save(5, 30, 40).step(70, 6).end(70)
    assert read(log).s("kept/eval", "checkpoint", "kept/train") == [30, 10, 20]


def test_evaluation_in_which_a_step_ends_keeps_its_time(read: Read) -> None:
    log = begun().phase("eval", 20, 60).step(30, 6).step(62, 7).end(62)
    assert read(log).s("kept/eval", "kept/train") == [40, 12]


def test_evaluation_of_a_second_right_after_a_step_is_one(read: Read) -> None:
    log = begun().phase("eval", 20, 21).steps(21, 6, 7).end(25)
    assert read(log).s("kept/eval", "kept/train") == [1, 14]


def test_evaluation_in_the_middle_of_many_steps_is_one(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 50).phase("eval", 110, 120).steps(120, 51, 100).end(220)
    assert read(log).s("kept/eval", "kept/train") == [10, 200]


def test_evaluation_that_is_told_late_is_one() -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 50).steps(120, 51, 100).end(220)
    ledger = Ledger()
    ledger.add(log.events)
    ledger.books("r")
    ledger.add(Log().phase("eval", 110, 120).events)
    assert ledger.books("r").subs_us["kept/eval"] == 10_000_000


def test_reload_that_is_told_to_have_begun_before_the_run_counts_from_its_beginning(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).end(20)
    log.add("phase", 5, name="reload", dur=3600.0, attempt=0)
    assert read(log).s("restart/reload", "kept") == [5, 10]


# ---- signs of training


def test_phase_told_just_when_the_next_attempt_starts_belongs_to_the_one_before(read: Read) -> None:
    log = saved().phase("eval", 36, 40).as_attempt(1).up(40, resume=10).steps(50, 11, 12).end(54)
    assert read(log).attempt_times == [(0, 40), (40, 54)]


def test_restart_phase_is_no_sign_of_training(read: Read) -> None:
    log = saved().phase("detect", 36, 45).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    assert read(log).attempt_times == [(0, 35), (60, 74)]


def test_phase_of_another_attempt_is_no_sign_of_this_one(read: Read) -> None:
    log = saved().as_attempt(1).phase("eval", 36, 45).up(60, resume=10).steps(70, 11, 12).end(74)
    assert read(log).attempt_times == [(0, 35), (60, 74)]


def test_phase_that_names_no_attempt_is_a_sign_of_the_one_running(read: Read) -> None:
    log = saved().phase("eval", 36, 45, attempt=None).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    assert read(log).attempt_times == [(0, 45), (60, 74)]


# ---- still open


def test_open_wait_for_data_below_the_limits_is_kept_as_such(read: Read) -> None:
    log = saved().own("phase.start", 36, name="data_wait")
    assert read(log, now=50).s("kept/data_wait", "kept/train") == [14, 21]


def test_open_wait_for_data_over_the_limits_is_a_stall(read: Read) -> None:
    log = saved().own("phase.start", 36, name="data_wait")
    assert read(log, now=100).s("kept", "restart/stall") == [20 + 2, 63]


def test_evaluation_that_began_before_the_last_step_is_not_open(read: Read) -> None:
    log = begun().own("phase.start", 21, name="eval").steps(25, 6, 10)
    assert read(log, now=200).s("kept/eval", "restart/stall") == [0, 163]


def test_second_evaluation_is_open_where_the_first_is_over(read: Read) -> None:
    log = saved().own("phase.start", 36, name="eval").phase("eval", 36, 46).own("phase.start", 50, name="eval")
    assert read(log, now=200).s("kept/eval", "kept", "restart") == [10 + 150, 20 + 165, 15 - 5]


def test_open_evaluation_of_a_run_that_has_ended_is_none(read: Read) -> None:
    log = saved().own("phase.start", 36, name="eval").end(60)
    assert read(log).s("kept/eval", "restart/shutdown") == [0, 25]


def test_later_sign_that_names_no_attempt_is_none_of_the_attempt_before(read: Read) -> None:
    log = saved().phase("eval", 36, 45, attempt=None).as_attempt(1).up(60, resume=10).steps(70, 11, 12)
    assert read(log.phase("eval", 74, 80, attempt=None).end(80)).attempt_times == [(0, 45), (60, 80)]


def test_start_that_comes_first_and_is_later_than_the_phase_is_not_its_start() -> None:
    ledger = Ledger()
    ledger.add(begun().steps(60, 6, 7).end(64).events)
    ledger.add(Log().own("phase.start", 41, name="eval").own("phase.start", 22, name="eval").events)
    ledger.add(Log().own("phase", 40, name="eval").events)
    assert ledger.books("r").subs_us["kept/eval"] == 18_000_000


def test_late_start_changes_phases_of_its_own_name_only() -> None:
    phases = Log().own("phase.start", 22, name="eval").own("phase", 30, name="eval")
    phases.own("phase.start", 45, name="data_wait").own("phase", 50, name="data_wait")
    ledger = Ledger()
    ledger.add(begun().steps(50, 6, 7).end(54).events + phases.events)
    ledger.books("r")
    ledger.add(Log().own("phase.start", 26, name="eval").events)
    books = ledger.books("r")
    assert (books.subs_us["kept/eval"], books.subs_us["kept/data_wait"]) == (4_000_000, 5_000_000)


def test_late_start_changes_a_phase_far_in_the_past() -> None:
    log = begun().own("phase.start", 22, name="eval").own("phase", 40, name="eval").steps(40, 6, 60)
    with little_memory(2, 2):
        ledger = Ledger()
        ledger.add(log.events)
        ledger.books("r")
        ledger.add(Log().own("phase.start", 30, name="eval").events)
        books = ledger.books("r")
    assert (books.subs_us["kept/eval"], books.subs_us["kept/train"]) == (10_000_000, 130_000_000)


def test_phases_without_dur_that_follow_each_other_keep_their_own_starts(read: Read) -> None:
    # one from 22 to 30, the next from 30 on
    log = begun().own("phase.start", 22, name="eval").own("phase", 30, name="eval")
    log.own("phase.start", 30, name="eval").own("phase", 40, name="eval").steps(40, 6, 7).end(44)
    assert read(log).s("kept/eval", "kept/train") == [18, 16]


def test_evaluation_that_begins_as_another_ends_is_open(read: Read) -> None:
    log = saved().phase("eval", 36, 46).own("phase.start", 46, name="eval")
    assert read(log, now=200).s("kept/eval", "restart") == [164, 10]


def test_late_start_changes_a_phase_from_its_old_start_on() -> None:
    # an evaluation from 22 to 60 with steps in it; then it turns out to have begun at 50
    log = begun().own("phase.start", 22, name="eval").steps(20, 6, 20).own("phase", 60, name="eval").steps(60, 21, 40)
    with little_memory(2, 2):
        ledger = Ledger()
        ledger.add(log.events)
        assert ledger.books("r").subs_us["kept/eval"] == 38_000_000
        ledger.add(Log().own("phase.start", 50, name="eval").events)
        assert ledger.books("r").subs_us["kept/eval"] == 10_000_000


def test_open_wait_in_which_an_evaluation_was_told_does_not_book_it_twice(read: Read) -> None:
    log = saved().own("phase.start", 36, name="data_wait").phase("eval", 40, 46)
    answer = read(log, now=60)
    assert answer.s("kept", "kept/eval", "wall") == [45, 6, 60]
