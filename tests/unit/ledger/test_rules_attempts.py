"""Rule 2 of ``docs/ledger.md``, sentence by sentence: attempts, their leads, how they begin and how they end.

Steps take 2 s unless a test says otherwise; ``four`` is (kept, checkpoint, lost, restart) in seconds.
"""

from __future__ import annotations

import pytest
from ledger_oracle.answers import Read, ledger_answers
from ledger_oracle.build import Log, simple


@pytest.mark.parametrize(
    "other",
    [
        ("failure", {"category": "gpu"}),
        ("attempt.end", {}),
        ("phase", {"name": "reload", "dur": 1}),
        ("heartbeat", {}),
        ("checkpoint.persisted", {"step": 10}),
        ("checkpoint.failed", {"step": 99}),
    ],
)
def test_kinds_that_open_no_attempt(read: Read, other: tuple[str, dict[str, object]]) -> None:
    kind, fields = other
    answer = read(simple().add(kind, 36, attempt=7, **fields).end(40))
    assert answer.num_attempts == 1
    assert answer.failures == 0


@pytest.mark.parametrize(
    "other",
    [
        ("attempt.start", {}),
        ("step", {"step": 11, "dur": 1, "rank": 0}),
        ("checkpoint.start", {"step": 10}),
        ("checkpoint.saved", {"step": 10}),
        ("rollback", {"to_step": 5}),
    ],
)
def test_kinds_that_open_an_attempt(read: Read, other: tuple[str, dict[str, object]]) -> None:
    kind, fields = other
    assert read(simple().add(kind, 38, attempt=7, **fields).end(40)).num_attempts == 2


def test_attempt_begins_with_its_earliest_step_when_its_start_came_late(read: Read) -> None:
    answer = read(Log().start(0).up(8, resume=0).step(20, 1, dur=15).steps(20, 2, 5).end(28))
    assert answer.attempt_times == [(5, 28)]


def test_attempt_begins_with_its_start_when_that_is_earlier(read: Read) -> None:
    answer = read(Log().start(0).up(8, resume=0).steps(10, 1, 5).end(20))
    assert answer.attempt_times == [(8, 20)]


def test_start_of_another_rank_opens_no_incarnation(read: Read) -> None:
    answer = read(Log().start(0).up(0, resume=0, rank=0).steps(10, 1, 10).up(25, resume=0, rank=3).end(30))
    assert answer.num_attempts == 1
    assert answer.four == (20, 0, 0, 10)


def test_start_of_no_rank_once_the_lead_has_stepped_opens_an_incarnation(read: Read) -> None:
    answer = read(Log().start(0).up(0, resume=0).steps(10, 1, 10).up(40, resume=10).steps(50, 11, 15).end(60))
    assert answer.num_attempts == 2
    assert answer.attempt_times == [(0, 30), (40, 60)]
    assert answer.unexplained_stops == 1


def test_second_start_before_the_lead_has_stepped_opens_none(read: Read) -> None:
    answer = read(Log().start(0).up(0, resume=0).up(5, resume=0).steps(10, 1, 10).end(30))
    assert answer.num_attempts == 1


def test_step_that_does_not_rise_opens_an_incarnation_one_before_its_end(read: Read) -> None:
    # steps 1..10 to 30, then step 6 ends at 52: it began at 50
    answer = read(Log().start(0).up(0, resume=0).steps(10, 1, 10).steps(50, 6, 10).end(60))
    assert answer.num_attempts == 2
    assert answer.attempt_times == [(0, 30), (50, 60)]
    assert answer.failures == 1  # without a word, and the next resumed before its last step
    assert answer.four == (20, 0, 10, 30)  # 6..10 were done twice; 10 s at the start, 20 s between


def test_same_step_again_opens_an_incarnation_too(read: Read) -> None:
    answer = read(Log().start(0).up(0, resume=0).steps(10, 1, 10).steps(50, 10, 12).end(56))
    assert answer.num_attempts == 2
    assert answer.four == (18 + 6, 0, 2, 30)


def test_step_that_goes_back_after_a_rollback_opens_none(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10).rollback(30, 5).steps(30, 6, 10).end(40)
    assert read(log).num_attempts == 1


def test_steps_of_other_ranks_that_lag_open_no_incarnation(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10)
    for step in range(1, 11):
        log.step(10 + 2 * step + 5, step, rank=1)  # 5 s behind
    answer = read(log.end(36, "cancelled"))
    assert answer.num_attempts == 1
    # cancelled without a save: steps and step in flight (2 of the 6 s after the lead's last record) are lost
    assert answer.four == (0, 0, 22, 14)


def test_lowest_rank_that_reports_is_the_lead(read: Read) -> None:
    log = Log().start(0).up(0, resume=0)
    for step in range(1, 11):
        log.step(10 + 2 * step, step, rank=2)
        log.step(10 + 2 * step + 1, step, rank=5)
    answer = read(log.end(31))
    assert answer.stretches("kept") == [(10, 30)]


def test_higher_rank_continues_where_the_lead_falls_silent(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5)
    for step in range(1, 11):
        log.step(10 + 2 * step, step, rank=1)
    answer = read(log.end(30))
    assert answer.steps == 10
    assert answer.four == (20, 0, 0, 10)


def test_higher_rank_that_only_lags_does_not_continue(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5)
    for step in range(1, 6):
        log.step(10 + 2 * step + 4, step, rank=1)  # later, but no greater step
    answer = read(log.end(30))
    assert answer.steps == 5
    assert answer.four == (10, 0, 0, 20)


def test_attempt_ends_at_its_first_failure(read: Read) -> None:
    log = simple().failure(40, "network").failure(45, "gpu")
    log.as_attempt(1).up(60, resume=10).steps(70, 11, 15).end(80)
    answer = read(log)
    assert answer.attempt_times == [(0, 40), (60, 80)]
    assert answer.failures == 1
    assert answer.causes_us == {"network": 2_000_000}  # the step in flight


def test_attempt_survives_a_failure_that_steps_go_on_5_s_after(read: Read) -> None:
    # failure at 20; the step that ends at 27 began at 25, exactly 5 s after
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).failure(20).step(27, 6).end(27)
    answer = read(log)
    assert answer.failures == 0
    assert answer.attempt_times == [(0, 27)]
    assert answer.four == (17, 0, 0, 10)


def test_attempt_does_not_survive_a_failure_when_the_last_step_began_sooner(read: Read) -> None:
    # the last step began 4.999 s after the failure: it ends with that step
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).failure(20).step(26.999, 6).end(40, "failed")
    answer = read(log)
    assert answer.failures == 1
    assert answer.attempt_times == [(0, 26.999)]


def test_slow_steps_must_begin_one_step_after_a_failure_to_survive_it(read: Read) -> None:
    # steps of 20 s: a step that began 19 s after the failure may have been computed already
    log = Log(dur=20).start(0).up(0, resume=0).steps(10, 1, 2).failure(51)
    assert read(Log(dur=20).start(0).up(0, resume=0).steps(10, 1, 2).failure(51).step(90, 3).end(90)).failures == 1
    assert read(log.step(91, 3).end(91)).failures == 0


def test_attempt_ends_no_earlier_than_its_last_save(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).failure(21).save(5, 22, 32)
    log.as_attempt(1).up(40, resume=5).steps(50, 6, 10).end(60)
    answer = read(log)
    assert answer.attempt_times == [(0, 32), (40, 60)]
    # 20..22 lies between the step and the save that proves it: it belongs to the step
    assert answer.four == (10 + 2 + 10, 10, 0, 10 + 18)


def test_attempt_without_a_word_ends_with_its_last_sign_of_training(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).phase("eval", 20, 30).own("heartbeat", 90, node="n")
    log.as_attempt(1).up(100, resume=5).steps(110, 6, 10).end(120)
    assert read(log).attempt_times == [(0, 30), (100, 120)]


def test_attempt_without_a_word_that_is_the_last_ends_with_the_segment(read: Read) -> None:
    assert read(simple().end(99)).attempt_times == [(0, 99)]


def test_attempt_never_reaches_into_the_next(read: Read) -> None:
    # attempt 0 still reports while attempt 1 is up: its time after 40 is attempt 1's
    log = Log().start(0).up(0, resume=0).steps(10, 1, 20).as_attempt(1).up(40, resume=15).steps(50, 16, 20).end(60)
    answer = read(log)
    assert answer.attempt_times == [(0, 40), (40, 60)]
    # 10..40 are steps 1..15, all kept; 16..20 are kept from attempt 1
    assert answer.four == (30 + 10, 0, 0, 10 + 10)


def test_notice_within_15_minutes_makes_a_failure_a_planned_stop(read: Read) -> None:
    def log(notice: float) -> Log:
        log = Log(dur=10).start(0).up(0, resume=0).stop(notice, planned=True).steps(0, 1, 200)
        log.failure(2000).as_attempt(1).up(2100, resume=200)
        return log.steps(2110, 201, 202).end(2130)

    assert read(log(1100)).planned_stops == 1  # exactly 15 min before
    assert read(log(1100)).failures == 0
    assert read(log(1099)).planned_stops == 0
    assert read(log(1099)).failures == 1


def test_planned_end_after_the_failure_that_ended_it_explains_nothing(read: Read) -> None:
    log = simple().failure(40).stop(42, planned=True).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    answer = read(log)
    assert (answer.failures, answer.planned_stops) == (1, 0)


def test_unplanned_end_counts_as_a_failure(read: Read) -> None:
    log = simple().stop(40, planned=False).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    answer = read(log)
    assert (answer.failures, answer.planned_stops) == (1, 0)
    assert answer.four == (24, 5, 2, 10 + 33)  # of 35..40 one step was in flight


def test_end_that_says_nothing_is_planned(read: Read) -> None:
    log = simple().stop(40).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    answer = read(log)
    assert (answer.failures, answer.planned_stops) == (0, 1)
    assert answer.four == (24, 5, 0, 10 + 35)


def test_attempt_that_a_failed_run_ended_with_is_a_failure(read: Read) -> None:
    answer = read(simple().end(40, "failed"))
    assert answer.failures == 1
    assert answer.four == (20, 5, 2, 13)


def test_attempt_that_never_stepped_is_a_failure_when_another_followed(read: Read) -> None:
    log = simple().stop(40).as_attempt(1).up(60, resume=10).as_attempt(2).up(80, resume=10).steps(90, 11, 12).end(94)
    answer = read(log)
    assert (answer.num_attempts, answer.failures, answer.planned_stops) == (3, 1, 1)


def test_attempt_without_a_word_whose_work_was_repeated_is_a_failure(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10).as_attempt(1).up(40, resume=9).steps(50, 10, 12).end(56)
    answer = read(log)
    assert (answer.failures, answer.unexplained_stops) == (1, 0)
    assert answer.four == (18 + 6, 0, 2, 10 + 20)


def test_attempt_without_a_word_and_without_loss_is_counted_apart(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10).as_attempt(1).up(40, resume=10).steps(50, 11, 12).end(54)
    answer = read(log)
    assert (answer.failures, answer.planned_stops, answer.unexplained_stops) == (0, 0, 1)


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_last_attempt_of_a_run_is_no_stop(read: Read, status: str) -> None:
    answer = read(simple().end(40, status))
    assert (answer.failures, answer.planned_stops, answer.unexplained_stops) == (0, 0, 0)


def test_last_attempt_of_a_completed_run_is_a_failure_if_an_event_says_so(read: Read) -> None:
    assert read(simple().failure(36).end(40)).failures == 1


def test_attempts_are_ordered_by_when_they_began_not_by_name(read: Read) -> None:
    log = Log(attempt="zebra").start(0).up(0, resume=0).steps(10, 1, 10).failure(30)
    log.as_attempt("ant").up(40, resume=5).steps(50, 6, 10).end(60)
    answer = read(log)
    assert [name for name, _start, _end in answer.attempts] == ["zebra", "ant"]
    assert answer.s("kept", "lost") == [20, 10]


def test_attempt_names_are_compared_as_text(read: Read) -> None:
    log = Log().start(0).as_attempt(0).up(0, resume=0).steps(10, 1, 5).as_attempt("0").steps(20, 6, 10).end(30)
    assert read(log).num_attempts == 1


def test_steps_that_name_no_attempt_are_attempt_0(read: Read) -> None:
    log = Log(attempt=None).start(0).up(0, resume=0).steps(10, 1, 5)
    log.attempt = 0
    assert read(log.steps(20, 6, 10).end(30)).num_attempts == 1


def test_failure_that_names_no_attempt_belongs_to_the_one_running(read: Read) -> None:
    log = simple().add("failure", 40, category="host").as_attempt(1).up(60, resume=10).steps(70, 11, 12)
    answer = read(log.add("failure", 78, category="gpu").end(80, "failed"))
    assert answer.failures == 2
    assert answer.attempt_times == [(0, 40), (60, 78)]


def test_attempt_whose_steps_all_lie_in_the_next_had_none_in_flight_before(read: Read) -> None:
    # attempt 0 was up at 0 and said nothing until attempt 1 was up
    log = Log().start(0).up(0, resume=0).as_attempt(1).up(40, resume=0)
    log.as_attempt(0).step(52, 1).as_attempt(1).steps(60, 1, 5).end(70)
    answer = read(log)
    assert answer.stretches("restart") == [(0, 60)]


def test_failure_at_the_time_at_which_the_same_attempt_begins_anew_ended_the_old_one(read: Read) -> None:
    # step 10 is done again from 30 on, when the failure was told
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10).failure(30).steps(30, 10, 12).end(40)
    answer = read(log)
    assert answer.failures == 1
    assert answer.attempt_times == [(0, 30), (30, 40)]
    assert answer.causes_us == {"gpu": 2_000_000}


def test_failure_before_any_attempt_has_begun_is_nobodys(read: Read) -> None:
    log = Log().start(0).add("failure", 5, category="host").up(10, resume=0).steps(20, 1, 5).end(30)
    answer = read(log)
    assert (answer.failures, answer.attempt_times) == (0, [(10, 30)])


def test_attempt_that_stepped_is_followed_by_one_that_did_not_and_one_that_went_on(read: Read) -> None:
    # the third attempt works on from 14: four steps more had been done by the first, then one was in flight
    log = simple().failure(60).as_attempt(1).up(70, resume=10).failure(80)
    answer = read(log.as_attempt(2).up(90, resume=14).steps(100, 15, 16).end(104))
    assert answer.stretches("kept") == [(10, 30), (35, 43), (100, 104)]
    assert answer.stretches("lost") == [(43, 45)]


def test_attempt_that_a_rollback_began_anew_and_that_stopped_there_is_missing_no_steps(read: Read) -> None:
    # back to 5, broken before a step was done; the next attempt works on from 5
    log = simple().rollback(36, 5).failure(50).as_attempt(1).up(60, resume=5).steps(70, 6, 10).end(80)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 20), (70, 80)]


def test_attempts_that_begin_at_one_time_stand_in_order_of_their_names(read: Read) -> None:
    logs = {name: Log(attempt=name).up(0, resume=0).steps(10, 1, 5) for name in ("a", "b")}
    for first, second in (("a", "b"), ("b", "a")):
        log = Log().start(0)
        log.events += logs[first].events + logs[second].events
        answer = read(log.end(30))
        assert [name for name, _start, _end in answer.attempts] == ["a", "b"]


def test_attempt_ends_no_earlier_than_a_save_that_a_rollback_came_into(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10).save(10, 30, 45).rollback(40, 5).failure(41)
    answer = read(log.as_attempt(1).up(60, resume=5).steps(70, 6, 10).end(80))
    assert answer.attempt_times[0] == (0, 45)


def test_notice_at_the_very_time_of_the_failure_makes_it_a_planned_stop(read: Read) -> None:
    log = simple().failure(40).stop(40).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    answer = read(log)
    assert (answer.failures, answer.planned_stops) == (0, 1)


@pytest.mark.parametrize(("later", "attempts"), [(0.9, 1), (1.0, 2)])
def test_record_of_several_steps_is_told_again_within_half_of_one_of_them(
    read: Read, later: float, attempts: int
) -> None:
    log = Log().start(0).up(0, resume=0).step(30, 10, dur=20, count=10).step(30 + later, 10, dur=20, count=10)
    assert read(log.end(40)).num_attempts == attempts


def test_incarnation_of_records_of_several_steps_begins_one_step_before_its_first_ends(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).step(30, 10, dur=20, count=10).step(60, 8, dur=20, count=10).end(70)
    assert read(log).attempt_times == [(0, 30), (58, 70)]


def test_start_after_a_rollback_opens_an_incarnation_though_nothing_was_done_since(read: Read) -> None:
    log = simple().rollback(36, 5).up(40, resume=5).steps(50, 6, 10).end(60)
    assert read(log).num_attempts == 2


def test_second_start_of_a_further_incarnation_opens_none(read: Read) -> None:
    log = simple().failure(36).up(40, resume=10).up(45, resume=10).steps(50, 11, 12).end(60)
    assert read(log).num_attempts == 2


def test_lowest_rank_that_tells_a_resume_step_is_believed() -> None:
    # rank 0 does not know it; rank 1 does; rank 2 is not asked
    log = Log().start(0).up(0, resume=8, rank=2).up(1, resume=5, rank=1).up(2, rank=0).steps(30, 10, 12).end(36)
    answer = ledger_answers(log.events)["r"]
    assert answer.stretches("kept") == [(22, 36)]  # steps 6 to 12, 2 s each


@pytest.mark.parametrize(("resume", "failures"), [(3, 1), (5, 0)])
def test_attempt_that_had_gone_back_and_stopped_without_a_word_lost_what_was_below_where_it_went(
    resume: int, failures: int
) -> None:
    log = simple().rollback(36, 5).as_attempt(1).up(60, resume=resume).steps(70, resume + 1, 10).end(100)
    assert ledger_answers(log.events)["r"].failures == failures


def test_failure_before_the_first_attempt_says_nothing_of_it(read: Read) -> None:
    log = Log().start(0).add("failure", 5, category="host").up(10, resume=0).end(30, "cancelled")
    assert read(log).failures == 0


def test_attempt_that_left_a_save_open_ends_with_its_failure_not_with_the_next_incarnation(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).own("checkpoint.start", 20, step=5).failure(30)
    answer = read(log.up(40, resume=5).steps(50, 6, 7).end(54))
    assert answer.attempt_times == [(0, 30), (40, 54)]


def test_of_several_ranks_that_go_on_the_lowest_is_believed(read: Read) -> None:
    # rank 0 falls silent at 20; rank 1 ends step 8 at 26, rank 2 at 27
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5)
    for step in range(6, 9):
        log.step(2 * step + 10, step, rank=1).step(2 * step + 11, step, rank=2)
    answer = read(log.failure(27).end(40, "completed"))
    assert answer.stretches("kept") == [(10, 26)]
    assert answer.stretches("lost") == [(26, 27)]


def test_first_start_of_a_rank_says_what_was_restored() -> None:
    # as long as nothing has stepped; what was executed decides in the end
    log = Log().start(0).up(0, resume=5, rank=0).up(4, resume=7, rank=0).steps(30, 10, 12).end(36)
    assert ledger_answers(log.events)["r"].stretches("kept") == [(22, 36)]
