"""The ledger is fed as a run goes on: batches, lateness, repeats, questions and forgetting change no answer."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.build import T0, T0_US, Log
from ledger_oracle.feeding import Fed, batches, little_memory, unlike, whole
from ledger_oracle.generate import ENDINGS, Truth, random_act, random_style, simulate
from ledger_oracle.mess import KINDS, messed
from ledger_oracle.order import at_us
from ledger_oracle.strategies import long_acts, runs
from tachograph_agent.events import (
    AnyEvent,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Step,
)
from tachograph_collector.ledger import Ledger, booking, fold, timeline, track

SECOND = 1_000_000
DAY = 86_400

some = settings(deadline=None, max_examples=60, derandomize=True)


def fed(events: list[AnyEvent], size: int, keep: int, hold: int, ask: random.Random | None = None) -> Counter[str]:
    """Feed in batches with little memory, asking now and then: nothing differs from one pass. Gives what happened."""
    at_once = Ledger()
    at_once.add(events)
    source = Fed()
    ledger = Ledger(source)
    with little_memory(keep, hold) as happened:
        for batch in batches(events, size):
            ledger.add(batch)
            source.events += batch
            if ask is not None and ask.random() < 0.3:
                whole(ledger)
        assert unlike(whole(ledger), whole(at_once)) == []
    return happened


memories = st.tuples(st.integers(2, 4), st.integers(2, 4))


def without_saves(events: list[AnyEvent]) -> list[AnyEvent]:
    """What went back to a save went back to a step of which nothing is known."""
    return [event for event in events if not event.kind.startswith("checkpoint.")]


def labelled_behind(events: list[AnyEvent]) -> list[AnyEvent]:
    """Saves that say the step before the last: they stand in what is a tail until the next step."""
    return [
        msgspec.structs.replace(event, step=max(0, event.step - 1))
        if isinstance(event, CheckpointStart | CheckpointSaved | CheckpointPersisted | CheckpointFailed)
        else event
        for event in events
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
@some
@given(run=runs(acts=long_acts), memory=memories, seed=st.integers(0, 2**32))
def test_batches_of_a_whole_log_give_what_one_pass_gives(
    size: int, run: tuple[list[AnyEvent], Truth], memory: tuple[int, int], seed: int
) -> None:
    events = without_saves(run[0]) if seed % 3 == 0 else labelled_behind(run[0]) if seed % 3 == 1 else run[0]
    fed(events, size, *memory, ask=random.Random(seed))


@pytest.mark.parametrize("size", [1, 7, 1000])
@some
@given(run=runs(acts=long_acts), memory=memories, seed=st.integers(0, 2**32))
def test_batches_of_a_shuffled_doubled_messy_log_give_what_one_pass_gives(
    size: int, run: tuple[list[AnyEvent], Truth], memory: tuple[int, int], seed: int
) -> None:
    chance = random.Random(seed)
    messy = messed(run[0], chance, share=0.1, kinds=KINDS)
    messy += chance.sample(messy, len(messy) // 2)
    chance.shuffle(messy)
    fed(messy, size, *memory, ask=chance)


@pytest.mark.parametrize("how", ["late", "saves unseen"])
def test_what_feeding_is_tested_for_does_happen(how: str) -> None:
    """These tests say nothing if nothing is frozen, thawed, dropped and read again."""
    happened: Counter[str] = Counter()
    for seed in range(40):
        chance = random.Random(seed)
        acts = [random_act(chance) for _ in range(10)]
        acts = [("train", 8 * act[1], act[2]) if act[0] == "train" else act for act in acts]
        events, _truth = simulate(acts, chance.choice(ENDINGS), random_style(chance))
        if how == "late":
            places = {id(event): number + chance.randrange(100) for number, event in enumerate(events)}
            events.sort(key=lambda event: places[id(event)])
        else:
            events = without_saves(events)
        happened.update(fed(events, chance.choice([1, 7, 50]), 2, 3, ask=chance))
    assert happened["freeze"] > 40
    assert happened["drop"] > 40
    assert happened["read again"] >= 5
    assert happened["thaw"] > 20 or how != "late"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_long_run_with_restarts_rollbacks_and_late_events_is_the_same_in_any_batches(size: int) -> None:
    chance = random.Random(size)
    log, step, at = Log().start(0), 0, 0.0
    for attempt in range(6):
        log.as_attempt(attempt).up(at, resume=step)
        for _ in range(4):
            log.steps(at + 10, step + 1, step + 60).save(step + 40, at + 10 + 80, at + 12 + 80)
            at, step = at + 130, step + 60
        log.failure(at + 3, "gpu")
        at, step = at + 60, step - 75  # between two saves, in a stretch whose steps are not held any more
    events = log.end(at).events
    late = [events.pop(chance.randrange(len(events))) for _ in range(40)]
    happened = fed(events + late, size, 4, 4, ask=chance if size > 1 else None)
    assert happened["read again"] > 0


@pytest.mark.parametrize("keep", [2, 3, 4, 5])
@pytest.mark.parametrize("held_back", [1, 2, 3, 5, 8])
def test_record_that_comes_late_and_ended_with_another_is_folded_before_it(keep: int, held_back: int) -> None:
    # two records at each time: the first took nearly all the time since the last pair, and comes some pairs late
    early: list[AnyEvent] = []
    waiting: list[AnyEvent] = []
    for n in range(1, 31):
        waiting += Log().step(100 * n, 2 * n - 1, dur=95).events
        early += Log().step(100 * n, 2 * n, dur=1).events
        if n > held_back:
            early.append(waiting.pop(0))
    events = Log().start(0).up(0, resume=0).events + early + waiting + Log().end(3000).events
    at_once = Ledger()
    at_once.add(events)
    assert at_once.books("r").subs_us["restart/stall"] == 0
    for size in (1, 3):
        ledger = Ledger()
        with little_memory(keep, 50):
            for batch in batches(events, size):
                ledger.add(batch)
                ledger.runs()
            assert unlike(whole(ledger), whole(at_once)) == []


@pytest.mark.parametrize("seed", range(10))
def test_of_records_that_are_one_the_same_stays_whatever_arrives_first_and_is_forgotten(seed: int) -> None:
    chance = random.Random(seed)
    log = Log().start(0).up(0, resume=0)
    for step in range(1, 60):
        for dur in chance.sample([0.5, 2.0, 9.5, 10.0], chance.choice([1, 1, 2, 3])):
            log.step(10 + 2 * step, step, dur=dur, count=chance.choice([None, None, 2]))
    events = log.failure(140).as_attempt(1).up(150, resume=30).steps(160, 31, 40).end(190).events
    chance.shuffle(events)
    fed(events, 7, 2, 2, ask=chance)


# ---- what comes later, and changes what was said


def unseen() -> Log:
    """Five steps from 10 to 20, where the log can't show saves."""
    return Log().start(0, checkpoints="unseen").up(0, resume=0).steps(10, 1, 5)


def ahead_of_a_save() -> Log:
    """Broken at 40 after steps of 4 s and a save of a step done before."""
    log = Log(dur=4).start(0).add("allocation.start", 0, gpus=8).up(0, resume=0).steps(0, 1, 5)
    return log.save(3, 25, 28).failure(40)


def twice_back() -> Log:
    """Attempt 1 goes on from 7, attempt 2 from 5."""
    log = Log().start(0).up(0, resume=0).steps(10, 1, 10).failure(30).as_attempt(1).up(40, resume=7).steps(50, 8, 9)
    return log.as_attempt(2).up(70, resume=5).steps(80, 6, 9)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (unseen().save(3, 25, 28), Log().failure(40)),
        (unseen().save(3, 25, 28), Log().stop(40)),
        (unseen().save(3, 25, 28).save(3, 30, 31), Log().end(40)),
        (ahead_of_a_save(), Log().add("allocation.end", 30, gpus=4)),
        (Log().start(0).add("heartbeat", 90, node="n"), Log().phase("reload", 10, 20)),
        (Log().start(0).add("heartbeat", 30, node="n"), Log().add("heartbeat", 90, node="n")),
        (Log().start(0).add("heartbeat", 300, node="n"), Log().end(130)),
        (Log().start(0).end(130), Log().end(100)),
        (twice_back(), Log(attempt=1).failure(54, "network")),
        (twice_back(), Log(attempt=1).stop(54)),
        (twice_back().end(90), Log().end(89, "cancelled")),
        (unseen().failure(25), Log(attempt=1).up(40, resume=8).steps(50, 9, 10)),
        (unseen(), Log().phase("eval", 20, 25, attempt=None).as_attempt(1).up(40, resume=5).steps(50, 6, 7)),
        (unseen().as_attempt(1).up(40, resume=5).steps(50, 6, 7), Log().phase("eval", 22, 25, attempt=None)),
        (unseen().as_attempt(1).up(40, resume=5).steps(50, 6, 7), Log(attempt=1).up(35, resume=5)),
        (unseen().rollback(25, 2).steps(30, 3, 8), Log().rollback(24, 4)),
        (unseen(), Log(attempt=1).step(19, 6).step(27, 7)),
    ],
)
def test_answer_after_a_look_is_that_of_one_pass(first: Log, later: Log) -> None:
    at_once = Ledger()
    at_once.add(first.events + later.events)
    ledger = Ledger()
    ledger.add(first.events)
    whole(ledger)
    ledger.add(later.events)
    assert unlike(whole(ledger), whole(at_once)) == []


@pytest.mark.parametrize("keep", [2, 3, 4])
@pytest.mark.parametrize("after", range(12))
def test_save_told_late_right_after_a_record_that_was_folded_for_good_is_booked_from_its_beginning(
    keep: int, after: int
) -> None:
    # step 20 ended at 50, the next at 90: the save of 20 at 88 shows that step 20 itself had stalled, from 48 on
    log = Log().start(0).up(0, resume=0).steps(10, 1, 20).steps(88, 21, 21 + after)
    late = Log().save(20, 88, 88.5)
    at_once = Ledger()
    at_once.add(log.events + late.events)
    with little_memory(keep, 100):
        ledger = Ledger()
        for batch in batches(log.events, 1):
            ledger.add(batch)
            ledger.books("r")
        ledger.add(late.events)
        assert unlike(whole(ledger), whole(at_once)) == []
    assert ledger.books("r").subs_us["restart/stall"] == 38 * SECOND


# ---- what it costs


def steps_of(num: int, dur: float = 2.0, first: int = 1, begin: float = 0.0, attempt: int = 0) -> list[AnyEvent]:
    """Records end to end."""
    return [
        Step(t=T0 + begin + dur * (n + 1), run="r", attempt=attempt, rank=0, step=first + n, dur=dur)
        for n in range(num)
    ]


class Work(Counter[str]):
    """Counts records folded, segments told and segments booked."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        run, segments, book = fold.Fold.run, timeline.Timeline.segments, booking.Booking._book

        def counted_run(this: fold.Fold, first: int, last: int, others: list[fold.Other], *, final: bool) -> None:
            self["records"] += last - first
            self["others"] += len(others)
            run(this, first, last, others, final=final)

        def counted_segments(this: timeline.Timeline, since_us: int):  # type: ignore[no-untyped-def]  # as it comes
            for segment in segments(this, since_us):
                self["segments"] += 1
                yield segment

        def counted_book(this: booking.Booking, *args: object) -> None:
            self["booked"] += 1
            book(this, *args)  # type: ignore[arg-type]  # fields by name

        patch.setattr(fold.Fold, "run", counted_run)
        patch.setattr(timeline.Timeline, "segments", counted_segments)
        patch.setattr(booking.Booking, "_book", counted_book)


def long_run(num_steps: int) -> list[AnyEvent]:
    """A run of steps of 2 s with a save after each thousandth."""
    log = Log().start(0).up(0, resume=0)
    events: list[AnyEvent] = list(log.events)
    at = 0.0
    for first in range(1, num_steps, 1000):
        events += steps_of(1000, first=first, begin=at)
        at += 2000
        events += Log().save(first + 999, at, at + 5).events
        at += 5
    return events


def test_one_more_step_touches_no_more_of_200_000_steps_than_of_20_000(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    costs = []
    for num_steps in (20_000, 200_000):
        ledger = Ledger()
        events = long_run(num_steps)
        ledger.add(events)
        ledger.books("r")
        end = at_us(events[-1]) / SECOND - T0
        work.clear()
        ledger.add(steps_of(1, first=num_steps + 1, begin=end))
        books = ledger.books("r")
        assert books.steps == num_steps + 1
        assert books.accounts_us["kept"] == (num_steps + 1) * 2 * SECOND
        costs.append(dict(work))
    assert costs[0] == costs[1]
    assert costs[1]["records"] <= 2 * track.KEEP_STEPS + 1
    assert costs[1]["segments"] <= 10
    assert costs[1]["booked"] <= 20


def test_each_of_many_batches_folds_the_newest_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    ledger = Ledger()
    events = long_run(20_000)
    num = 0
    for batch in batches(events, 100):
        ledger.add(batch)
        ledger.books("r")
        num += 1
    assert work["records"] <= num * (2 * track.KEEP_STEPS + 100)
    assert work["booked"] <= num * 20


def test_late_step_folds_anew_only_from_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    events = long_run(20_000)
    late = events.pop(-3000)
    for batch in batches(events, 500):
        ledger.add(batch)
    ledger.books("r")
    work = Work(monkeypatch)
    ledger.add([late])
    ledger.books("r")
    assert 3000 - 10 <= work["records"] <= 3000 + 3 * track.KEEP_STEPS
    at_once = Ledger()
    at_once.add([*events, late])
    assert unlike(whole(ledger), whole(at_once)) == []


# ---- what is read again


def resumed_at(step: int, begin: float) -> list[AnyEvent]:
    """The run breaks and goes on after ``step``."""
    log = Log().failure(begin).as_attempt(1).up(begin + 30, resume=step)
    return log.events + steps_of(10, first=step + 1, begin=begin + 40, attempt=1)


@pytest.mark.parametrize("step", [401, 455, 498])
def test_resume_at_an_unsaved_step_reads_that_stretch_again_and_splits_it_exactly(step: int) -> None:
    # steps 1..1000 of 2 s, a save of 10 s after every hundredth; step 401 began at 4 * (200 + 10) s
    log = Log().start(0).up(0, resume=0)
    events: list[AnyEvent] = list(log.events)
    for hundred in range(10):
        events += steps_of(100, first=100 * hundred + 1, begin=210 * hundred)
        events += Log().save(100 * hundred + 100, 210 * hundred + 200, 210 * hundred + 210).events
    source = Fed()
    ledger = Ledger(source)
    with little_memory(8, 50):
        for batch in batches(events, 10):
            ledger.add(batch)
            source.events += batch
            ledger.books("r")
        assert source.asked_us == []
        further = resumed_at(step, 2100)
        ledger.add(further)
        source.events += further
        books = ledger.books("r")
        # Of the stretch between the saves of 400 and 500, and of nothing else.
        stretch_us = T0_US + 4 * 210 * SECOND
        assert len(source.asked_us) == 1
        assert stretch_us <= source.asked_us[0] <= stretch_us + 4 * SECOND
    assert books.accounts_us["lost"] == (1000 - step) * 2 * SECOND
    lost = [segment for segment in ledger.details("r").segments if segment.account == "lost"]
    assert lost[0].start_us == stretch_us + (step - 400) * 2 * SECOND
    assert lost[0].end_us == stretch_us + 200 * SECOND


def test_resume_at_a_saved_step_reads_nothing_again() -> None:
    log = Log().start(0).up(0, resume=0)
    events: list[AnyEvent] = list(log.events)
    for hundred in range(10):
        events += steps_of(100, first=100 * hundred + 1, begin=210 * hundred)
        events += Log().save(100 * hundred + 100, 210 * hundred + 200, 210 * hundred + 210).events
    source = Fed()
    ledger = Ledger(source)
    with little_memory(8, 50):
        for batch in batches(events + resumed_at(400, 2100), 10):
            ledger.add(batch)
            source.events += batch
            ledger.books("r")
    assert source.asked_us == []
    assert ledger.books("r").accounts_us["lost"] == 600 * 2 * SECOND


def test_resume_within_a_record_of_many_steps_that_is_not_held_is_split_in_proportion() -> None:
    # records of 10 steps and 30 s; resume after step 333: a tenth of the record of 331..340 stays, 3 s each
    events: list[AnyEvent] = list(Log().start(0).up(0, resume=0).events)
    events += [Step(t=T0 + 30 * n, run="r", attempt=0, rank=0, step=10 * n, count=10, dur=30) for n in range(1, 101)]
    source = Fed()
    ledger = Ledger(source)
    with little_memory(4, 4):
        for batch in batches(events, 10):
            ledger.add(batch)
            source.events += batch
        log = Log().failure(3000).as_attempt(1).up(3010, resume=333).steps(3020, 334, 335)
        ledger.add(log.events)
        source.events += log.events
        lost = [segment for segment in ledger.details("r").segments if segment.account == "lost"]
    assert [(segment.start_us - T0_US) / SECOND for segment in lost] == [999]
    assert source.asked_us
