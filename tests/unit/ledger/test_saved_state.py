"""A ledger's state as bytes: whoever takes it up goes on as if nothing had been; what is none is refused."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.build import T0, T0_US, Log
from ledger_oracle.feeding import Fed, batches, little_memory, unlike, whole
from ledger_oracle.generate import Truth
from ledger_oracle.mess import KINDS, messed
from ledger_oracle.strategies import long_acts, runs
from tachograph_agent.events import AnyEvent, Step
from tachograph_collector.ledger import Ledger, StateError, state, track

SECOND = 1_000_000


def taken_up(ledger: Ledger, source: Fed | None = None) -> Ledger:
    """A further ledger that goes on from the state of this one."""
    other = Ledger(source)
    other.restore(ledger.save())
    return other


@settings(deadline=None, max_examples=120, derandomize=True)
@given(run=runs(acts=long_acts), memory=st.tuples(st.integers(2, 4), st.integers(2, 4)), seed=st.integers(0, 2**32))
def test_ledger_taken_up_anywhere_goes_on_as_if_nothing_had_been(
    run: tuple[list[AnyEvent], Truth], memory: tuple[int, int], seed: int
) -> None:
    chance = random.Random(seed)
    events = run[0]
    if seed % 2:
        events = messed(events, chance, share=0.1, kinds=KINDS)
    source = Fed()
    first = Ledger(source)
    second = Ledger(source)
    with little_memory(*memory):
        for batch in batches(events, chance.choice([1, 7, 40])):
            first.add(batch)
            second.add(batch)
            source.events += batch
            if chance.random() < 0.5:
                first.save()  # to save is to look: both do
                second = taken_up(second, source)
            if chance.random() < 0.3:
                assert unlike(whole(second, revisions=True), whole(first, revisions=True)) == []
            if chance.random() < 0.3:
                assert second.restated() == first.restated()
            assert second.set_aside("sim") == first.set_aside("sim")
        assert unlike(whole(second, revisions=True), whole(first, revisions=True)) == []
        assert second.restated() == first.restated()


def told() -> Log:
    """Attempts, saves, phases, a rollback of no attempt, an allocation, a gap, a lone event."""
    log = Log().start(0, gpus=8, labels={"team": "a"}).add("allocation.start", 0, gpus=8).up(0, resume=0)
    log.steps(10, 1, 40).save(40, 90, 95).phase("eval", 95, 130).steps(130, 41, 60)
    log.own("phase.start", 170, name="eval").add("gap", 175, node="n", since=1_760_000_160)
    log.as_attempt(None).rollback(176, 40, "nan").as_attempt(0).steps(180, 41, 50).failure(205)
    log.add("heartbeat", 200, node="n").add("health", -400_000, node="lone", check="xid")
    return log.as_attempt("b").up(260, resume=45).steps(270, 46, 60).persisted(330, 60)


def later() -> Log:
    """It goes on: what was told earlier matters for each of these."""
    log = Log(attempt="b").own("phase", 180, name="eval", attempt=0).rollback(302, 50, "sdc").steps(310, 51, 70)
    log.add("allocation.end", 400, gpus=8).add("health", -400_010, node="lone", check="xid")
    log.as_attempt(None).rollback(176, 40, "nan").stop(360).as_attempt(0).step(171, 61)
    return log.add("heartbeat", 700, node="n").end(720, "cancelled")


def test_state_holds_whatever_matters_later() -> None:
    now = T0_US + 340 * SECOND
    first = Ledger()
    first.add(told().events)
    first.books("r", now)
    second = taken_up(first)
    assert unlike(whole(second, now, revisions=True), whole(first, now, revisions=True)) == []
    for ledger in (first, second):
        ledger.add(later().events)
    assert unlike(whole(second, revisions=True), whole(first, revisions=True)) == []
    assert second.restated() == first.restated() != []
    assert second.set_aside("r") == first.set_aside("r")


def test_state_holds_what_nobody_has_asked_to_be_restated_yet() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(10, 1, 300).events)
    ledger.books("r")
    ledger.add(Log().rollback(611, 10).events)
    ledger.books("r")
    other = taken_up(ledger)
    assert len(other.restated()) == 10
    assert other.restated() == []


def test_state_knows_for_when_it_was_asked() -> None:
    # booked up to 400; then it turns out that a step had ended at 390
    first = Ledger()
    first.add(Log().start(0).up(0, resume=0).steps(10, 1, 10).events)
    first.books("r", T0_US + 400 * SECOND)
    second = taken_up(first)
    later = Log().failure(50).as_attempt(1).up(60, resume=5).steps(70, 6, 160).events
    for ledger in (first, second):
        ledger.add(later)
    assert second.restated() == first.restated() != []
    assert unlike(whole(second, revisions=True), whole(first, revisions=True)) == []


def test_state_knows_which_rollbacks_named_no_attempt() -> None:
    # the rollback at 50 is attempt 0's until it is told that attempt 1 was running then
    first = Ledger()
    first.add(Log().start(0).up(0, resume=0).steps(10, 1, 20).as_attempt(None).rollback(55, 12).events)
    first.books("r")
    second = taken_up(first)
    for ledger in (first, second):
        ledger.add(Log(attempt=1).up(51, resume=20).steps(60, 13, 20).events)
        assert ledger.books("r").num_attempts == 2
    assert unlike(whole(second), whole(first)) == []
    at_once = Ledger()
    at_once.add(Log().start(0).up(0, resume=0).steps(10, 1, 20).as_attempt(None).rollback(55, 12).events)
    at_once.add(Log(attempt=1).up(51, resume=20).steps(60, 13, 20).events)
    assert unlike(whole(first), whole(at_once)) == []


def test_state_holds_the_minutes_of_a_run_that_turned_out_to_be_none() -> None:
    first = Ledger()
    first.add(Log().start(0).up(0, resume=0).steps(0, 1, 20).end(40).events)
    first.add(Log(attempt=1).start(120).up(120, resume=0).steps(120, 1, 60).end(240).events)
    first.books("r#2")
    first.add(Log().end(39, "cancelled").events)
    assert first.runs() == ["r"]
    second = taken_up(first)
    gone = [(item.run, item.now) for item in second.restated() if item.run == "r#2"]
    assert gone == [("r#2", None)] * 2
    assert [item.run for item in first.restated()].count("r#2") == 2


def test_state_of_a_ledger_that_was_asked_nothing_can_be_taken_up() -> None:
    events = told().events
    first = Ledger()
    first.add(events)
    assert unlike(whole(taken_up(first)), whole(first)) == []


def test_state_of_no_runs_is_empty() -> None:
    assert Ledger().save() == {}


def test_each_run_has_a_state_of_its_own() -> None:
    ledger = Ledger()
    ledger.add(Log("a").start(0).steps(0, 1, 5).events + Log("b").start(0).steps(0, 1, 9).events)
    saved = ledger.save()
    other = Ledger()
    other.restore({"b": saved["b"]})
    assert other.runs() == ["b"]
    assert other.books("b") == ledger.books("b")


# ---- what is no state


def state_of_a_run() -> bytes:
    ledger = Ledger()
    ledger.add(told().events)
    return ledger.save()["r"]


def test_another_versions_state_is_refused_with_both_versions_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "VERSION", 7)
    data = state_of_a_run()
    monkeypatch.undo()
    with pytest.raises(StateError) as refused:
        Ledger().restore({"r": data})
    assert str(refused.value) == (
        f"run 'r': saved by version 7 of the ledger, this is version {state.VERSION}; "
        "rebuild the run from its stored events"
    )


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff" * 40, b"TGLS", b'{"version": 1}', bytes(100)])
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    with pytest.raises(StateError, match=r"^run 'r': .* bytes are no saved state of a ledger; rebuild the run from"):
        Ledger().restore({"r": data})


def test_broken_state_is_refused_whatever_byte_is_broken() -> None:
    data = state_of_a_run()
    chance = random.Random(5)
    for _ in range(500):
        broken = bytearray(data)
        if chance.random() < 0.3:
            del broken[chance.randrange(len(broken)) :]
        else:
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        with pytest.raises(StateError, match=r"^run 'r': .*rebuild the run from its stored events$"):
            Ledger().restore({"r": bytes(broken)})


def test_whole_bytes_that_are_no_state_are_refused() -> None:
    data = b"\x80"
    head = struct.pack(">4sII", b"TGLS", state.VERSION, zlib.crc32(data))
    with pytest.raises(StateError, match=r"^run 'r': not the saved state of a ledger \(.*\); rebuild the run"):
        Ledger().restore({"r": head + data})


def test_refused_state_leaves_the_ledger_as_it_was() -> None:
    ledger = Ledger()
    ledger.add(told().events)
    before = whole(ledger)
    good = ledger.save()["r"]
    with pytest.raises(StateError):
        ledger.restore({"r": good, "s": b"none"})
    assert unlike(whole(ledger), before) == []
    assert ledger.runs() == ["r"]


# ---- how large it is


def held_after(num_steps: int, source: Fed | None) -> tuple[state.RunState, int]:
    """What is held of a run of steps of 2 s with a save every 500, fed in batches of 100; and its bytes."""
    events: list[AnyEvent] = list(Log().start(0).up(0, resume=0).events)
    at = 0.0
    for first in range(1, num_steps, 500):
        events += [
            Step(t=T0 + at + 2 * (n + 1), run="r", attempt=0, rank=0, step=first + n, dur=2.0) for n in range(500)
        ]
        at += 1000
        events += Log().save(first + 499, at, at + 10).events
        at += 10
    ledger = Ledger(source)
    for batch in batches(events, 100):
        ledger.add(batch)
        if source is not None:
            source.events += batch
        ledger.books("r")
    data = ledger.save()["r"]
    return state.unpack("r", data), len(data)


def test_state_is_bounded_by_checkpoints_and_the_newest_steps_where_steps_can_be_read_again() -> None:
    held, size = held_after(50_000, Fed())
    (run,) = held.tracks
    assert len(run.steps) <= 4 * track.KEEP_STEPS + 500
    assert len(run.pieces) <= 3 * 100 + 10  # the steps between two saves, the last of them, and the save
    assert len(run.anchors) <= 2 * 50_000 // track.KEEP_STEPS + 10
    assert len(run.save_logs) == 100
    assert len(held.heard) <= 10
    _, half = held_after(25_000, Fed())
    assert size - half < 50 * 500  # a save and its stretch take less than 500 bytes; 500 steps take more than 5,000


def test_every_step_is_held_where_none_can_be_read_again() -> None:
    held, _size = held_after(10_000, None)
    assert len(held.tracks[0].steps) == 10_000


def test_steps_since_the_last_landed_checkpoint_are_held() -> None:
    """A resume falls among them, as a rule: it must not cost a reading."""
    events: list[AnyEvent] = list(Log().start(0).up(0, resume=0).events)
    events += [Step(t=T0 + 2 * n, run="r", attempt=0, rank=0, step=n, dur=2.0) for n in range(1, 5001)]
    events += Log().save(5000, 10_000, 10_010).events
    events += [Step(t=T0 + 10 + 2 * n, run="r", attempt=0, rank=0, step=n, dur=2.0) for n in range(5001, 20_001)]
    source = Fed()
    ledger = Ledger(source)
    for batch in batches(events, 500):
        ledger.add(batch)
        source.events += batch
    held = state.unpack("r", ledger.save()["r"]).tracks[0].steps
    assert {step for _, step, _, _ in held} >= set(range(5001, 20_001))
    assert len(held) <= 15_000 + 3 * track.KEEP_STEPS


def test_records_of_higher_ranks_are_held_only_beyond_the_leads() -> None:
    ledger = Ledger(Fed())
    for first in range(1, 5000, 50):
        for rank in (1, 0):
            ledger.add([Step(t=T0 + 2 * n, run="r", rank=rank, step=n, dur=2.0) for n in range(first, first + 50)])
    held = state.unpack("r", ledger.save()["r"]).tracks[0]
    assert held.lead == 0
    assert sum(len(rows) for rows in held.ahead.values()) <= 50
