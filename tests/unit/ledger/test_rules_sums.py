"""Rules 8, 9 and 10 of ``docs/ledger.md`` and the order and identity of events, sentence by sentence.

Steps take 2 s unless a test says otherwise; ``four`` is (kept, checkpoint, lost, restart) in seconds.
"""

from __future__ import annotations

import random

import pytest
from ledger_oracle.answers import Answer, Read, Reading
from ledger_oracle.build import T0, T0_US, Log


def begun() -> Log:
    """A run that is up at second 0, a whole UTC minute."""
    return Log().start(0).up(0, resume=0)


# ---- rule 8: minutes


def test_minutes_are_aligned_to_utc(read: Read) -> None:
    # from second 50 to 130: 10 s, 60 s and 10 s of three minutes
    answer = read(Log().start(50).steps(50, 1, 40).end(130))
    assert [(start - T0_US, us["kept"]) for start, us, _label, _incomplete in answer.minutes] == [
        (0, 10_000_000),
        (60_000_000, 60_000_000),
        (120_000_000, 10_000_000),
    ]


def test_minute_is_labelled_by_the_account_with_the_most_seconds(read: Read) -> None:
    # 10 s start-up, 20 s of steps, 30 s of a save
    answer = read(begun().steps(10, 1, 10).save(10, 30, 60).end(60))
    assert [label for _start, _us, label, _incomplete in answer.minutes] == ["checkpoint"]
    assert answer.num_minutes == {"kept": 0, "checkpoint": 1, "lost": 0, "restart": 0}


def labels_of(read: Read, *seconds_of: tuple[str, float]) -> str:
    """The label of one minute that holds so many seconds of each account."""
    seconds = dict(seconds_of)
    restart, kept, checkpoint = (seconds.get(a, 0) for a in ("restart", "kept", "checkpoint"))
    log = Log().start(0).up(0, resume=0).steps(restart, 1, int(kept / 2))
    at = restart + kept
    log.save(int(kept / 2), at, at + checkpoint).steps(at + checkpoint, int(kept / 2) + 1, 29)
    answer = read(log.end(60, "cancelled"))
    ((_start, us, label, _incomplete),) = answer.minutes
    assert {a: us[a] / 1e6 for a in seconds} == seconds
    return str(label)


def test_tie_goes_to_lost_first(read: Read) -> None:
    assert labels_of(read, ("restart", 20), ("kept", 10), ("checkpoint", 10), ("lost", 20)) == "lost"


def test_tie_goes_to_restart_before_checkpoint(read: Read) -> None:
    assert labels_of(read, ("restart", 20), ("kept", 10), ("checkpoint", 20), ("lost", 10)) == "restart"


def test_tie_goes_to_checkpoint_before_kept(read: Read) -> None:
    assert labels_of(read, ("restart", 10), ("kept", 20), ("checkpoint", 20), ("lost", 10)) == "checkpoint"


def test_tie_goes_to_lost_before_checkpoint(read: Read) -> None:
    assert labels_of(read, ("restart", 10), ("kept", 10), ("checkpoint", 20), ("lost", 20)) == "lost"


def test_tie_goes_to_lost_before_kept(read: Read) -> None:
    assert labels_of(read, ("restart", 10), ("kept", 20), ("checkpoint", 10), ("lost", 20)) == "lost"


def test_tie_goes_to_restart_before_kept(read: Read) -> None:
    assert labels_of(read, ("restart", 20), ("kept", 20), ("checkpoint", 10), ("lost", 10)) == "restart"


def test_totals_are_sums_of_seconds_not_of_labels(read: Read) -> None:
    answer = read(begun().steps(10, 1, 10).save(10, 30, 60).end(60))
    assert answer.four == (20, 30, 0, 10)


def test_minute_with_a_gap_is_incomplete(read: Read) -> None:
    answer = read(begun().steps(10, 1, 100).add("gap", 100, node="n", dropped=5).end(210))
    assert [incomplete for *_rest, incomplete in answer.minutes] == [False, True, False, False]


def test_minute_in_which_nothing_was_heard_is_incomplete_where_agents_were_expected(read: Read) -> None:
    # agents report at 5 and 125; no event at all between 60 and 120
    log = begun().steps(10, 1, 5).add("heartbeat", 5, node="n").add("heartbeat", 125, node="n").step(150, 60).end(170)
    assert [incomplete for *_rest, incomplete in read(log).minutes] == [False, True, False]


def test_silent_minute_is_complete_where_no_agent_was_expected(read: Read) -> None:
    log = begun().steps(10, 1, 5).step(150, 60).end(170)
    assert [incomplete for *_rest, incomplete in read(log).minutes] == [False, False, False]


# ---- rule 9: sub-accounts


def test_sub_accounts_sum_to_their_account(read: Read) -> None:
    log = begun().steps(10, 1, 5).phase("eval", 20, 30).save(5, 30, 35).phase("data_wait", 35, 45).steps(45, 6, 10)
    log.failure(60, "sdc").as_attempt(1).up(90, resume=5).steps(100, 6, 10).end(120)
    answer = read(log)
    for account, us in answer.accounts_us.items():
        assert sum(v for k, v in answer.subs_us.items() if k.startswith(account + "/")) == us
    assert sum(answer.causes_us.values()) == answer.accounts_us["lost"]


def test_kept_is_training_evaluation_or_declared_waiting(read: Read) -> None:
    log = begun().steps(10, 1, 5).phase("eval", 20, 30).phase("data_wait", 30, 38).steps(38, 6, 10).end(48)
    answer = read(log)
    assert answer.s("kept/train", "kept/eval", "kept/data_wait") == [20, 10, 8]


def test_lost_names_the_failure_that_caused_it(read: Read) -> None:
    log = begun().steps(10, 1, 5).failure(21, "storage").as_attempt(1).up(30, resume=2).steps(40, 3, 5)
    log.failure(47, "network").as_attempt(2).up(50, resume=4).steps(60, 5, 6).end(64)
    answer = read(log)
    # 3..5 by the first failure, and 1 s in flight; 5 again by the second, and 1 s in flight
    assert answer.causes_us == {"storage": 7_000_000, "network": 3_000_000}


# ---- rule 10: GPU-hours


def gpu_seconds(answer: Answer) -> dict[str, float]:
    assert answer.gpu_us is not None
    return {name: us / 1e6 for name, us in answer.gpu_us.items()}


def test_gpu_time_is_unknown_where_nobody_says_how_many(read: Read) -> None:
    assert read(begun().steps(10, 1, 5).end(20)).gpu_us is None


def test_gpu_time_counts_the_attempts_world(read: Read) -> None:
    log = Log().start(0).up(0, resume=0, world_size=4).steps(10, 1, 5).save(5, 20, 25).end(30)
    expected = {"kept": 40, "checkpoint": 20, "lost": 0, "restart": 60, "idle": 0, "held": 120}
    assert gpu_seconds(read(log)) == expected


def test_gpus_of_the_run_count_where_no_world_is_told(read: Read) -> None:
    assert gpu_seconds(read(Log().start(0, gpus=3).up(0, resume=0).steps(10, 1, 5).end(20)))["held"] == 60


def test_restart_time_counts_the_world_of_the_attempt_before(read: Read) -> None:
    # 0..5 before any attempt: the first's 4; 5..50 attempt 0's 4; 50..70 attempt 1's 2
    log = Log().start(0).up(5, resume=0, world_size=4).steps(10, 1, 5).failure(20)
    log.as_attempt(1).up(50, resume=5, world_size=2).steps(60, 6, 10).end(70)
    answer = gpu_seconds(read(log))
    assert answer["held"] == 4 * 50 + 2 * 20
    assert answer["kept"] == 4 * 10 + 2 * 10


def test_allocation_decides_what_is_held(read: Read) -> None:
    # 8 GPUs from 10 to 60, an attempt of 8: nothing is held before and after
    log = Log().start(0).add("allocation.start", 10, gpus=8).up(10, resume=0, world_size=8).steps(20, 1, 10)
    answer = gpu_seconds(read(log.add("allocation.end", 60, gpus=8).end(70)))
    assert answer == {"kept": 160, "checkpoint": 0, "lost": 0, "restart": 240, "idle": 0, "held": 400}


def test_elastic_run_at_half_size_on_a_full_allocation_leaves_half_idle(read: Read) -> None:
    log = Log().start(0).add("allocation.start", 0, gpus=8).up(0, resume=0, world_size=4).steps(0, 1, 10).end(20)
    answer = gpu_seconds(read(log))
    assert (answer["kept"], answer["idle"], answer["held"]) == (80, 80, 160)


# ---- order and identity of events


def messy() -> Log:
    log = begun().steps(10, 1, 10).save(10, 30, 35).steps(35, 11, 15).failure(46).as_attempt(1)
    return log.up(60, resume=10).steps(70, 11, 20).save(20, 90, 95).end(100)


@pytest.mark.parametrize("seed", range(5))
def test_answer_depends_on_the_set_of_events(read: Read, seed: int) -> None:
    plain = read(messy())
    log = messy()
    log.events += log.events[::3]
    random.Random(seed).shuffle(log.events)
    assert read(log) == plain


def test_events_equal_in_identity_are_one(read: Read) -> None:
    # the same failure with another detail is the same failure; the same record with a loss the same record
    log = messy().as_attempt(0).failure(46, detail="again").step(12, 1, loss=2.5)
    assert read(log) == read(messy())


def test_run_end_at_the_time_of_a_step_comes_after_it(read: Read) -> None:
    log = Log().end(20).start(0).up(0, resume=0).steps(10, 1, 5)
    assert read(log).four == (10, 0, 0, 10)


def test_failure_at_the_time_of_the_next_start_belongs_to_the_attempt_before(read: Read) -> None:
    log = begun().steps(10, 1, 5).add("failure", 30, category="host").as_attempt(1).up(30, resume=5)
    answer = read(log.steps(40, 6, 7).end(44))
    assert answer.failures == 1
    assert answer.attempt_times == [(0, 30), (30, 44)]


@pytest.mark.parametrize(("later", "attempts"), [(0.9, 1), (1.0, 2)])
def test_record_told_again_within_half_of_its_own_one_is_that_record(read: Read, later: float, attempts: int) -> None:
    # a step of 2 s told twice, less than 1 s apart: once; 1 s apart: it did not rise
    log = begun().steps(10, 1, 5).step(20 + later, 5).steps(22, 6, 10).end(32)
    assert read(log).num_attempts == attempts


def test_unknown_kinds_and_fields_change_nothing(read: Read) -> None:
    log = messy().own("weather", 50, rain=True)
    log.events.insert(3, Log().step(24, 7, colour="red").events[0])
    assert read(log) == read(messy())


def test_lone_event_more_than_a_day_away_is_set_aside(read: Read) -> None:
    day = 86_400
    assert read(messy().add("heartbeat", -day - 1, node="n").add("heartbeat", 3 * day, node="n")) == read(messy())
    late = begun().steps(10, 1, 5)
    assert read(Log().start(0).up(0, resume=0).steps(10, 1, 5).step(20 + day + 1, 6)).times == read(late).times


def test_lone_event_within_a_day_is_heard(read: Read) -> None:
    log = begun().steps(10, 1, 5).add("heartbeat", 20 + 86_400, node="n")
    assert read(log).times == [(0, 20 + 86_400, "running")]


def test_two_events_far_away_are_no_broken_clock(read: Read) -> None:
    log = begun().steps(10, 1, 5).add("heartbeat", 300_000, node="n").add("heartbeat", 300_010, node="n")
    assert read(log).times == [(0, 300_010, "running")]


def test_failure_after_a_weekend_is_heard(read: Read) -> None:
    log = begun().steps(10, 1, 5).failure(200_000)
    answer = read(log)
    assert answer.failures == 1
    assert answer.times == [(0, 200_000, "running")]


def test_two_runs_in_one_log_do_not_mix(reading: Reading) -> None:
    other = Log("other").start(500).up(500, resume=0).steps(510, 1, 5).end(530)
    answers = reading(messy().events + other.events)
    assert answers["other"].four == (10, 0, 0, 20)
    assert answers["r"] == reading(messy().events)["r"]


def test_no_events_no_runs(reading: Reading) -> None:
    assert reading([]) == {}


def test_log_without_a_run_says_nothing_of_it(reading: Reading) -> None:
    assert reading(Log().add("heartbeat", 0, node="n").events) == {}


def test_gap_that_is_reported_as_a_minute_begins_is_that_minutes(read: Read) -> None:
    answer = read(begun().steps(10, 1, 100).add("gap", 120, node="n", dropped=5).end(210))
    assert [incomplete for *_rest, incomplete in answer.minutes] == [False, False, True, False]


def test_gap_makes_all_its_minutes_incomplete(read: Read) -> None:
    answer = read(begun().steps(10, 1, 100).add("gap", 125, node="n", dropped=5, since=T0 + 59).end(210))
    assert [incomplete for *_rest, incomplete in answer.minutes] == [True, True, True, False]


def test_minutes_of_a_live_run_in_which_its_agents_are_silent_are_incomplete(read: Read) -> None:
    log = begun().steps(10, 1, 5).add("heartbeat", 5, node="n")
    assert [incomplete for *_rest, incomplete in read(log, now=200).minutes] == [False, True, True, True]


@pytest.mark.parametrize(
    ("durations", "lost"),
    [((0.5, 4.0), 0.5), ((4.0, 0.5), 0.5), ((9.5, 10.0), 10.0), ((10.0, 9.5), 10.0)],
)
def test_of_two_records_that_are_one_the_first_in_canonical_order_counts(
    read: Read, durations: tuple[float, float], lost: float
) -> None:
    # as text, 0.5 comes before 4.0, and 10.0 before 9.5: so much was in flight
    log = begun().steps(10, 1, 5)
    for dur in durations:
        log.step(24, 6, dur=dur)
    assert read(log.failure(40).end(50, "completed")).s("lost/in_flight") == [lost]


def test_of_two_records_that_are_one_that_of_several_steps_comes_first(read: Read) -> None:
    log = begun().steps(10, 1, 5).step(24, 7, dur=4).step(24, 7, dur=4, count=2).failure(40).end(50)
    assert read(log).s("lost/in_flight") == [2]


def test_minute_between_two_records_of_one_batch_is_silent(read: Read) -> None:
    log = begun().add("heartbeat", 5, node="n").steps(10, 1, 5).step(190, 60).step(192, 61).end(200)
    assert [incomplete for *_rest, incomplete in read(log).minutes] == [False, True, True, False]
