"""What is booked today can be booked differently tomorrow: the ledger says which minutes, from what, to what."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.build import T0_US, Log
from ledger_oracle.feeding import batches
from ledger_oracle.generate import Truth
from ledger_oracle.strategies import runs
from tachograph_agent.events import AnyEvent
from tachograph_collector.ledger import Ledger, Minute, Restated

SECOND = 1_000_000
MINUTE = 60


def minute(number: int, account: str, revision: int = 1, seconds: float = 60) -> Minute:
    """The nth minute after ``T0`` with all of its time in one account."""
    us = {name: round(seconds * SECOND) if name == account else 0 for name in ("kept", "checkpoint", "lost", "restart")}
    return Minute(
        T0_US + number * MINUTE * SECOND,
        us["kept"],
        us["checkpoint"],
        us["lost"],
        us["restart"],
        account,  # type: ignore[arg-type]  # one of the four
        revision,
        incomplete=False,
    )


def kept_run(minutes: int = 10) -> Ledger:
    """A run that has trained from its first second on, booked up to a minute's end: thirty steps a minute."""
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 30 * minutes).events)
    assert ledger.books("r").accounts_us["kept"] == minutes * MINUTE * SECOND
    assert ledger.restated() == []
    return ledger


def test_rollback_that_reaches_back_restates_exactly_the_minutes_that_it_changes() -> None:
    ledger = kept_run()
    # back to step 135, which ended at second 270: minutes 4 (half) to 9 are lost
    ledger.add(Log().rollback(600, 135).steps(600, 136, 140).events)
    restated = ledger.restated()
    assert [item.start_us for item in restated] == [T0_US + n * MINUTE * SECOND for n in range(4, 10)]
    half = Minute(T0_US + 4 * MINUTE * SECOND, 30 * SECOND, 0, 30 * SECOND, 0, "lost", 2, incomplete=False)
    assert restated[0] == Restated("r", half.start_us, minute(4, "kept"), half)
    for number, item in enumerate(restated[1:], start=5):
        assert item == Restated("r", item.start_us, minute(number, "kept"), minute(number, "lost", revision=2))
    assert [m.revision for m in ledger.details("r").minutes] == [1] * 4 + [2] * 6 + [1]


def test_restated_twice_says_nothing_new() -> None:
    ledger = kept_run()
    ledger.add(Log().rollback(600, 135).events)
    assert len(ledger.restated()) == 6
    assert ledger.restated() == []
    ledger.books("r")
    assert ledger.restated() == []


def test_minute_restated_twice_counts_both() -> None:
    ledger = kept_run()
    ledger.add(Log().rollback(600, 285).steps(600, 286, 300).events)
    assert [(item.was.revision, item.now and item.now.revision) for item in ledger.restated()] == [(1, 2)]
    ledger.add(Log().rollback(630, 150).events)
    restated = ledger.restated()
    assert [item.start_us // SECOND - T0_US // SECOND for item in restated] == [300, 360, 420, 480, 540]
    assert [item.was.revision for item in restated] == [1, 1, 1, 1, 2]
    assert [item.now and item.now.revision for item in restated] == [2, 2, 2, 2, 3]


def test_growth_of_the_last_minute_restates_nothing() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).events)
    for step in range(1, 121):
        ledger.add(Log().step(2 * step, step).events)
        ledger.books("r")
        assert ledger.restated() == []
    assert [m.revision for m in ledger.details("r").minutes] == [1] * 4


def test_growth_of_the_last_minute_restates_nothing_while_time_goes_on() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).events)
    for step in range(1, 121):
        ledger.add(Log().step(2 * step, step).events)
        now = T0_US + (2 * step + 1) * SECOND
        ledger.books("r", now)
        assert ledger.restated(now) == []


def test_stop_within_the_last_minute_restates_nothing() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 40).events)
    ledger.books("r")
    ledger.add(Log().failure(84).end(90, "failed").events)
    # the save that was never made takes the first minute with it, and that alone had been booked in full
    assert [item.start_us for item in ledger.restated()] == [T0_US]


def test_minute_that_ends_with_the_horizon_has_been_booked() -> None:
    ledger = kept_run(2)
    ledger.add(Log().rollback(120, 45).events)
    assert [item.start_us for item in ledger.restated()] == [T0_US + MINUTE * SECOND]


def test_late_event_restates() -> None:
    # a save from 100 to 130 that is told when ten minutes are booked
    ledger = Ledger()
    log = Log().start(0).up(0, resume=0).steps(0, 1, 50).steps(130, 51, 285)
    ledger.add(log.events)
    ledger.books("r")
    ledger.add(Log().save(50, 100, 130).events)
    restated = ledger.restated()
    assert [item.start_us for item in restated] == [T0_US + MINUTE * SECOND, T0_US + 2 * MINUTE * SECOND]
    assert [(item.was.kept_us, item.now and item.now.checkpoint_us) for item in restated] == [
        (60 * SECOND, 20 * SECOND),
        (60 * SECOND, 10 * SECOND),
    ]


def test_event_told_again_restates_nothing() -> None:
    ledger = kept_run()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 300).events)
    assert ledger.restated() == []


def test_what_was_lost_and_turns_out_kept_is_restated_back() -> None:
    ledger = kept_run()
    ledger.add(Log().failure(600).events)
    assert len(ledger.restated()) == 10  # nothing was saved: all is lost while nothing runs
    ledger.add(Log(attempt=1).up(640, resume=300).steps(650, 301, 310).events)
    restated = ledger.restated()
    assert [item.now for item in restated] == [minute(number, "kept", revision=3) for number in range(10)]
    assert [item.was for item in restated] == [minute(number, "lost", revision=2) for number in range(10)]


def test_minute_that_no_longer_belongs_to_the_run_is_restated_to_nothing() -> None:
    # the run was open up to 300; then its end at 130 is told
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 60).add("heartbeat", 300, node="n").events)
    ledger.books("r")
    ledger.add(Log().end(130).events)
    restated = {item.start_us // SECOND - T0_US // SECOND: item.now for item in ledger.restated()}
    assert restated[180] is None
    assert restated[240] is None
    assert restated[120] is not None
    assert restated[120].kept_us + restated[120].restart_us == 10 * SECOND
    assert [m.start_us // SECOND - T0_US // SECOND for m in ledger.details("r").minutes] == [0, 60, 120]


def test_minute_that_was_whole_is_restated_also_after_the_run_turned_out_to_be_shorter() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 60).add("heartbeat", 300, node="n").events)
    ledger.books("r")
    ledger.add(Log().end(130, "cancelled").events)
    assert [item.start_us // SECOND - T0_US // SECOND for item in ledger.restated()] == [0, 60, 120, 180, 240]
    ledger.add(Log(attempt=1).start(150).up(150, resume=60).steps(160, 61, 62).events)
    restated = {item.start_us // SECOND - T0_US // SECOND: item for item in ledger.restated()}
    assert restated[120].was.revision == 2
    assert restated[120].now is not None
    assert restated[120].now.revision == 3


def test_time_that_is_told_late_to_be_the_runs_is_not_restated() -> None:
    # it had not been booked before
    ledger = Ledger()
    ledger.add(Log().up(120, resume=0).steps(120, 1, 60).events)
    ledger.books("r")
    ledger.add(Log().start(0).events)
    assert ledger.books("r").start_us == T0_US
    assert ledger.restated() == []


def test_restated_minute_is_marked_where_it_is_incomplete() -> None:
    ledger = kept_run()
    ledger.add(Log().add("gap", 310, node="n").rollback(600, 135).events)
    restated = ledger.restated()
    assert [item.now and item.now.incomplete for item in restated] == [False, True, False, False, False, False]
    assert [item.was.incomplete for item in restated] == [False, True, False, False, False, False]


def test_minutes_of_a_run_that_turns_out_to_be_none_are_restated_to_nothing() -> None:
    # a start from step 0 after completed is a further run; then it is told that the run went on until 70
    ledger = Ledger()
    ledger.add(Log().start(0).up(0, resume=0).steps(0, 1, 20).end(40).events)
    ledger.add(Log(attempt=1).start(120).up(120, resume=0).steps(120, 1, 60).end(240).events)
    assert ledger.runs() == ["r", "r#2"]
    ledger.add(Log().end(39, "cancelled").events)
    assert ledger.runs() == ["r"]
    restated = ledger.restated()
    gone = [item for item in restated if item.run == "r#2"]
    assert [(item.start_us, item.now) for item in gone] == [
        (T0_US + 120 * SECOND, None),
        (T0_US + 180 * SECOND, None),
    ]
    assert ledger.restated() == []


@settings(deadline=None, max_examples=80, derandomize=True)
@given(runs(), st.integers(0, 2**32))
def test_restated_minutes_lead_from_every_booking_to_the_next(run: tuple[list[AnyEvent], Truth], seed: int) -> None:
    """Who keeps each full minute as first told, and mends it by what is restated, has what the ledger says."""
    chance = random.Random(seed)
    events = list(run[0])
    places = {id(event): number + chance.randrange(10) for number, event in enumerate(events)}
    events.sort(key=lambda event: places[id(event)])
    ledger = Ledger()
    kept: dict[tuple[str, int], Minute] = {}
    for batch in batches(events, 5):
        ledger.add(batch)
        for item in ledger.restated():
            if (item.run, item.start_us) not in kept:
                continue  # it had not been the run's when it was last asked
            assert kept[item.run, item.start_us] == item.was
            if item.now is None:
                del kept[item.run, item.start_us]
            else:
                kept[item.run, item.start_us] = item.now
        for name in ledger.runs():
            books = ledger.books(name)
            told = {(name, m.start_us): m for m in ledger.details(name).minutes}
            full = {key: m for key, m in told.items() if key[1] + MINUTE * SECOND <= books.end_us}
            assert {key: m for key, m in kept.items() if key in full} == {key: full[key] for key in kept if key in full}
            kept.update(full)
