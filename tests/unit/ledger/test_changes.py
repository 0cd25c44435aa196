"""What has changed since the last look, applied to what stood then, is what stands now; and it is no more than that."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.build import T0_US, Log
from ledger_oracle.feeding import Fed, batches, little_memory, unlike, whole
from ledger_oracle.generate import Truth
from ledger_oracle.mess import messed
from ledger_oracle.order import at_us
from ledger_oracle.strategies import long_acts, runs
from tachograph_agent.events import AnyEvent, from_dict
from tachograph_collector.ledger import Ledger, Minute, Segment
from tachograph_collector.ledger.answer import GenerationBooks

SECOND = 1_000_000
MINUTE_US = 60 * SECOND

many = settings(deadline=None, max_examples=150, derandomize=True)


class Mirror:
    """Minutes and segments by generation, kept by changes alone."""

    def __init__(self) -> None:
        self.minutes: dict[int, dict[int, Minute]] = {}
        self.segments: dict[int, list[Segment]] = {}

    def follow(self, ledger: Ledger, now_us: int | None = None) -> None:
        for changes in ledger.changes(now_us):
            minutes = self.minutes.setdefault(changes.generation, {})
            minutes.update({minute.start_us: minute for minute in changes.minutes})
            for start_us in changes.gone:
                minutes.pop(start_us, None)
            if changes.since_us is not None:
                stood = self.segments.get(changes.generation, [])
                stood = [segment for segment in stood if segment.start_us < changes.since_us]
                self.segments[changes.generation] = [*stood, *changes.segments]

    def check(self, ledger: Ledger, now_us: int | None = None) -> None:
        for number, run in enumerate(ledger.runs(now_us), start=1):
            details = ledger.details(run, now_us)
            assert list(dict(sorted(self.minutes.get(number, {}).items())).values()) == details.minutes
            assert self.segments.get(number, []) == details.segments
        for number in self.minutes.keys() - set(range(1, len(ledger.runs(now_us)) + 1)):
            assert not self.minutes[number]
            assert not self.segments[number]


@many
@given(runs(), st.integers(0, 2**32), st.integers(1, 60))
def test_changes_keep_a_mirror_equal_however_messily_events_arrive(
    run: tuple[list[AnyEvent], Truth], seed: int, size: int
) -> None:
    events, _ = run
    chance = random.Random(seed)
    mess = messed(events, chance, share=0.1)
    heartbeats = [
        from_dict({"kind": kind, "t": events[0].t + chance.randrange(0, 900), "run": events[0].run, "node": "n1"})
        for kind in ("heartbeat", "heartbeat", "gap")
    ]
    mess += heartbeats
    chance.shuffle(mess)
    ledger, mirror = Ledger(), Mirror()
    for batch in batches(mess, size):
        ledger.add(batch)
        mirror.follow(ledger)
    mirror.check(ledger)


@many
@given(runs(ranks=(1,), acts=long_acts), st.integers(1, 40))
def test_changes_keep_a_mirror_equal_over_saving_and_forgetting(run: tuple[list[AnyEvent], Truth], size: int) -> None:
    events, _ = run
    mirror, fed = Mirror(), Fed()
    with little_memory(keep=4, hold=12):
        ledger = Ledger(fed)
        for number, batch in enumerate(batches(events, size)):
            fed.events += batch
            ledger.add(batch)
            now_us = max(at_us(event) for event in fed.events) + number
            if number % 3 == 2:
                states = ledger.save()
                ledger = Ledger(fed)
                ledger.restore(states)
            mirror.follow(ledger, now_us)
            mirror.check(ledger, now_us)


@settings(deadline=None, max_examples=80, derandomize=True)
@given(runs(acts=long_acts), st.integers(1, 12), st.integers(0, 40))
def test_run_that_is_looked_at_while_it_grows_is_booked_as_if_read_at_once(
    run: tuple[list[AnyEvent], Truth], size: int, ahead_s: int
) -> None:
    events, _ = run
    ledger = Ledger()
    for number, batch in enumerate(batches(events, size)):
        ledger.add(batch)
        now_us = max(at_us(event) for event in events[: (number + 1) * size]) + ahead_s * SECOND
        if number % 4 == 3:
            again = Ledger()
            again.add(events[: (number + 1) * size])
            assert unlike(whole(ledger, now_us), whole(again, now_us)) == []
        ledger.runs(now_us)


def test_step_after_many_attempts_asks_nothing_of_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    for attempt in range(20):
        log = Log().as_attempt(attempt).up(attempt * 300, resume=attempt * 50)
        ledger.add(log.steps(attempt * 300, attempt * 50 + 1, attempt * 50 + 60).failure(attempt * 300 + 130).events)
    ledger.add(Log().as_attempt(20).up(6000, resume=1000).steps(6000, 1001, 1005).events)
    ledger.runs()
    asked = []
    signature = GenerationBooks._signature

    def counted(self: GenerationBooks, number: int) -> object:
        asked.append(number)
        return signature(self, number)

    monkeypatch.setattr(GenerationBooks, "_signature", counted)
    for step in range(1006, 1020):
        ledger.add(Log().as_attempt(20).step(6000 + 2 * (step - 1000), step).events)
        ledger.runs()
    assert set(asked) == {20}


def test_growth_changes_only_the_minute_that_grows() -> None:
    log = Log().start(0).up(0, resume=0).steps(0, 1, 3000)
    ledger = Ledger()
    ledger.add(log.events)
    ledger.changes()
    assert ledger.changes() == []
    ledger.add(Log().step(6002, 3001).events)
    [changes] = ledger.changes()
    assert [minute.start_us for minute in changes.minutes] == [T0_US + 100 * MINUTE_US]
    assert (changes.gone, changes.since_us) == ([], T0_US)
    assert changes.segments == [Segment(T0_US, T0_US + 6002 * SECOND, "kept", "train", 0)]


def test_look_at_a_later_time_changes_only_what_has_passed_since() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 3000).events)
    ledger.changes(T0_US + 6001 * SECOND)
    [changes] = ledger.changes(T0_US + 6010 * SECOND)
    assert [minute.start_us for minute in changes.minutes] == [T0_US + 100 * MINUTE_US]


def test_minute_that_becomes_incomplete_has_changed() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 300).events)
    ledger.changes()
    ledger.add(Log().add("gap", 200, since=T0_US / 1e6 + 130, node="n1").events)
    [changes] = ledger.changes()
    assert [(m.start_us, m.incomplete) for m in changes.minutes] == [
        (T0_US + 2 * MINUTE_US, True),
        (T0_US + 3 * MINUTE_US, True),
    ]
    assert changes.since_us is None


def test_running_attempt_is_named_while_it_runs() -> None:
    ledger = Ledger()
    log = Log().start(0).as_attempt("a7").up(0, resume=0).steps(0, 1, 30)
    ledger.add(log.events)
    assert ledger.running_attempt("r") == "a7"
    ledger.add(Log(attempt="a7").failure(61).events)
    assert ledger.running_attempt("r") is None
