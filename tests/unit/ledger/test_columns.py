"""Records that come in order are taken as whole columns: what they say is what they say one by one."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.answers import differences, ledger_answers, oracle_answers
from ledger_oracle.build import T0, Log
from ledger_oracle.feeding import little_memory
from tachograph_agent.events import AnyEvent, Step
from tachograph_collector.ledger import Ledger

SECOND = 1_000_000


def uneven(chance: random.Random, num: int) -> Log:
    """Nearly all records are of one step in order; some are slow, late, sampled, of several steps, or without dur."""
    log, at, step = Log().start(0).up(0, resume=0), 10.0, 0
    usual = chance.choice([0.5, 2.0, 4.0, 8.0])
    odd = chance.choice([0.02, 0.1, 0.3])
    for _ in range(num):
        dur: float | None = usual
        count, apart, steps = 1, usual, 1
        if chance.random() < odd:
            what = chance.choice(["slow", "pause", "stall", "count", "hole", "dumb", "again", "long", "at once"])
            if what == "slow":
                dur = apart = chance.choice([4.9, 5.0, 5.5, 12.0])
            elif what == "pause":
                apart += chance.choice([4.0, 25.0])
            elif what == "stall":
                apart += chance.choice([30.25, 50.0, 100.0])
            elif what == "count":
                count = steps = chance.randrange(2, 6)
                dur = apart = usual * count
            elif what == "hole":
                steps = chance.randrange(2, 6)
                apart *= steps
            elif what == "dumb":
                dur = None
            elif what == "again":
                steps = 0
            elif what == "long":
                count, dur = chance.choice([2, 4]), usual * 2
            elif what == "at once":
                apart = chance.choice([0.1, 0.25])
        at += apart
        step += steps
        log.step(round(at, 3), step, dur=dur, count=count if count > 1 else None)
    return log


def with_more(log: Log, chance: random.Random) -> list[AnyEvent]:
    """A failure, a phase, a save and a further attempt somewhere among the records."""
    times = [event.t - T0 for event in log.events[2:]]
    if chance.random() < 0.5:
        log.failure(round(chance.choice(times) + chance.choice([-6, -5, -1, 0, 0.5]), 3))
    if chance.random() < 0.3:
        begin = chance.choice(times)
        log.phase("eval", begin, min(times[-1], begin + chance.choice([1, 5, 40])))
    if chance.random() < 0.3:
        # a save right after a record that is not told again; the next records may overlap it
        records = [event for event in log.events[2 : 2 + len(times)] if isinstance(event, Step)]
        record = chance.choice([one for one, after in pairwise(records) if after.step > one.step] or records[-1:])
        log.save(record.step, record.t - T0, record.t - T0 + chance.choice([0.25, 5]))
    end = times[-1]
    if chance.random() < 0.6:
        resume = chance.randrange(len(times))
        log.as_attempt(1).up(end + 40, resume=resume).steps(end + 50, resume + 1, resume + 3)
        end += 60
    return log.end(end + 10, chance.choice(["completed", "failed", "cancelled"])).events


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.integers(0, 2**32), st.integers(2, 60))
def test_records_taken_as_columns_say_what_they_say_one_by_one(seed: int, num: int) -> None:
    chance = random.Random(seed)
    events = with_more(uneven(chance, num), chance)
    at_once = ledger_answers(events)
    assert differences(ledger_answers(events, batch=1), at_once) == []
    with little_memory(3, 3):
        assert differences(ledger_answers(events, batch=10), at_once) == []
    # not said: what restart is called of an attempt that never stepped
    assert differences(at_once, oracle_answers(events), ["subs_us"]) == []


def stepping(*, dur: float = 2.0) -> Log:
    """Five steps from 10 on."""
    return Log(dur=dur).start(0).up(0, resume=0).steps(10, 1, 5)


@pytest.mark.parametrize("batch", [None, 1])
def test_stall_among_many_records_is_one(batch: int | None) -> None:
    log = stepping().step(60, 6).steps(60, 7, 30).end(108)
    assert ledger_answers(log.events, batch=batch)["r"].s("restart/stall", "kept") == [38, 60]


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize(("failure", "survived"), [(22.5, True), (23.001, False)])
def test_last_of_many_steps_need_not_have_begun_last(batch: int | None, failure: float, survived: bool) -> None:
    # step 10 began at 28, 5 s after 23; step 11, of 4.5 s, ended at 31 and began before it
    log = stepping().steps(20, 6, 10).step(31, 11, dur=4.5).failure(failure).end(60, "failed")
    answer = ledger_answers(log.events, batch=batch)["r"]
    assert answer.attempt_times == [(0, 60 if survived else 31)]


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize(("failure", "end"), [(40.0, 50), (40.001, 50), (43.0, 50), (43.001, 48)])
def test_of_many_steps_the_one_that_began_last_says_what_was_survived(
    batch: int | None, failure: float, end: float
) -> None:
    # steps of 2 s to 50; the last began at 48, 5 s after 43
    log = stepping().steps(20, 6, 20).failure(failure).end(60)
    answer = ledger_answers(log.events, batch=batch)["r"]
    survived = failure <= 43
    assert answer.attempt_times == [(0, 60 if survived else 50)]
    assert answer.failures == (0 if survived else 1)


@pytest.mark.parametrize("batch", [None, 1])
def test_record_of_few_steps_among_consecutive_numbers_counts_its_own_pace(batch: int | None) -> None:
    # each record tells the time of two steps, though the numbers rise by one: one step takes 2 s
    log = Log(dur=4).start(0).up(0, resume=0).steps(10, 1, 10, count=2)
    log.failure(42.5).end(60, "failed")  # the last record's step began at 48, 5.5 s after the failure
    answer = ledger_answers(log.events, batch=batch)["r"]
    assert answer.attempt_times == [(0, 60)]


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize(("failure", "survived"), [(53.999, True), (54.001, False)])
def test_steps_slower_than_5_s_must_begin_a_whole_step_after_a_failure(
    batch: int | None, failure: float, survived: bool
) -> None:
    # ten steps of 5.5 s to 65: the last began at 59.5, 5.5 s after 54
    log = Log(dur=5.5).start(0).up(0, resume=0).steps(10, 1, 10).failure(failure).end(80, "failed")
    answer = ledger_answers(log.events, batch=batch)["r"]
    assert answer.attempt_times == [(0, 80 if survived else 65)]


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize(("failure", "survived"), [(20.0, True), (21.0, False), (35.0, False)])
def test_record_without_dur_took_no_longer_than_since_the_one_before(
    batch: int | None, failure: float, survived: bool
) -> None:
    # step 6 ended at 40, 20 s after step 5: it may have begun at 20; step 7 ended at 60
    log = stepping().step(40, 6, dur=None).step(60, 7, dur=None).failure(failure).end(70, "failed")
    answer = ledger_answers(log.events, batch=batch)["r"]
    assert answer.attempt_times == [(0, 70 if survived else 60)]


@pytest.mark.parametrize("batch", [None, 1])
def test_run_that_never_tells_a_dur_survives_a_failure_that_it_goes_on_after(batch: int | None) -> None:
    log = Log().start(0).up(0, resume=0)
    for step in range(1, 21):
        log.step(10 + 2 * step, step, dur=None)
    log.failure(30).end(60)
    assert ledger_answers(log.events, batch=batch)["r"].failures == 0


def test_stall_before_a_batch_of_many_records_is_one() -> None:
    ledger = Ledger()
    for log in (stepping(), Log().steps(58, 6, 30)):
        ledger.add(log.events)
    assert ledger.books("r").subs_us["restart/stall"] == 38 * SECOND


def test_survival_is_not_unlearnt_by_a_slow_record_after_a_save() -> None:
    # step 5 began at 18; step 6, after a save, at 25 of a step of 30 s: that shows nothing of the failure at 12
    log = stepping().save(5, 20, 25).step(55, 6, dur=30).failure(12).end(60)
    assert ledger_answers(log.events)["r"].failures == 0


def test_slow_first_record_must_have_begun_a_whole_step_after_a_failure() -> None:
    log = Log().start(0).up(0, resume=0).step(40, 1, dur=20).failure(10).end(60)
    answer = ledger_answers(log.events)["r"]
    assert (answer.failures, answer.attempt_times) == (1, [(0, 40)])


@pytest.mark.parametrize("batch", [None, 1])
def test_record_of_several_steps_without_dur_took_no_longer_than_since_the_one_before(batch: int | None) -> None:
    # steps 6 to 10 from 20 to 70: 10 s each; the last began at 60, 10 s after 50
    log = stepping().step(70, 10, dur=None).failure(45).end(80, "failed")
    assert ledger_answers(log.events, batch=batch)["r"].attempt_times == [(0, 80)]
    log = stepping().step(70, 10, dur=None).failure(50.5).end(80, "failed")
    assert ledger_answers(log.events, batch=batch)["r"].attempt_times == [(0, 70)]
