"""Rules 5, 6 and 7 of ``docs/ledger.md``, sentence by sentence: restart, tails, and what becomes of work.

Steps take 2 s unless a test says otherwise; ``four`` is (kept, checkpoint, lost, restart) in seconds.
"""

from __future__ import annotations

import pytest
from ledger_oracle.answers import Read, ledger_answers
from ledger_oracle.build import T0_US, Log


def begun() -> Log:
    """A run that is up at second 0."""
    return Log().start(0).up(0, resume=0)


def saved() -> Log:
    """Five steps from 10 to 20, a save to 25, five steps more to 35."""
    return begun().steps(10, 1, 5).save(5, 20, 25).steps(25, 6, 10)


# ---- rule 5: restart


def test_phases_split_restart(read: Read) -> None:
    log = saved().failure(35).phase("detect", 35, 40).phase("replace", 40, 70)
    log.as_attempt(1).up(70, resume=5).phase("reload", 70, 82).phase("warmup", 82, 85).phase("compile", 85, 90)
    answer = read(log.steps(90, 6, 10).end(100))
    assert answer.s("restart/detect", "restart/replace", "restart/reload", "restart/warmup") == [5, 30, 12, 3 + 5]
    assert answer.s("restart", "restart/startup") == [65, 10]


def test_restart_without_phases_is_split_at_the_failure_the_start_and_the_first_step(read: Read) -> None:
    # 2 s in flight, 37..50 until the failure was seen, 50..80 until the next start, 80..95 until its first step
    log = saved().failure(50).as_attempt(1).up(80, resume=10).steps(95, 11, 12).end(99)
    answer = read(log)
    assert answer.s("restart/detect", "restart/replace", "restart/reload") == [13, 30, 15]


def test_time_before_an_allocation_is_queued(read: Read) -> None:
    log = Log().start(0).add("allocation.start", 30, gpus=8).up(35, resume=0).steps(40, 1, 5).end(50)
    assert read(log).s("restart/queued", "restart/startup", "restart") == [30, 10, 40]


def test_time_between_allocations_is_queued(read: Read) -> None:
    log = saved().add("allocation.start", 0, gpus=8).failure(35).add("allocation.end", 37, gpus=8)
    log.add("allocation.start", 97, gpus=8).as_attempt(1).up(100, resume=10).steps(110, 11, 12).end(114)
    assert read(log).s("restart/queued") == [60]


def test_planned_stop_is_restart_of_its_own_kind(read: Read) -> None:
    log = saved().stop(35).as_attempt(1).up(80, resume=10).steps(95, 11, 12).end(99)
    answer = read(log)
    assert answer.s("restart") == [10 + 60]
    assert answer.s("restart/planned")[0] >= 45  # at the least until the next start


def test_time_after_the_last_work_is_shutdown(read: Read) -> None:
    assert read(saved().end(45)).s("restart/shutdown", "restart/startup") == [10, 10]


def test_failed_last_attempt_that_never_came_back_is_restart_to_the_end(read: Read) -> None:
    answer = read(saved().failure(35).end(100, "failed"))
    assert answer.four == (10, 5, 10, 10 + 65)


# ---- rule 6: tails


@pytest.mark.parametrize(("failure", "in_flight"), [(35.0, 0.0), (36.0, 1.0), (37.0, 2.0), (60.0, 2.0)])
def test_of_a_failed_attempts_tail_at_most_one_step_was_in_flight(read: Read, failure: float, in_flight: float) -> None:
    log = saved().failure(failure).as_attempt(1).up(100, resume=10).steps(110, 11, 12).end(114)
    answer = read(log)
    assert answer.s("lost/in_flight", "lost") == [in_flight, in_flight]
    assert answer.s("kept") == [24]


def test_step_in_flight_is_at_the_tails_beginning(read: Read) -> None:
    log = saved().failure(60).as_attempt(1).up(100, resume=10).steps(110, 11, 12).end(114)
    assert read(log).stretches("lost") == [(35, 37)]


def test_in_training_phase_in_a_failed_tail_is_lost(read: Read) -> None:
    # an evaluation from 36 to 56; the step in flight lies outside it: 35..36 and 56..57
    log = saved().phase("eval", 36, 56).failure(60).as_attempt(1).up(100, resume=10).steps(110, 11, 12).end(114)
    assert read(log).stretches("lost") == [(35, 57)]


def test_in_training_phase_in_a_planned_tail_is_kept(read: Read) -> None:
    log = saved().phase("eval", 36, 56).stop(60).as_attempt(1).up(100, resume=10).steps(110, 11, 12).end(114)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 20), (25, 35), (36, 56), (110, 114)]
    assert answer.s("lost", "kept/eval") == [0, 20]


def test_in_training_phase_in_a_completed_tail_is_kept(read: Read) -> None:
    answer = read(saved().phase("eval", 36, 56).end(60))
    assert answer.stretches("kept") == [(10, 20), (25, 35), (36, 56)]


def test_tail_of_a_cancelled_run_holds_a_step_in_flight(read: Read) -> None:
    # 6..10 are not covered by the save of step 5: 10 s, and 2 s in flight
    answer = read(saved().end(45, "cancelled"))
    assert answer.stretches("lost") == [(25, 37)]
    assert answer.s("lost/in_flight", "lost/rollback") == [2, 10]


def test_tail_of_an_attempt_without_a_word_holds_a_step_in_flight(read: Read) -> None:
    # it ends with its last sign of training, the evaluation until 45
    log = saved().phase("eval", 41, 45).as_attempt(1).up(100, resume=10).steps(110, 11, 12).end(114)
    answer = read(log)
    assert answer.stretches("lost") == [(35, 37), (41, 45)]


def test_missing_steps_are_kept_first_when_the_next_attempt_resumes_beyond(read: Read) -> None:
    # resumes from 14: four steps of 2 s had been done after step 10, then one was in flight
    log = saved().failure(60).as_attempt(1).up(100, resume=14).steps(110, 15, 16).end(114)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 20), (25, 43), (110, 114)]
    assert answer.stretches("lost") == [(43, 45)]
    assert answer.s("restart") == [10 + 15 + 50]


def test_missing_steps_take_no_more_than_the_tail(read: Read) -> None:
    # twenty missing steps would need 40 s, the tail has 25
    log = saved().failure(60).as_attempt(1).up(100, resume=30).steps(110, 31, 32).end(114)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 20), (25, 60), (110, 114)]
    assert answer.s("lost") == [0]


def test_missing_steps_of_a_planned_stop_are_kept_too(read: Read) -> None:
    log = saved().stop(60).as_attempt(1).up(100, resume=14).steps(110, 15, 16).end(114)
    assert read(log).stretches("kept") == [(10, 20), (25, 43), (110, 114)]


def test_missing_steps_are_lost_when_a_later_attempt_goes_back_before_them(read: Read) -> None:
    # attempt 1 proved 11..14; attempt 2 works on from 12: half of 35..43 and all of attempt 1 are lost
    log = saved().failure(60).as_attempt(1).up(100, resume=14).steps(110, 15, 16).failure(114)
    log.as_attempt(2).up(120, resume=12).steps(130, 13, 16).end(138)
    answer = read(log)
    assert answer.stretches("lost") == [(39, 45), (110, 114)]  # 43..45 was in flight


def test_running_tail_is_the_step_in_flight(read: Read) -> None:
    assert read(saved(), now=36).stretches("kept") == [(10, 20), (25, 36)]


@pytest.mark.parametrize(("now", "kept"), [(67.0, 32.0), (67.001, 2.0)])
def test_running_tail_over_the_stall_limits_keeps_one_step(read: Read, now: float, kept: float) -> None:
    # 35..67 is 30 s above one step: not over the limit; a millisecond later it is
    answer = read(saved(), now=now)
    assert answer.s("kept") == [20 + kept]
    assert answer.s("restart/stall") == [pytest.approx(0 if kept > 2 else 30.001)]


def test_running_evaluation_is_kept_however_long(read: Read) -> None:
    answer = read(saved().own("phase.start", 35, name="eval"), now=1000)
    assert answer.s("kept", "kept/eval") == [20 + 965, 965]


def test_running_evaluation_that_is_over_does_not_excuse_the_stall_after_it(read: Read) -> None:
    # 35..95 evaluation, then 105 s of nothing: one step is kept
    log = saved().own("phase.start", 35, name="eval").own("phase", 95, name="eval", dur=60)
    assert read(log, now=200).s("kept", "restart/stall") == [20 + 60 + 2, 103]


def test_running_attempt_that_has_not_stepped_is_restart(read: Read) -> None:
    assert read(begun(), now=50).four == (0, 0, 0, 50)


# ---- rule 7: what becomes of work


def test_work_after_the_resume_step_is_lost_saved_or_not(read: Read) -> None:
    log = saved().save(10, 35, 40).failure(40).as_attempt(1).up(50, resume=3).steps(60, 4, 10).end(74)
    answer = read(log)
    assert answer.stretches("lost") == [(16, 20), (25, 35)]  # steps 4, 5 and 6..10
    assert answer.s("checkpoint") == [10]  # saves stay what they were


def test_work_of_every_earlier_attempt_is_lost(read: Read) -> None:
    log = saved().failure(35, "gpu").as_attempt(1).up(50, resume=10).steps(60, 11, 15).failure(70, "sdc")
    log.as_attempt(2).up(80, resume=5).steps(90, 6, 15).end(110)
    answer = read(log)
    assert answer.stretches("lost") == [(25, 35), (60, 70)]
    assert answer.causes_us == {"sdc": 20_000_000}


def test_resume_within_what_an_earlier_rollback_lost_loses_only_the_rest(read: Read) -> None:
    # attempt 1 went back to 5 and did 6..8; attempt 2 goes on from 7: only step 8 is lost then
    log = saved().failure(35, "gpu").as_attempt(1).up(50, resume=5).steps(60, 6, 8).failure(66, "network")
    log.as_attempt(2).up(80, resume=7).steps(90, 8, 10).end(96)
    answer = read(log)
    assert answer.stretches("lost") == [(25, 35), (64, 66)]
    assert answer.causes_us == {"gpu": 10_000_000, "network": 2_000_000}


def test_resume_proves_its_checkpoint_landed(read: Read) -> None:
    # nothing was ever saved by report; the run resumed from 3, then was cancelled
    log = begun().steps(10, 1, 5).failure(20).as_attempt(1).up(30, resume=3).steps(40, 4, 6).end(46, "cancelled")
    assert read(log).stretches("kept") == [(10, 16)]


def test_checkpoint_beyond_the_resume_counts_no_more(read: Read) -> None:
    # step 10 was saved, but attempt 1 went on from 5 and was cancelled after step 12: nothing covers 6..12
    log = saved().save(10, 35, 40).failure(40).as_attempt(1).up(50, resume=5).steps(60, 6, 12).end(74, "cancelled")
    assert read(log).stretches("kept") == [(10, 20)]


def test_resume_step_that_was_not_believed_decides_nothing(read: Read) -> None:
    # attempt 1 says 0 but its first step is 11 after 2 s of time
    log = saved().failure(35).as_attempt(1).up(50, resume=0).steps(50, 11, 15).end(60)
    assert read(log).s("lost", "kept") == [0, 30]


def test_attempt_without_a_step_decides_nothing(read: Read) -> None:
    log = saved().save(10, 35, 40).failure(40).as_attempt(1).up(50, resume=0).failure(60)
    log.as_attempt(2).up(70, resume=10).steps(80, 11, 12).end(84)
    assert read(log).s("lost", "kept") == [0, 24]


def test_last_attempt_without_a_step_decides_when_the_run_has_ended(read: Read) -> None:
    log = saved().save(10, 35, 40).failure(40).as_attempt(1).up(50, resume=5)
    assert read(log, now=60).s("lost") == [0]  # step 10 is saved, and nothing was done again yet
    assert read(log.end(60)).stretches("lost") == [(25, 35)]


def test_rollback_within_an_attempt_loses_its_work_without_a_failure(read: Read) -> None:
    log = saved().rollback(36, 5, "nan").phase("reload", 36, 46).steps(46, 6, 10).end(56)
    answer = read(log)
    assert (answer.failures, answer.num_attempts, answer.rollbacks) == (0, 1, 1)
    assert answer.stretches("lost") == [(25, 36)]  # five steps, and the second in flight up to the rollback
    assert answer.s("lost/rollback", "lost/in_flight", "restart/reload") == [10, 1, 10]
    assert answer.causes_us == {"nan": 11_000_000}


@pytest.mark.parametrize("reason", ["loss_spike", "nan", "sdc", "operator"])
def test_rollback_loses_by_its_reason(read: Read, reason: str) -> None:
    answer = read(saved().rollback(35, 5, reason).steps(45, 6, 10).end(55))
    assert answer.causes_us == {reason: 10_000_000}


def test_time_up_to_a_rollback_is_a_failed_attempts_tail(read: Read) -> None:
    # 35..50: one step in flight, the rest restart; 50..60 until the next step began
    answer = read(saved().rollback(50, 5).steps(60, 6, 10).end(70))
    assert answer.stretches("lost") == [(25, 37)]
    assert answer.stretches("restart") == [(0, 10), (37, 60)]


def test_second_rollback_further_back_loses_more(read: Read) -> None:
    log = saved().rollback(35, 5).steps(35, 6, 8).rollback(41, 2, "sdc").steps(41, 3, 10).end(57)
    answer = read(log)
    assert answer.stretches("lost") == [(14, 20), (25, 41)]
    assert answer.causes_us == {"loss_spike": 10_000_000, "sdc": 12_000_000}


def test_rollback_that_nothing_came_after_has_lost_its_work_already(read: Read) -> None:
    answer = read(saved().rollback(35, 5), now=40)
    assert answer.stretches("lost") == [(25, 35)]
    assert answer.s("restart") == [15]


def test_record_that_straddles_the_resume_is_split_in_proportion(read: Read) -> None:
    # one record of 10 steps and 30 s; resume from 4: 12 s are kept, 18 s lost
    log = begun().step(40, 10, dur=30, count=10).failure(40)
    log.as_attempt(1).up(50, resume=4).steps(60, 5, 10).end(72)
    answer = read(log)
    assert answer.stretches("lost") == [(22, 40)]
    assert answer.s("kept") == [12 + 12]


def test_split_of_a_record_leaves_out_its_stall_and_its_saves(read: Read) -> None:
    # 20..32, save 32..40, 40..100 for steps 6..10 as one record: 72 s of which 10 are expected: 62 s stall first,
    # leaving 90..100; resume from 8: 90..96 are kept
    log = begun().steps(10, 1, 5).save(3, 32, 40).step(100, 10).failure(100)
    log.as_attempt(1).up(110, resume=8).steps(120, 9, 10).end(124)
    answer = read(log)
    assert answer.stretches("lost") == [(96, 100)]
    assert answer.s("restart/stall") == [62]


def test_work_beyond_the_newest_landed_checkpoint_is_lost_while_nothing_runs(read: Read) -> None:
    log = saved().failure(35)
    answer = read(log, now=50)
    assert answer.stretches("lost") == [(25, 35)]
    assert answer.s("at_risk") == [0]
    # the next attempt is up, but has not stepped: still lost
    log.as_attempt(1).up(60, resume=10)
    assert read(log, now=70).stretches("lost") == [(25, 35)]
    # it stepped, and proves to have resumed later: kept again
    assert read(log.steps(70, 11, 11), now=72).stretches("lost") == []


def test_planned_stop_loses_already_what_it_did_not_save(read: Read) -> None:
    assert read(saved().stop(35), now=50).stretches("lost") == [(25, 35)]


def test_save_that_lands_after_the_failure_takes_the_loss_back(read: Read) -> None:
    log = saved().save(10, 35, 36, mode="async").failure(36)
    assert read(log, now=50).stretches("lost") == [(25, 35)]
    assert read(log.persisted(45, 10), now=50).stretches("lost") == []


def test_completed_keeps_what_was_never_saved(read: Read) -> None:
    answer = read(begun().steps(10, 1, 5).end(20))
    assert answer.four == (10, 0, 0, 10)
    assert answer.s("at_risk") == [0]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_and_cancelled_lose_what_no_landed_checkpoint_covers(read: Read, status: str) -> None:
    assert read(saved().end(35, status)).four == (10, 5, 10, 10)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_nothing_is_lost_at_the_end_where_saves_are_unseen(read: Read, status: str) -> None:
    log = Log().start(0, checkpoints="unseen").up(0, resume=0).steps(10, 1, 5).end(20, status)
    assert read(log).four == (10, 0, 0, 10)


def test_repeated_work_is_lost_where_saves_are_unseen_too(read: Read) -> None:
    log = Log().start(0, checkpoints="unseen").up(0, resume=0).steps(10, 1, 5).failure(20)
    log.as_attempt(1).up(30, resume=3).steps(40, 4, 5).end(44)
    assert read(log).stretches("lost") == [(16, 20)]


def test_at_risk_is_unknown_where_saves_are_unseen(read: Read) -> None:
    log = Log().start(0, checkpoints="unseen").up(0, resume=0).steps(10, 1, 5)
    assert read(log, now=20).at_risk_us is None


def test_at_risk_is_what_no_landed_checkpoint_covers(read: Read) -> None:
    assert read(saved(), now=36).s("at_risk", "kept") == [11, 21]


def test_at_risk_splits_a_record_in_proportion(read: Read) -> None:
    # a record of steps 6..15 in 20 s, then the save of 10 lands: half of the record is covered
    log = begun().steps(10, 1, 5).step(40, 15, dur=20, count=10).persisted(40, 10)
    assert read(log, now=40).s("at_risk") == [10]


def test_what_is_kept_today_is_lost_tomorrow(read: Read) -> None:
    log = saved().save(10, 35, 40).failure(40).as_attempt(1).up(50, resume=10).steps(60, 11, 20)
    assert read(log, now=80).s("lost", "kept") == [0, 40]
    log.failure(80).as_attempt(2).up(90, resume=5).steps(100, 6, 7)
    assert read(log, now=104).s("lost", "kept") == [30, 14]


# ---- where messy events would book a moment twice


def test_checkpoint_goes_before_work_of_another_attempt(read: Read) -> None:
    # attempt 1's save overlaps nothing of its own; attempt 0's last step would end inside it
    log = begun().steps(10, 1, 5).step(24, 6, dur=4).as_attempt(1).save(5, 22, 30).steps(30, 7, 10).end(38)
    answer = read(log)
    assert answer.stretches("checkpoint") == [(22, 30)]


def test_accounts_sum_to_wall_when_clocks_disagree(read: Read) -> None:
    log = saved().failure(34).as_attempt(1).up(30, resume=10).steps(31, 11, 20).save(20, 45, 52).end(60)
    answer = read(log)
    assert sum(answer.four) == 60


def test_of_a_record_of_several_steps_one_was_in_flight_after_it(read: Read) -> None:
    log = begun().step(30, 10, dur=20, count=10).failure(60).as_attempt(1).up(80, resume=10).steps(90, 11, 12)
    assert read(log.end(94)).s("lost/in_flight") == [2]


def test_checkpoint_of_the_branch_before_a_rollback_covers_nothing_after_it(read: Read) -> None:
    log = saved().save(10, 35, 40).rollback(41, 5).steps(41, 6, 12).end(55, "cancelled")
    assert read(log).stretches("kept") == [(10, 20)]


@pytest.mark.parametrize("dur", [None, 0, 2])
def test_save_that_ended_at_the_moment_of_a_rollback_is_of_the_branch_before_it(read: Read, dur: int | None) -> None:
    log = saved().own("checkpoint.saved", 41, step=10, dur=dur).rollback(41, 5).steps(41, 6, 12)
    assert read(log.end(55, "cancelled")).stretches("kept") == [(10, 20)]


def test_missing_steps_are_no_part_of_the_time_before_a_rollback(read: Read) -> None:
    # back to 5 at 41, on to 8 at 47, broken at 60; the next works on from 10: two steps are missing in that tail alone
    log = saved().rollback(41, 5).steps(41, 6, 8).failure(60).as_attempt(1).up(70, resume=10).steps(80, 11, 12).end(84)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 20), (41, 51), (80, 84)]
    assert answer.stretches("lost") == [(25, 37), (51, 53)]


def test_missing_steps_go_on_after_an_evaluation_in_the_tail() -> None:
    # four steps are missing: two before the evaluation from 39 to 49, two after it; then one in flight
    # not said, but who did the steps after it did the evaluation before them
    log = saved().phase("eval", 39, 49).failure(60).as_attempt(1).up(70, resume=14).steps(80, 15, 16).end(84)
    answer = ledger_answers(log.events)["r"]
    assert answer.stretches("kept") == [(10, 20), (25, 53), (80, 84)]
    assert answer.stretches("lost") == [(53, 55)]
    assert answer.s("kept/eval") == [10]


def test_missing_steps_around_an_evaluation_are_lost_from_the_right_one_on() -> None:
    # a later attempt works on from 12: of the four missing steps the two before the evaluation stay
    log = saved().phase("eval", 39, 49).failure(60).as_attempt(1).up(70, resume=14).steps(80, 15, 16).failure(84)
    answer = ledger_answers(log.as_attempt(2).up(90, resume=12).steps(100, 13, 14).end(104).events)["r"]
    assert answer.stretches("kept") == [(10, 20), (25, 49), (100, 104)]
    assert answer.stretches("lost") == [(49, 55), (80, 84)]


def test_running_tail_of_records_of_several_steps_is_judged_by_one(read: Read) -> None:
    # ten steps in 20 s to 30; 32.001 s later one step more would be 30.001 s too long
    log = begun().step(30, 10, dur=20, count=10)
    assert read(log, now=62).s("restart/stall", "kept") == [0, 52]
    assert read(log, now=62.5).s("restart/stall", "kept") == [30.5, 22]


def test_running_tail_of_records_without_dur_is_kept(read: Read) -> None:
    log = begun().step(20, 5, dur=None).step(30, 6, dur=None)
    assert read(log, now=200).s("restart/stall") == [0]
    assert read(log, now=200).stretches("restart") == [(0, 20)]


def test_restart_that_goes_on_is_called_by_how_training_stopped() -> None:
    now_us = T0_US + 100_000_000
    failed = ledger_answers(saved().failure(37).events, now_us)["r"]
    assert failed.s("restart/replace", "restart/detect") == [63, 0]
    assert ledger_answers(saved().stop(35).events, now_us)["r"].s("restart/planned") == [65]


def test_time_to_a_planned_stop_is_planned_where_another_attempt_follows_else_shutdown(read: Read) -> None:
    last = saved().stop(40).end(50)
    assert read(last).s("restart/shutdown", "restart/planned") == [15, 0]
    followed = saved().stop(40).as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(74)
    assert read(followed).s("restart/planned") == [25]


def test_time_before_an_unexplained_stop_is_other(read: Read) -> None:
    # its last sign is an evaluation from 41 to 45; 35 to 37 was in flight
    log = saved().phase("eval", 41, 45).as_attempt(1).up(45, resume=10).steps(50, 11, 12).end(54)
    assert read(log).s("restart/other", "restart/shutdown") == [4, 0]


def test_time_after_a_failed_last_attempt_is_shutdown(read: Read) -> None:
    answer = read(saved().failure(37).end(100, "failed"))
    assert answer.s("restart/shutdown") == [63]


def test_start_of_a_further_segment_is_startup(read: Read) -> None:
    log = saved().end(35, "cancelled").start(100).as_attempt(1).up(104, resume=5).steps(110, 6, 7).end(114)
    assert read(log).s("restart/startup") == [10 + 10]


def test_save_in_progress_is_called_save_and_one_that_never_closed_aborted(read: Read) -> None:
    log = saved().own("checkpoint.start", 35, step=10)
    assert read(log, now=50).s("checkpoint/save", "checkpoint/aborted") == [20, 0]
    assert read(log.failure(50), now=60).s("checkpoint/save", "checkpoint/aborted") == [5, 15]


def test_restart_is_split_at_the_first_of_several_starts(read: Read) -> None:
    log = (
        saved().failure(37).as_attempt(1).up(50, resume=10, rank=1).up(55, resume=10, rank=0).steps(70, 11, 12).end(74)
    )
    assert read(log).s("restart/replace", "restart/reload") == [13, 20]


def test_step_in_flight_after_a_rollback_takes_the_time_of_the_steps_before_where_none_was_told_since() -> None:
    log = saved().rollback(35, 5).step(45, 6, dur=None).failure(60)
    answer = ledger_answers(log.as_attempt(1).up(70, resume=6).steps(80, 7, 8).end(84).events)["r"]
    assert answer.s("lost/in_flight") == [2]


def test_attempt_that_saves_before_its_start_is_told_was_replaced_until_then() -> None:
    log = saved().failure(37).as_attempt(1).save(10, 50, 52).up(60, resume=10).steps(70, 11, 12).end(74)
    answer = ledger_answers(log.events)["r"]
    assert answer.s("restart/replace", "restart/reload") == [13 + 8, 10]
