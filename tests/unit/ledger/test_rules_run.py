"""Rule 1 of ``docs/ledger.md``, sentence by sentence: the run's time.

Steps take 2 s unless a test says otherwise; ``four`` is (kept, checkpoint, lost, restart) in seconds.
"""

from __future__ import annotations

import pytest
from ledger_oracle.answers import Read, Reading
from ledger_oracle.build import Log, simple


def test_run_lasts_from_its_start_to_its_end(read: Read) -> None:
    answer = read(simple().end(40))
    assert answer.times == [(0, 40, "completed")]
    assert answer.four == (20, 5, 0, 15)  # 10 s start-up, 5 s from the save to the end


def test_run_begins_with_work_that_is_earlier_than_its_start(read: Read) -> None:
    answer = read(Log().steps(10, 1, 10).start(25).end(30))
    assert answer.times == [(10, 30, "completed")]
    assert answer.four == (20, 0, 0, 0)


def test_run_begins_with_an_attempt_that_is_earlier_than_its_start(read: Read) -> None:
    assert read(Log().up(3, resume=0).start(5).steps(10, 1, 10).end(30)).times == [(3, 30, "completed")]


def test_failure_before_the_first_record_of_a_run_but_within_its_time_counts(read: Read) -> None:
    # the step that ends at 30 began at 10; the failure at 20 was not survived
    answer = read(Log(dur=20).steps(10, 1, 1).failure(20).end(40, "failed"))
    assert answer.times == [(10, 40, "failed")]
    assert answer.causes_us == {"gpu": 20_000_000}


def test_rollback_opens_no_segment(read: Read) -> None:
    log = simple().end(40, "cancelled").as_attempt(1).rollback(300, 5)
    assert read(log).times == [(0, 40, "cancelled")]


def test_run_begins_with_a_save_that_is_earlier_than_its_start(read: Read) -> None:
    # saved at 6, lasted 4 s
    log = Log().own("checkpoint.saved", 6, step=5, dur=4).start(8).steps(10, 6, 15).end(30)
    assert read(log).times == [(2, 30, "completed")]


def test_end_without_a_status_is_completed(read: Read) -> None:
    assert read(simple().end(40, status=None)).status == "completed"


def test_start_inside_the_run_changes_nothing(read: Read) -> None:
    assert read(simple().start(20).end(40)).times == [(0, 40, "completed")]


def test_second_end_is_outside_and_changes_nothing(read: Read) -> None:
    assert read(simple().end(40).end(41, "failed")).times == [(0, 40, "completed")]


def test_work_more_than_60_s_after_an_end_opens_a_further_segment(read: Read) -> None:
    # the step that ends at 102.5 began at 100.5, 60.5 s after the end
    log = simple().end(40, "cancelled").steps(100.5, 11, 15).end(110.5)
    answer = read(log)
    assert answer.times == [(0, 40, "cancelled"), (100.5, 110.5, "completed")]
    assert answer.s("wall") == [50]


def test_work_exactly_60_s_after_an_end_opens_nothing(read: Read) -> None:
    log = simple().end(40, "cancelled").step(102, 11)
    assert read(log).times == [(0, 40, "cancelled")]


def test_straggling_step_after_the_end_is_no_time_of_the_run(read: Read) -> None:
    answer = read(simple().step(42, 11).end(41))
    assert answer.times == [(0, 41, "completed")]
    assert answer.four == (20, 5, 0, 16)
    assert answer.steps == 10


def test_open_run_lasts_to_its_latest_event_in_a_replay(read: Read) -> None:
    answer = read(simple().add("heartbeat", 50, node="n"))
    assert answer.times == [(0, 50, "running")]


def test_open_run_lasts_to_now(read: Read) -> None:
    assert read(simple(), now=55).times == [(0, 55, "running")]


def test_events_after_now_are_not_seen(read: Read) -> None:
    answer = read(simple().failure(41).end(60), now=40)
    assert answer.times == [(0, 40, "running")]
    assert answer.failures == 0


def test_event_at_now_is_seen(read: Read) -> None:
    assert read(simple().end(40), now=40).status == "completed"


def test_time_between_segments_is_not_the_runs(read: Read) -> None:
    log = simple().end(35, "cancelled").start(1000).as_attempt(1).up(1000, resume=10).steps(1010, 11, 20).end(1030)
    answer = read(log)
    assert answer.s("wall") == [35 + 30]
    assert answer.four == (40, 5, 0, 20)  # two starts of 10 s


def test_start_from_step_0_after_completed_is_a_new_run(reading: Reading) -> None:
    log = simple().end(40).start(100).as_attempt(1).up(100, resume=0).steps(110, 1, 5).end(120)
    answers = reading(log.events)
    assert sorted(answers) == ["r", "r#2"]
    assert answers["r"].four == (20, 5, 0, 15)
    assert answers["r#2"].four == (10, 0, 0, 10)
    assert answers["r#2"].num_attempts == 1


def test_third_start_from_step_0_is_number_three(reading: Reading) -> None:
    log = Log()
    for n in range(3):
        log.as_attempt(n).start(100 * n).up(100 * n, resume=0).steps(100 * n + 10, 1, 5).end(100 * n + 20)
    assert sorted(reading(log.events)) == ["r", "r#2", "r#3"]


def test_later_start_after_completed_continues_the_run(reading: Reading) -> None:
    log = simple().end(40).start(100).as_attempt(1).up(100, resume=10).steps(110, 11, 15).end(120)
    answers = reading(log.events)
    assert sorted(answers) == ["r"]
    assert answers["r"].steps == 15
    assert answers["r"].times == [(0, 40, "completed"), (100, 120, "completed")]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_start_from_step_0_after_another_end_continues_the_run(reading: Reading, status: str) -> None:
    log = simple().end(35, status).start(100).as_attempt(1).up(100, resume=0).steps(110, 1, 10).end(130)
    answers = reading(log.events)
    assert sorted(answers) == ["r"]
    assert answers["r"].s("kept", "lost") == [20, 20]  # the first ten steps were done again


def test_never_numbered_attempt_of_a_new_run_is_not_the_old_one(reading: Reading) -> None:
    log = simple().end(40).start(100).up(100, resume=0).steps(110, 1, 5).end(120)
    answers = reading(log.events)
    assert answers["r#2"].four == (10, 0, 0, 10)


def test_failure_after_the_end_is_outside(read: Read) -> None:
    answer = read(simple().end(40).failure(45))
    assert answer.failures == 0
    assert answer.times == [(0, 40, "completed")]


def test_heartbeat_before_the_start_is_outside(read: Read) -> None:
    assert read(simple().add("heartbeat", -30, node="n").end(40)).times == [(0, 40, "completed")]


def test_save_may_land_after_the_end(read: Read) -> None:
    log = simple().steps(35, 11, 15).save(15, 45, 46, mode="async").end(50, "cancelled")
    # without the landing, steps 11 to 15 are lost; one step of the 4 s after the save was in flight
    assert read(log).four == (20, 6, 12, 12)
    # with it, only the step in flight is
    assert read(log.persisted(70, 15)).four == (30, 6, 2, 12)


def test_silent_live_run_is_abandoned_after_six_hours(read: Read) -> None:
    log = simple().steps(35, 11, 15)  # last event at 45
    assert read(log, now=45 + 6 * 3600 - 1).status == "running"
    answer = read(log, now=45 + 6 * 3600 + 1)
    assert answer.status == "abandoned"
    assert answer.times == [(0, 45, "abandoned")]
    assert answer.failures == 1
    assert answer.four == (20, 5, 10, 10)  # what nothing landed covers is lost, as after `failed`
    assert answer.s("at_risk") == [0]


def test_heartbeat_keeps_a_run_from_being_abandoned(read: Read) -> None:
    log = simple().add("heartbeat", 4 * 3600, node="n")
    assert read(log, now=9 * 3600).status == "running"


def test_run_that_holds_an_allocation_is_not_abandoned(read: Read) -> None:
    log = simple().add("allocation.start", 0, gpus=8)
    assert read(log, now=10 * 3600).status == "running"
    assert read(log.add("allocation.end", 40, gpus=8), now=10 * 3600).status == "abandoned"


def test_replay_abandons_nothing(read: Read) -> None:
    log = simple()
    log.add("heartbeat", 8 * 3600, node="n")
    assert read(log).status == "running"


def test_start_from_step_0_after_completed_is_a_new_run_before_it_has_stepped(reading: Reading) -> None:
    log = simple().end(40).start(100).as_attempt(1).up(100, resume=0)
    assert sorted(reading(log.events)) == ["r", "r#2"]


def test_start_from_step_0_after_completed_is_told_by_its_first_record_too(reading: Reading) -> None:
    log = simple().end(40).start(100).as_attempt(1).up(100).steps(110, 1, 5).end(120)
    assert sorted(reading(log.events)) == ["r", "r#2"]


def test_start_that_says_step_0_and_goes_on_continues_the_run(reading: Reading) -> None:
    # ten steps would not fit into the 2 s between its start and its first record
    log = simple().end(40).start(100).as_attempt(1).up(100, resume=0).steps(100, 11, 15).end(110)
    assert sorted(reading(log.events)) == ["r"]


def test_run_that_starts_again_as_it_ends_does_so_at_once(read: Read) -> None:
    log = simple().end(40, "cancelled").start(40).as_attempt(1).up(50, resume=10).steps(60, 11, 15).end(70)
    assert read(log).times == [(0, 40, "cancelled"), (40, 70, "completed")]


@pytest.mark.parametrize("late", [100.0, 100.001])
def test_start_or_save_more_than_60_s_after_an_end_opens_a_segment_and_sooner_none(read: Read, late: float) -> None:
    for log in (simple().end(40, "cancelled").up(late), simple().end(40, "cancelled").save(10, late, late + 5)):
        assert len(read(log).times) == (1 if late == 100 else 2)


@pytest.mark.parametrize(("silent", "status"), [(6 * 3600 - 0.001, "running"), (6 * 3600, "abandoned")])
def test_run_is_abandoned_once_it_was_silent_for_six_hours(read: Read, silent: float, status: str) -> None:
    assert read(simple(), now=35 + silent).status == status
