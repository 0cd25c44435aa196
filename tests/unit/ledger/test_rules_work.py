"""Rules 3 and 4 of ``docs/ledger.md``, sentence by sentence: what steps and saves own.

Steps take 2 s unless a test says otherwise; ``four`` is (kept, checkpoint, lost, restart) in seconds.
"""

from __future__ import annotations

from typing import Any

import pytest
from ledger_oracle.answers import Read
from ledger_oracle.build import Log
from tachograph_collector.ledger import Ledger


def begun() -> Log:
    """A run that is up at second 0."""
    return Log().start(0).up(0, resume=0)


# ---- rule 3: what a record covers


def test_record_covers_the_steps_since_the_last_record(read: Read) -> None:
    # every fifth recorded, each of 2 s and 10 s apart; the first owns 2 + 4 * 2 s
    answer = read(begun().step(30, 5).step(40, 10).step(50, 15).end(50))
    assert answer.stretches("kept") == [(20, 50)]
    assert answer.steps == 15


def test_hole_in_the_telemetry_is_work_when_the_counter_shows_it(read: Read) -> None:
    # steps 6..45 have no record: 40 steps of 2 s
    answer = read(begun().steps(10, 1, 5).steps(100, 46, 50).end(110))
    assert answer.four == (100, 0, 0, 10)


def test_hole_longer_than_its_steps_need_is_a_stall(read: Read) -> None:
    # 20..102 owns 82 s for 6 steps of 2 s: the excess of 70 s comes first
    answer = read(begun().steps(10, 1, 5).steps(100, 11, 15).end(110))
    assert answer.stretches("kept") == [(10, 20), (90, 110)]
    assert answer.s("restart/stall") == [70]


def test_first_record_covers_the_steps_since_the_resume_step(read: Read) -> None:
    # 100 restored; step 104 ends at 40: 2 s and three steps of 2 s before
    log = Log().start(0).up(0, resume=100).step(40, 104).step(42, 105).end(42)
    assert read(log).stretches("kept") == [(32, 42)]


def test_resume_step_is_not_believed_if_the_steps_would_not_fit(read: Read) -> None:
    # 21 steps of 2 s need 42 s; only 41 s since the attempt began
    log = Log().start(0).up(0, resume=100).step(41, 121).step(43, 122).end(43)
    assert read(log).stretches("kept") == [(39, 43)]


def test_resume_step_is_believed_if_the_steps_just_fit(read: Read) -> None:
    log = Log().start(0).up(0, resume=100).step(42, 121).step(44, 122).end(44)
    assert read(log).stretches("kept") == [(0, 44)]


def test_resume_step_that_is_not_lower_is_not_believed(read: Read) -> None:
    log = Log().start(0).up(0, resume=100).step(42, 100).step(44, 101).end(44)
    assert read(log).stretches("kept") == [(40, 44)]


def test_without_a_resume_step_the_first_record_covers_from_a_save_before_it(read: Read) -> None:
    # the save of step 20 was over at 15; step 25 ends at 30: five steps of 2 s
    log = Log().start(0).up(0).save(20, 10, 15).step(30, 25).step(32, 26).end(32)
    assert read(log).stretches("kept") == [(20, 32)]


def test_without_any_word_the_first_record_covers_its_own_count(read: Read) -> None:
    answer = read(Log().start(0).up(0).step(40, 200, dur=8, count=4).step(48, 204, dur=8, count=4).end(48))
    assert answer.stretches("kept") == [(32, 48)]


def test_records_that_count_several_steps_share_their_time(read: Read) -> None:
    # two records of 10 steps and 20 s; a failure; the next resumes from step 15: half of the second is lost
    log = begun().step(30, 10, dur=20, count=10).step(50, 20, dur=20, count=10).failure(50)
    log.as_attempt(1).up(60, resume=15).step(80, 20, dur=10, count=5).step(90, 25, dur=10, count=5).end(90)
    answer = read(log)
    assert answer.stretches("lost") == [(40, 50)]
    assert answer.four == (30 + 20, 0, 10, 10 + 20)


# ---- rule 3: what a record owns


def test_record_owns_the_time_from_the_previous_record_to_its_own_end(read: Read) -> None:
    # 5 s between two records whose own dur is 2 s: data loading belongs to the step
    answer = read(begun().step(12, 1).step(17, 2).step(22, 3).end(22))
    assert answer.stretches("kept") == [(10, 22)]


def test_record_owns_the_time_from_the_previous_save(read: Read) -> None:
    answer = read(begun().steps(10, 1, 5).save(5, 20, 30).step(37, 6).end(37))
    assert answer.stretches("kept") == [(10, 20), (30, 37)]


def test_first_record_owns_back_past_a_save(read: Read) -> None:
    # steps 1..5 need 10 s back from 30, and a save of 4 s lies between: 16..20 and 24..30
    answer = read(begun().save(2, 20, 24).step(30, 5).step(32, 6).end(32))
    assert answer.stretches("kept") == [(16, 20), (24, 32)]
    assert answer.s("checkpoint") == [4]


def test_first_record_never_owns_time_before_its_attempt(read: Read) -> None:
    # told nothing, step 3 lasted 2 s; attempt up at 29: with a save before, two steps fit into no more than 3 s
    log = Log().start(0).as_attempt(1).up(27, resume=0).step(30, 1, dur=2).step(32, 2).end(32)
    assert read(log).stretches("kept") == [(28, 32)]


def test_first_record_owns_for_missing_steps_the_smaller_of_its_pace_and_the_nexts(read: Read) -> None:
    # step 5 took 3 s, step 6 took 2 s: 3 + 4 * 2 = 11 s
    answer = read(begun().step(40, 5, dur=3).step(42, 6, dur=2).end(42))
    assert answer.stretches("kept") == [(29, 42)]
    # the other way round: step 5 took 2 s, step 6 took 3 s: 2 + 4 * 2 = 10 s
    answer = read(begun().step(40, 5, dur=2).step(43, 6, dur=3).end(43))
    assert answer.stretches("kept") == [(30, 43)]


def test_first_record_more_than_twice_as_slow_as_the_next_carries_warmup(read: Read) -> None:
    # 5 s against 2 s: 3 s are no training
    answer = read(begun().step(15, 1, dur=5).steps(15, 2, 5).end(23))
    assert answer.four == (10, 0, 0, 13)
    assert answer.s("restart/warmup") == [3]


def test_first_record_exactly_twice_as_slow_as_the_next_carries_none(read: Read) -> None:
    answer = read(begun().step(14, 1, dur=4).steps(14, 2, 5).end(22))
    assert answer.s("restart/warmup", "kept") == [0, 12]


def test_slow_later_record_is_no_warmup(read: Read) -> None:
    answer = read(begun().steps(10, 1, 2).step(24, 3, dur=10).step(26, 4).end(26))
    assert answer.s("restart/warmup", "kept") == [0, 16]


def test_first_record_without_dur_owns_nothing(read: Read) -> None:
    answer = read(begun().step(20, 1, dur=None).step(22, 2).end(22))
    assert answer.stretches("kept") == [(20, 22)]


def test_first_record_without_dur_that_is_the_only_one_owns_nothing(read: Read) -> None:
    assert read(begun().step(20, 1, dur=None).end(20, "failed")).four == (0, 0, 0, 20)
    assert read(begun().step(20, 1, dur=None), now=25).four == (5, 0, 0, 20)  # what runs since is in flight


def test_time_between_a_step_and_the_save_that_proves_it_belongs_to_that_step(read: Read) -> None:
    # 20..26 belongs to step 5; the next attempt resumes from 4: step 5 is lost with it
    log = begun().steps(10, 1, 5).save(5, 26, 30).failure(30)
    log.as_attempt(1).up(40, resume=4).steps(50, 5, 6).end(54)
    assert read(log).stretches("lost") == [(18, 26)]


def test_save_of_a_later_step_proves_steps_that_no_record_tells(read: Read) -> None:
    # the save of step 10 starts at 30: steps 6..10 were done in 20..30; the failure after it loses nothing
    log = begun().steps(10, 1, 5).save(10, 30, 34).failure(34)
    log.as_attempt(1).up(40, resume=10).steps(50, 11, 12).end(54)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 30), (50, 54)]
    assert answer.s("lost") == [0]


def test_save_whose_start_was_lost_proves_steps_too(read: Read) -> None:
    # saved at 30 without start or dur; steps 6..10 were done in 20..30, step 12 from there on; resume from 10
    log = begun().steps(10, 1, 5).own("checkpoint.saved", 30, step=10).step(40, 12).failure(40)
    log.as_attempt(1).up(45, resume=10).steps(50, 11, 12).end(54)
    assert read(log).stretches("lost") == [(30, 40)]  # not two of seven steps of 20..40


def test_save_whose_start_was_lost_covers_just_what_it_proved(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.saved", 30, step=10).step(40, 12)
    assert read(log, now=40).s("kept", "at_risk") == [30, 10]
    # the same right after the first record, which owns 10..24: step 8 is what 24..31 was, 9..12 are at risk
    log = begun().step(24, 7).own("checkpoint.saved", 31, step=8).step(39, 12)
    assert read(log, now=39).s("kept", "at_risk") == [29, 8]


def test_record_after_a_save_that_proved_steps_covers_only_the_rest(read: Read) -> None:
    # save of step 10 at 30..34, then step 12 at 38; resume from 11: half of 34..38 is lost
    log = begun().steps(10, 1, 5).save(10, 30, 34).step(38, 12).failure(38)
    log.as_attempt(1).up(40, resume=11).steps(50, 12, 13).end(54)
    assert read(log).stretches("lost") == [(36, 38)]


def test_save_that_proves_steps_can_have_stalled(read: Read) -> None:
    # 20..120 for 5 steps of 2 s: 90 s too long; they come first
    answer = read(begun().steps(10, 1, 5).save(10, 120, 124).end(124))
    assert answer.stretches("kept") == [(10, 20), (110, 120)]


# ---- rule 3: stalls


@pytest.mark.parametrize(("owned", "stall"), [(32.0, 0.0), (32.001, 30.001)])
def test_stall_must_exceed_30_s(read: Read, owned: float, stall: float) -> None:
    # one step of 2 s: the excess of 32 s is exactly 30 s
    answer = read(begun().steps(10, 1, 5).step(20 + owned, 6).end(20 + owned))
    assert answer.s("restart/stall") == [stall]


@pytest.mark.parametrize(("owned", "stall"), [(60.0, 0.0), (60.001, 50.001)])
def test_stall_must_exceed_five_steps(read: Read, owned: float, stall: float) -> None:
    # steps of 10 s: five of them are 50 s above the expected 10 s
    log = Log(dur=10).start(0).up(0, resume=0).steps(10, 1, 2).step(30 + owned, 3).end(30 + owned)
    assert read(log).s("restart/stall") == [stall]


@pytest.mark.parametrize(("owned", "stall"), [(300.0, 0.0), (300.001, 100.001)])
def test_stall_must_exceed_half_the_expected_time(read: Read, owned: float, stall: float) -> None:
    # 100 steps of 2 s are expected to take 200 s; half of it is 100 s
    log = begun().steps(10, 1, 5).step(20 + owned, 105).end(20 + owned)
    assert read(log).s("restart/stall") == [stall]


def test_stall_comes_first_in_the_time(read: Read) -> None:
    answer = read(begun().steps(10, 1, 5).step(120, 6).end(120))
    assert answer.stretches("kept") == [(10, 20), (118, 120)]


def test_evaluation_is_no_stall_and_keeps_its_time(read: Read) -> None:
    # 20..160: 80 s of evaluation in 40..120, then one step of 2 s; the other 58 s are a stall: 20..40 and 120..158
    log = begun().steps(10, 1, 5).phase("eval", 40, 120).step(160, 6).end(160)
    answer = read(log)
    assert answer.stretches("kept") == [(10, 20), (40, 120), (158, 160)]
    assert answer.s("kept/eval", "restart/stall") == [80, 58]


def test_declared_wait_for_data_is_a_stall_over_the_limits(read: Read) -> None:
    answer = read(begun().steps(10, 1, 5).phase("data_wait", 20, 60).step(62, 6).end(62))
    assert answer.s("restart/stall", "kept") == [40, 12]


def test_declared_wait_for_data_below_the_limits_is_kept(read: Read) -> None:
    answer = read(begun().steps(10, 1, 5).phase("data_wait", 20, 45).step(47, 6).end(47))
    assert answer.s("restart/stall", "kept", "kept/data_wait") == [0, 37, 25]


def test_record_without_dur_has_no_stall(read: Read) -> None:
    answer = read(begun().steps(10, 1, 5).step(520, 6, dur=None).end(520))
    assert answer.s("restart/stall", "kept") == [0, 510]


def test_first_record_has_no_stall(read: Read) -> None:
    assert read(begun().step(500, 1, dur=400).step(900, 2, dur=400).end(900)).s("restart/stall") == [0]


def test_first_record_after_a_rollback_has_no_stall(read: Read) -> None:
    # from the rollback to the next step's beginning is restart, not a stall
    log = begun().steps(10, 1, 5).rollback(20, 3).step(122, 4).step(124, 5).end(124)
    answer = read(log)
    assert answer.s("restart/stall") == [0]
    assert answer.stretches("restart") == [(0, 10), (20, 120)]


# ---- rule 4: saves


def test_save_lasts_from_its_start_to_saved(read: Read) -> None:
    assert read(begun().steps(10, 1, 5).save(5, 22, 30).end(30)).stretches("checkpoint") == [(22, 30)]


def test_save_begins_with_saved_less_dur_where_no_start_was_told(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.saved", 30, step=5, dur=6).end(30)
    assert read(log).stretches("checkpoint") == [(24, 30)]


def test_save_begins_with_saved_less_dur_if_that_is_earlier(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.start", 26, step=5).own("checkpoint.saved", 30, step=5, dur=6)
    assert read(log.end(30)).stretches("checkpoint") == [(24, 30)]


def test_failed_save_is_checkpoint_until_it_failed(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.start", 20, step=5).own("checkpoint.failed", 27, step=5)
    answer = read(log.steps(27, 6, 7).end(31, "cancelled"))
    assert answer.stretches("checkpoint") == [(20, 27)]
    assert answer.s("checkpoint/aborted", "checkpoint/save") == [7, 0]
    assert answer.s("kept", "lost") == [0, 14]


def test_save_counts_as_the_lowest_rank_tells_it(read: Read) -> None:
    log = begun().steps(10, 1, 5).save(5, 20, 40, rank=3).save(5, 22, 28, rank=1).save(5, 21, 44, rank=2)
    assert read(log.end(50)).stretches("checkpoint") == [(22, 28)]


def test_save_is_checkpoint_where_a_steps_dur_overlaps_it(read: Read) -> None:
    # the step that ends at 32 says 12 s, as its clock ran through the save
    log = begun().steps(10, 1, 5).save(5, 20, 30).step(32, 6, dur=12).end(32)
    assert read(log).four == (12, 10, 0, 10)


def test_unclosed_save_ends_where_the_next_steps_own_one_began(read: Read) -> None:
    # next record: 4 s for 2 steps, ends at 40: its own `one` began at 38
    log = begun().steps(10, 1, 5).own("checkpoint.start", 20, step=5).step(40, 7, dur=4, count=2).end(40)
    answer = read(log)
    assert answer.stretches("checkpoint") == [(20, 38)]
    assert answer.s("checkpoint/save") == [18]


def test_unclosed_save_ends_with_the_attempt(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.start", 20, step=5).failure(26)
    log.as_attempt(1).up(40, resume=0).steps(50, 1, 5).end(60)
    answer = read(log)
    assert answer.stretches("checkpoint") == [(20, 26)]
    assert answer.s("checkpoint/aborted") == [6]


def test_save_in_progress_is_checkpoint_up_to_now(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.start", 20, step=5)
    answer = read(log, now=300)
    assert answer.stretches("checkpoint") == [(20, 300)]
    assert answer.s("at_risk") == [10]


def test_asynchronous_save_costs_only_its_blocking_part(read: Read) -> None:
    log = begun().steps(10, 1, 5).save(5, 20, 21, mode="async").steps(21, 6, 10).persisted(30, 5).end(31)
    assert read(log).four == (20, 1, 0, 10)


def at_risk_after(read: Read, *events: tuple[str, float, dict[str, Any]], mode: str = "async") -> float:
    """At risk of a running log of 5 steps, a save of step 5, and 5 steps more, all read at 31."""
    log = begun().steps(10, 1, 5).save(5, 20, 21, mode=mode).steps(21, 6, 10)
    for kind, t, fields in events:
        log.own(kind, t, step=5, **fields)
    (risk,) = read(log, now=31).s("at_risk")
    return float(risk)


def test_sync_save_lands_with_saved(read: Read) -> None:
    assert at_risk_after(read, mode="sync") == 10


def test_async_save_has_not_landed_with_saved(read: Read) -> None:
    assert at_risk_after(read) == 20


@pytest.mark.parametrize(("tier", "risk"), [(None, 10), ("storage", 10), ("peer", 10), ("local", 20), ("memory", 20)])
def test_storage_and_peer_land_but_local_and_memory_do_not(read: Read, tier: str | None, risk: float) -> None:
    fields: dict[str, Any] = {} if tier is None else {"tier": tier}
    assert at_risk_after(read, ("checkpoint.persisted", 25, fields)) == risk


def test_save_that_was_persisted_locally_and_then_to_storage_landed(read: Read) -> None:
    local = ("checkpoint.persisted", 23, {"tier": "local"})
    assert at_risk_after(read, local, ("checkpoint.persisted", 25, {"tier": "storage"})) == 10


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_save_that_any_rank_reported_failed_has_not_landed(read: Read, mode: str) -> None:
    persisted: tuple[str, float, dict[str, Any]] = ("checkpoint.persisted", 25, {})
    assert at_risk_after(read, persisted, ("checkpoint.failed", 24, {"rank": 3}), mode=mode) == 20


def test_save_that_has_not_landed_covers_nothing_of_a_first_record_after_it(read: Read) -> None:
    # only the records of the save and of step 10 arrived: 2 + 9 * 2 s of steps lie around the save's 2 s
    log = begun().save(5, 22, 24, mode="async").step(36, 10).step(38, 11)
    assert read(log, now=38).s("kept", "at_risk") == [22, 22]
    # landed, it covers steps 1 to 5: half of what the first record owns
    assert read(log.persisted(38, 5), now=38).s("kept", "at_risk") == [22, 12]


def test_failed_save_that_was_tried_again_has_landed(read: Read) -> None:
    log = begun().steps(10, 1, 5).own("checkpoint.start", 20, step=5).own("checkpoint.failed", 22, step=5)
    answer = read(log.save(5, 23, 26), now=26)
    assert answer.stretches("checkpoint") == [(20, 22), (23, 26)]
    assert answer.s("at_risk", "kept") == [0, 11]  # the second between the two belongs to step 5


def test_deleted_checkpoint_is_no_matter_of_the_ledger(read: Read) -> None:
    assert at_risk_after(read, ("checkpoint.deleted", 28, {}), mode="sync") == 10


def test_what_an_abandoned_branch_saved_covers_nothing_however_late_it_lands(read: Read) -> None:
    # attempt 0 saves step 10 asynchronously and fails; attempt 1 goes on from 5; the old save lands after
    log = begun().steps(10, 1, 5).save(5, 20, 22).steps(22, 6, 10).save(10, 32, 33, mode="async").failure(33)
    log.as_attempt(1).up(40, resume=5).steps(50, 6, 12)
    log.as_attempt(0).persisted(63, 10)
    answer = read(log, now=64)
    assert answer.s("at_risk") == [14]  # 50..64: steps 6..12
    assert read(log.end(64, "cancelled")).s("kept", "lost") == [10, 10 + 14]


def test_stall_of_a_record_of_several_steps_is_judged_by_the_pace_of_one(read: Read) -> None:
    # ten steps of 2 s in one record, 51 s after the last: 31 s too long, which is more than five steps and half of 20 s
    log = begun().steps(10, 1, 5).step(71, 15, dur=20, count=10).end(71)
    assert read(log).s("restart/stall", "kept") == [31, 30]


@pytest.mark.parametrize("second", [(25, 35), (25, 30)], ids=["overlapping", "within"])
def test_time_in_which_two_saves_stood_at_once_is_no_part_of_a_stall(read: Read, second: tuple[float, float]) -> None:
    # until 30 or 35, and until 35 or 30: step 7 ends 28 s later, 26 s too long
    log = begun().steps(10, 1, 5).save(5, 20, 65 - second[1]).save(6, *second).step(63, 7).end(63)
    assert read(log).s("restart/stall", "checkpoint") == [0, 15]


def test_stall_after_two_saves_at_once_counts_from_the_later_ones_end(read: Read) -> None:
    # saves of 5 and 6 until 35; step 7 ends at 67.5: 30.5 s too long
    log = begun().steps(10, 1, 5).save(5, 20, 30).save(6, 25, 35).step(67.5, 7).end(67.5)
    assert read(log).s("restart/stall") == [30.5]


# ---- rule 3: first records of several steps


def resume_of(log: Log) -> list[int | None]:
    ledger = Ledger()
    ledger.add(log.events)
    return [attempt.resume_step for attempt in ledger.details("r").attempts]


def test_first_record_without_any_word_covers_the_steps_that_it_counts() -> None:
    assert resume_of(Log().start(0).up(0).step(30, 20, dur=20, count=10)) == [10]
    assert resume_of(Log().start(0).up(0).step(30, 3, dur=10, count=5)) == [0]


def test_resume_step_is_believed_if_the_steps_beyond_the_records_own_just_fit() -> None:
    # ten steps in 20 s, and ten more of 2 s before them: 40 s, the time since the start
    assert resume_of(Log().start(0).up(0, resume=0).step(40, 20, dur=20, count=10)) == [0]
    assert resume_of(Log().start(0).up(0.001, resume=0).step(40, 20, dur=20, count=10)) == [10]


def test_resume_step_that_is_that_of_the_record_itself_is_not_believed() -> None:
    assert resume_of(Log().start(0).up(0, resume=5).step(10, 5)) == [4]


def test_save_of_the_step_of_the_first_record_says_nothing_of_what_was_done_before() -> None:
    assert resume_of(Log().start(0).up(0).save(5, 5, 6).step(10, 5)) == [4]


def test_of_several_saves_before_the_first_record_the_last_says_what_was_done() -> None:
    assert resume_of(Log().start(0).up(0).save(5, 2, 3).save(7, 4, 5).step(10, 8)) == [7]


def test_where_a_resume_step_was_told_in_vain_a_save_before_is_not_asked() -> None:
    assert resume_of(Log().start(0).up(0, resume=0).save(8, 1, 2).step(6, 11)) == [10]


def test_steps_before_the_first_record_take_the_pace_of_one_of_its_steps(read: Read) -> None:
    # ten steps of 2 s in one record, ten before it; the next step takes 5 s
    log = Log().start(0).up(0, resume=0).step(60, 20, dur=20, count=10).step(65, 21, dur=5).end(65)
    assert read(log).stretches("kept") == [(20, 65)]


def test_first_record_of_several_steps_at_the_pace_of_the_next_carries_no_warmup(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).step(30, 10, dur=20, count=10).steps(30, 11, 15).end(40)
    assert read(log).s("restart/warmup", "kept") == [0, 30]


def test_first_record_of_several_slow_steps_carries_what_is_beyond_the_pace_of_the_next(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).step(110, 10, dur=100, count=10).steps(110, 11, 15).end(120)
    assert read(log).s("restart/warmup", "kept") == [80, 30]


def test_next_record_is_none_where_the_step_falls_or_the_attempt_starts_anew(read: Read) -> None:
    falls = Log().start(0).up(0, resume=4).step(30, 5, dur=20).step(40, 3, dur=2).end(40)
    anew = Log().start(0).up(0, resume=4).step(30, 5, dur=20).up(35, resume=5).step(40, 6, dur=2).end(40)
    assert read(falls).s("restart/warmup") == [0]
    assert read(anew).s("restart/warmup") == [0]


def test_slow_first_record_after_a_rollback_carries_no_warmup(read: Read) -> None:
    log = begun().steps(10, 1, 10).rollback(30, 5).step(40, 6, dur=10).steps(40, 7, 10).end(48)
    assert read(log).s("restart/warmup") == [0]


def test_first_record_and_the_time_to_the_save_that_proves_it_hold_no_stall(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).step(12, 1).save(1, 60, 62).end(62)
    assert read(log).stretches("kept") == [(10, 60)]


# ---- rule 3: records that are behind what a save has proved


def test_record_behind_what_a_save_proved_takes_nothing_back(read: Read) -> None:
    log = begun().steps(10, 1, 8).save(10, 30, 35).step(37, 9)
    assert read(log).steps == 10


@pytest.mark.parametrize("told", [9, 10])
def test_time_of_a_record_behind_what_a_save_proved_is_that_of_the_step_proved(read: Read, told: int) -> None:
    # a save proves 10 when 8 is recorded; 9 or 10 is told after it, then 11 and 12
    log = begun().steps(10, 1, 8).save(10, 30, 35).step(37, told).steps(37, 11, 12).failure(41)
    answer = read(log.as_attempt(1).up(50, resume=10).steps(60, 11, 12).end(64))
    assert answer.stretches("lost") == [(37, 41)]
