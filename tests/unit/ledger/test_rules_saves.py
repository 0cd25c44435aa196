"""Rule 4 of ``docs/ledger.md``, report by report: what several ranks, retries and tiers say of one save.

Steps take 2 s; ``four`` is (kept, checkpoint, lost, restart) in seconds. The runs go on: what is at
risk tells what has landed.
"""

from __future__ import annotations

import itertools

import pytest
from ledger_oracle.answers import Read, answers_of, differences, ledger_answers
from ledger_oracle.build import T0_US, Log
from tachograph_collector.ledger import CheckpointRecord, Ledger

SECOND = 1_000_000


def begun() -> Log:
    """Five steps from 10 to 20."""
    return Log().start(0).up(0, resume=0).steps(10, 1, 5)


def saves_of(log: Log) -> list[CheckpointRecord]:
    ledger = Ledger()
    ledger.add(log.events)
    return ledger.details("r").checkpoints


# ---- several ranks


def test_save_that_only_a_higher_rank_closes_has_landed_and_costs_what_the_lowest_tells(read: Read) -> None:
    # rank 0 never says that it saved; the next step's own time began at 30
    log = begun().own("checkpoint.start", 20, step=5, rank=0).own("checkpoint.saved", 24, step=5, rank=1).step(32, 6)
    assert read(log).s("checkpoint", "at_risk") == [10, 2]


def test_save_that_only_a_higher_rank_closes_as_asynchronous_has_not_landed(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5, rank=0)
    log.own("checkpoint.saved", 24, step=5, rank=1, mode="async").step(32, 6)
    assert read(log).s("at_risk") == [12]


def test_save_to_a_tier_that_dies_has_not_landed_whoever_closes_it(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5, rank=0, tier="local")
    log.own("checkpoint.saved", 24, step=5, rank=1).step(32, 6)
    assert read(log).s("at_risk") == [12]


def test_start_of_a_higher_rank_proves_nothing(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5, rank=0).own("checkpoint.start", 21, step=5, rank=1).step(32, 6)
    assert read(log).s("at_risk") == [12]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_lowest_rank_tells_a_saves_time_in_whatever_order_the_ranks_arrive(order: tuple[int, ...]) -> None:
    log = begun().step(40, 6)
    reports = Log().save(5, 20, 25, rank=0).save(5, 20, 32, rank=1).events
    at_once = ledger_answers(log.events + reports)
    assert at_once["r"].s("checkpoint") == [5]
    ledger = Ledger()
    ledger.add(log.events)
    for place in order:
        ledger.add([reports[place]])
        answers_of(ledger)
    assert differences(answers_of(ledger), at_once) == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_higher_rank_that_arrives_first_still_proves_that_an_unclosed_save_landed(order: tuple[int, ...]) -> None:
    log = begun().step(32, 6)
    reports = Log().own("checkpoint.start", 20, step=5, rank=0).save(5, 20, 24, rank=1).events
    ledger = Ledger()
    ledger.add(log.events)
    for place in order:
        ledger.add([reports[place]])
        ledger.books("r")
    assert answers_of(ledger)["r"].s("checkpoint", "at_risk") == [10, 2]


def test_mode_is_the_lowest_ranks() -> None:
    log = begun().save(5, 20, 25, rank=0).own("checkpoint.saved", 26, step=5, rank=1, mode="async")
    assert [save.mode for save in saves_of(log)] == ["sync"]


# ---- one save told in several ways


def test_second_start_while_the_first_is_open_is_the_same_save(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5).own("checkpoint.start", 22, step=5)
    assert read(log.own("checkpoint.saved", 25, step=5).step(27, 6)).s("checkpoint") == [5]


def test_save_whose_end_alone_says_that_it_is_asynchronous_has_not_landed(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5).own("checkpoint.saved", 23, step=5, mode="async").step(25, 6)
    assert read(log).s("at_risk", "checkpoint") == [12, 3]


@pytest.mark.parametrize(("tier", "risk"), [(None, 2), ("storage", 2), ("peer", 2), ("local", 12), ("memory", 12)])
def test_synchronous_save_lands_by_its_tier(read: Read, tier: str | None, risk: float) -> None:
    log = begun().save(5, 20, 25, tier=tier).step(27, 6)
    assert read(log).s("at_risk") == [risk]


def test_landing_in_two_tiers_at_one_time_counts_both(read: Read) -> None:
    log = begun().save(5, 20, 21, mode="async").persisted(24, 5, "local").persisted(24, 5, "storage").step(26, 6)
    assert read(log).s("at_risk") == [5]  # step 6, from 21 on
    assert [save.tiers for save in saves_of(log)] == [("local", "storage")]


def test_landing_that_is_told_before_its_save_began_is_still_its(read: Read) -> None:
    # the coordinator's clock is 0.1 s behind
    log = begun().save(5, 20, 20.05, mode="async").persisted(19.9, 5).step(22.05, 6)
    assert read(log).s("at_risk") == [2]
    assert len(saves_of(log)) == 1


def test_landing_that_nobody_saw_begin_costs_nothing_and_covers(read: Read) -> None:
    log = begun().steps(20, 6, 7).persisted(23, 5)
    assert read(log).s("checkpoint", "at_risk") == [0, 4]
    assert [(save.start_us, save.blocking_us, save.state) for save in saves_of(log)] == [(None, 0, "landed")]


# ---- saves that failed


def test_retry_that_starts_as_the_first_fails_is_not_failed(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5).own("checkpoint.failed", 24, step=5).save(5, 24, 29).step(31, 6)
    assert read(log).s("at_risk", "checkpoint", "checkpoint/aborted") == [2, 9, 4]
    assert [save.state for save in saves_of(log)] == ["failed", "landed"]


def test_save_that_failed_has_not_landed_whatever_its_mode() -> None:
    log = begun().own("checkpoint.start", 20, step=5).own("checkpoint.failed", 24, step=5).step(26, 6)
    (save,) = saves_of(log)
    assert (save.state, save.landed_us, save.tiers, save.bytes) == ("failed", None, (), None)


def test_asynchronous_save_that_fails_later_costs_its_blocking_part(read: Read) -> None:
    log = begun().save(5, 20, 22, mode="async").own("checkpoint.failed", 26, step=5).steps(22, 6, 10)
    answer = read(log)
    assert answer.s("checkpoint", "kept", "at_risk") == [2, 20, 20]


def test_asynchronous_save_that_fails_before_it_was_saved_ends_where_the_next_step_began(read: Read) -> None:
    # its blocking part was never told to be over; it failed at 40, but step 6 had begun at 22
    log = begun().own("checkpoint.start", 20, step=5, mode="async").steps(22, 6, 10)
    assert read(log.own("checkpoint.failed", 40, step=5)).s("checkpoint", "kept") == [2, 10 + 10 + 8]


# ---- two saves at once


def test_two_saves_that_overlap_are_booked_once(read: Read) -> None:
    # of step 5 until 30, of step 6 from 25 to 35; step 7 ends at 40
    log = begun().save(5, 20, 30).save(6, 25, 35).step(40, 7).end(40)
    answer = read(log)
    assert answer.stretches("checkpoint") == [(20, 35)]
    assert answer.stretches("kept") == [(10, 20), (35, 40)]


def test_save_within_another_is_booked_once(read: Read) -> None:
    log = begun().save(5, 20, 35).save(6, 25, 30).step(40, 7).end(40)
    assert read(log).stretches("checkpoint") == [(20, 35)]


def test_save_of_an_earlier_step_in_a_tail_leaves_the_segments_in_order(read: Read) -> None:
    log = begun().own("checkpoint.start", 20.5, step=3).own("checkpoint.saved", 23, step=3).failure(30)
    log.end(30, "failed")
    answer = read(log)
    assert answer.stretches("lost") == [(16, 20.5), (23, 24.5)]
    assert answer.stretches("checkpoint") == [(20.5, 23)]
    ledger = Ledger()
    ledger.add(log.events)
    segments = ledger.details("r").segments
    assert [s.start_us for s in segments] == sorted(s.start_us for s in segments)


# ---- records of saves


def test_record_of_an_asynchronous_save_says_when_and_where_it_landed() -> None:
    log = begun().save(5, 20, 21, mode="async", bytes=700).persisted(30, 5, "peer").persisted(40, 5, bytes=900)
    (save,) = saves_of(log)
    assert save == CheckpointRecord(
        attempt=0,
        step=5,
        mode="async",
        start_us=T0_US + 20 * SECOND,
        end_us=T0_US + 21 * SECOND,
        blocking_us=SECOND,
        landed_us=T0_US + 30 * SECOND,
        persist_us=10 * SECOND,
        bytes=700,
        state="landed",
        tiers=("peer", "storage"),
    )


def test_record_of_a_synchronous_save_lands_with_it() -> None:
    (save,) = saves_of(begun().save(5, 20, 25))
    assert (save.landed_us, save.persist_us, save.tiers, save.bytes) == (T0_US + 25 * SECOND, None, ("storage",), None)


def test_size_is_what_the_landing_tells_where_the_save_told_none() -> None:
    (save,) = saves_of(begun().save(5, 20, 21, mode="async").persisted(30, 5, bytes=900))
    assert save.bytes == 900


def test_states_of_saves() -> None:
    log = begun().save(5, 20, 21).steps(21, 6, 8).save(8, 27, 28).steps(28, 9, 10).failure(32)
    log.as_attempt(1).up(40, resume=5).steps(50, 6, 7).save(7, 54, 55, mode="async")
    assert [(save.step, save.attempt, save.state) for save in saves_of(log)] == [
        (5, 0, "landed"),
        (8, 0, "abandoned"),
        (7, 1, "pending"),
    ]


def test_save_that_was_never_closed_before_the_first_step_ends_where_that_began(read: Read) -> None:
    # the start at 30 opens no incarnation: the lead has not stepped yet
    log = Log().own("checkpoint.start", 10, step=5).up(30, resume=5).step(42, 6).end(42)
    assert read(log).s("checkpoint", "kept") == [30, 2]


def test_landing_is_that_of_the_last_save_of_its_step_that_had_begun() -> None:
    log = begun().save(5, 20, 21, mode="async").save(5, 30, 31, mode="async").persisted(40, 5).step(42, 6)
    assert [(save.state, save.landed_us) for save in saves_of(log)] == [
        ("pending", None),
        ("landed", T0_US + 40 * SECOND),
    ]


def test_open_save_in_which_a_record_is_told_again_ends_where_the_next_steps_own_time_began(read: Read) -> None:
    log = begun().own("checkpoint.start", 20.25, step=5).step(20.5, 5).step(30, 6).end(30)
    assert read(log).stretches("checkpoint") == [(20.25, 28)]


def test_asynchronous_save_that_fails_before_the_next_step_begins_ends_then(read: Read) -> None:
    log = begun().own("checkpoint.start", 20, step=5, mode="async").own("checkpoint.failed", 24, step=5).step(40, 6)
    assert read(log).s("checkpoint") == [4]
