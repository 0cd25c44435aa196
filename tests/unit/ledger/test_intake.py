"""What comes in: broken clocks, events outside a run, strange years, runs without a name, logs of one event."""

from __future__ import annotations

import itertools

import pytest
from ledger_oracle.answers import answers_of, differences, ledger_answers
from ledger_oracle.build import T0, T0_US, Log
from ledger_oracle.feeding import unlike, whole
from tachograph_agent.events import KINDS, AnyEvent, from_dict
from tachograph_collector.ledger import Ledger

SECOND = 1_000_000
DAY = 86_400

OUTSIDE = "outside the run's time"
NO_ATTEMPT = "failure or end of no attempt"
BROKEN_CLOCK = "broken clock (more than a day from every other event)"


def trained() -> Log:
    """Ten steps from 10 to 30, and the end."""
    return Log().start(0).up(0, resume=0).steps(10, 1, 10).end(40, "cancelled")


def fed(*logs: Log) -> Ledger:
    ledger = Ledger()
    for log in logs:
        ledger.add(log.events)
    return ledger


def aside(*logs: Log) -> dict[str, int]:
    ledger = fed(*logs)
    ledger.runs()
    return ledger.set_aside("r")


# ---- set aside


def test_nothing_is_set_aside_of_a_log_that_adds_up() -> None:
    assert aside(trained()) == {}


def test_work_after_the_end_is_counted_as_outside() -> None:
    assert aside(trained(), Log().step(50, 11).step(70, 12)) == {OUTSIDE: 2}


def test_saves_and_rollbacks_after_the_end_are_counted_as_outside() -> None:
    assert aside(trained(), Log().save(10, 45, 46).rollback(300, 5)) == {OUTSIDE: 2}


def test_failures_and_ends_of_no_attempt_are_counted() -> None:
    assert aside(trained(), Log(attempt=None).failure(41).stop(42).failure(-5)) == {NO_ATTEMPT: 3}


def test_lone_events_are_counted() -> None:
    log = Log().add("heartbeat", 5 * DAY, node="n").add("heartbeat", -5 * DAY, node="n")
    assert aside(trained(), log) == {BROKEN_CLOCK: 2}


def test_reasons_are_counted_apart() -> None:
    more = Log(attempt=None).failure(41).add("heartbeat", 5 * DAY, node="n").as_attempt(0).step(50, 11)
    assert aside(trained(), more) == {OUTSIDE: 1, NO_ATTEMPT: 1, BROKEN_CLOCK: 1}


def test_what_is_set_aside_is_counted_anew_at_each_look() -> None:
    ledger = fed(trained(), Log(attempt=None).failure(41))
    for _ in range(3):
        ledger.runs()
        ledger.add([])
    assert ledger.set_aside("r") == {NO_ATTEMPT: 1}
    ledger.add(Log().start(40.5).step(50, 11).events)  # the run went on: the failure was its own
    ledger.runs()
    assert ledger.set_aside("r") == {}


def test_set_aside_of_a_further_run_is_that_of_its_name() -> None:
    log = trained()
    again = Log(attempt=1).start(100).up(100, resume=0).steps(110, 1, 5).end(120)
    ledger = fed(Log().end(39), log, again, Log(attempt=None).failure(130))
    assert ledger.runs() == ["r", "r#2"]
    assert ledger.set_aside("r#2") == ledger.set_aside("r") == {NO_ATTEMPT: 1}


def test_run_that_is_not_known_has_nothing_set_aside() -> None:
    assert Ledger().set_aside("nobody") == {}


# ---- broken clocks


@pytest.mark.parametrize(("apart", "heard"), [(DAY, True), (DAY + 0.001, False)])
@pytest.mark.parametrize("side", [-1, 1])
def test_event_just_a_day_away_is_no_broken_clock(side: int, apart: float, heard: bool) -> None:
    at = -apart if side < 0 else 40 + apart
    assert (aside(trained(), Log().add("heartbeat", at, node="n")) == {}) is heard


@pytest.mark.parametrize("kind", ["attempt.start", "attempt.end", "run.start", "run.end", "failure"])
def test_what_says_that_something_began_or_ended_is_believed_alone(kind: str) -> None:
    assert BROKEN_CLOCK not in aside(trained(), Log().add(kind, 5 * DAY, category="gpu" if kind == "failure" else None))


def test_lone_event_told_twice_is_still_alone() -> None:
    lone = Log().add("heartbeat", 5 * DAY, node="n")
    assert aside(trained(), lone, lone, lone) == {BROKEN_CLOCK: 1}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_events_that_come_to_stand_within_a_day_of_each_other_are_all_heard(order: tuple[int, ...]) -> None:
    # each a little less than a day from the next; alone until that one comes
    steps = [Log().step(DAY * 0.9 * n, n + 1).events for n in range(4)]
    ledger = Ledger()
    for place in order:
        ledger.add(steps[place])
        ledger.runs()
    assert ledger.set_aside("r") == {}
    assert ledger.books("r").steps == 4
    at_once = ledger_answers([event for step in steps for event in step])
    assert differences(answers_of(ledger), at_once) == []


@pytest.mark.parametrize("first", [-1, 1])
def test_two_lone_events_that_a_third_joins_are_heard(first: int) -> None:
    # nine tenths of two days apart, one between them
    ledger = fed(Log().step(first * 0.9 * DAY, 2 + first), Log().step(-first * 0.9 * DAY, 2 - first))
    ledger.runs()
    assert ledger.set_aside("r") == {BROKEN_CLOCK: 2}
    ledger.add(Log().step(0, 2).events)
    assert ledger.books("r").steps == 3
    assert ledger.set_aside("r") == {}
    ledger.add(Log().step(1.8 * DAY, 4).events)
    assert ledger.books("r").steps == 4


@pytest.mark.parametrize("kind", ["step", "phase", "checkpoint.saved", "rollback"])
def test_lone_event_that_was_looked_at_alone_is_set_aside_when_others_come(kind: str) -> None:
    raw = {
        "kind": kind,
        "t": T0 - 5.0 * DAY,
        "run": "r",
        "step": 1,
        "to_step": 1,
        "name": "eval",
        "dur": 5.0,
        "of_t": 1.0,
    }
    ledger = Ledger()
    ledger.add([from_dict(raw)])
    ledger.runs()
    ledger.books("r") if ledger.runs() else None
    ledger.add(trained().events)
    at_once = Ledger()
    at_once.add([from_dict(raw), *trained().events])
    assert unlike(whole(ledger), whole(at_once)) == []
    assert ledger.set_aside("r") == {BROKEN_CLOCK: 1}


def test_lone_event_that_was_looked_at_alone_is_heard_when_another_joins_it() -> None:
    ledger = fed(Log().step(2, 1))
    assert ledger.books("r").steps == 1
    ledger.add(Log().step(4, 2).events)
    assert ledger.books("r").accounts_us["kept"] == 4 * SECOND


def test_step_after_a_weekend_joins_the_run_when_a_second_comes() -> None:
    ledger = fed(Log().start(0).up(0, resume=0).steps(10, 1, 10), Log().step(3 * DAY, 11))
    assert ledger.books("r").steps == 10
    ledger.add(Log().step(3 * DAY + 2, 12).events)
    assert ledger.books("r").steps == 12


# ---- the run's time


def test_spans_of_a_log_of_one_event_are_told_before_a_minute_is_booked() -> None:
    ledger = fed(Log().step(2, 1))
    (span,) = ledger.spans(T0_US + 100 * SECOND)["r"]
    assert (span.start_us, span.end_us) == (T0_US, T0_US + 100 * SECOND)


# ---- strange years


@pytest.mark.parametrize("year", [1970, 2262, 9999])
def test_run_of_any_year_is_booked_exactly(year: int) -> None:
    began = {1970: 0, 2262: 9_223_372_020, 9999: 253_402_300_700}[year] - T0
    log = Log().start(began).up(began, resume=0).steps(began + 10, 1, 10).save(10, began + 30, began + 35)
    log.steps(began + 35, 11, 15).failure(began + 46).as_attempt(1)
    log.up(began + 60, resume=12).steps(began + 70, 13, 14).end(began + 80)
    books = fed(log).books("r")
    assert books.start_us == (began + T0) * SECOND
    assert {name: us // SECOND for name, us in books.accounts_us.items()} == {
        "kept": 20 + 4 + 4,
        "checkpoint": 5,
        "lost": 6 + 1,
        "restart": 10 + 24 + 6,
    }
    assert books.wall_us == 80 * SECOND


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "step", "step": 1, "dur": 30.0},
        {"kind": "checkpoint.saved", "step": 1, "dur": 30.0},
        {"kind": "phase", "name": "eval", "dur": 30.0},
        {"kind": "phase", "name": "reload", "dur": 30.0},
    ],
    ids=lambda raw: raw["kind"],
)
def test_what_lasted_longer_than_since_1970_began_then(event: dict[str, object]) -> None:
    log = Log().start(5 - T0).steps(10 - T0, 2, 5)
    ledger = fed(log)
    ledger.add([from_dict({"t": 12.0, "run": "r", "attempt": 0, "rank": 0, **event})])
    books, found = ledger.books("r"), ledger.details("r")
    assert books.start_us >= 0
    assert books.accounts_us["checkpoint"] == (12 * SECOND if event["kind"] == "checkpoint.saved" else 0)
    assert sum(books.accounts_us.values()) == books.wall_us
    assert all(segment.start_us >= 0 for segment in found.segments)
    assert all(minute.start_us >= 0 for minute in found.minutes)


# ---- names


def test_events_without_a_run_are_a_run_without_a_name() -> None:
    ledger = fed(Log(run="").start(0).up(0, resume=0).steps(10, 1, 5).end(20))
    assert ledger.runs() == [""]
    assert ledger.books("").accounts_us["kept"] == 10 * SECOND
    assert ledger.set_aside("") == {}


def test_further_runs_without_a_name_are_numbered() -> None:
    log = Log(run="").start(0).up(0, resume=0).steps(10, 1, 5).end(20)
    ledger = fed(log.as_attempt(1).start(100).up(100, resume=0).steps(110, 1, 5).end(120))
    assert ledger.runs() == ["", "#2"]
    assert ledger.books("#2").steps == 5


def test_unknown_run_is_told_by_name_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no run named 'x'; known are 'r'"):
        fed(trained()).books("x")
    with pytest.raises(KeyError, match=r"no run named 'x'; known are none"):
        Ledger().books("x")


def test_batch_of_several_runs_gives_each_its_own() -> None:
    one, other = Log("a").start(0).steps(0, 1, 5).events, Log("b").start(0).steps(0, 1, 9).events
    mixed = [event for pair in itertools.zip_longest(one, other) for event in pair if event is not None]
    ledger = Ledger()
    ledger.add(mixed)
    assert sorted(ledger.runs()) == ["a", "b"]
    assert (ledger.books("a").steps, ledger.books("b").steps) == (5, 9)


# ---- unknown kinds, and logs of one event


def test_unknown_kinds_make_no_run() -> None:
    ledger = Ledger()
    ledger.add([from_dict({"kind": "weather", "t": T0, "run": "r"})])
    assert ledger.runs() == []


def test_unknown_kinds_are_heard_and_extend_an_open_run() -> None:
    ledger = fed(Log().start(0).steps(0, 1, 5))
    ledger.add([from_dict({"kind": "weather", "t": T0 + 30.0, "run": "r", "rain": True})])
    assert ledger.books("r").end_us == T0_US + 30 * SECOND


def lone(kind: str) -> AnyEvent:
    fields = {"step": 3, "to_step": 1, "name": "eval", "dur": 5.0, "of_t": 1.0}
    return from_dict({"kind": kind, "t": float(T0), "run": "r", **fields})


OPENING = {"run.start", "attempt.start", "step", "checkpoint.start", "checkpoint.saved"}


@pytest.mark.parametrize("kind", [*KINDS, "weather"])
def test_log_of_one_event_is_a_run_only_if_it_opens_one(kind: str) -> None:
    ledger = Ledger()
    ledger.add([lone(kind)])
    assert ledger.runs() == (["r"] if kind in OPENING else [])
    if kind in OPENING:
        books = ledger.books("r")
        assert books.status == "running"
        assert books.wall_us == (5 * SECOND if kind in ("step", "checkpoint.saved") else 0)
        assert sum(books.accounts_us.values()) == books.wall_us
        assert books.goodput == (None if books.wall_us == 0 else books.accounts_us["kept"] / books.wall_us)
        assert books.gpu_goodput is None
    assert BROKEN_CLOCK not in ledger.set_aside("r")


@pytest.mark.parametrize("kind", sorted(OPENING))
def test_log_of_one_event_goes_on_to_now(kind: str) -> None:
    ledger = Ledger()
    ledger.add([lone(kind)])
    books = ledger.books("r", T0_US + 60 * SECOND)
    assert books.end_us == T0_US + 60 * SECOND
    assert sum(books.accounts_us.values()) == books.wall_us


@pytest.mark.parametrize("kind", [*KINDS, "weather"])
def test_log_of_one_event_can_be_saved_and_taken_up(kind: str) -> None:
    first = Ledger()
    first.add([lone(kind)])
    second = Ledger()
    second.restore(first.save())
    for ledger in (first, second):
        ledger.add(trained().events)
    assert unlike(whole(second), whole(first)) == []


def test_no_events_are_no_runs() -> None:
    ledger = Ledger()
    ledger.add([])
    assert (ledger.runs(), ledger.restated(), ledger.spans()) == ([], [], {})


# ---- a log as it stood


def test_events_after_the_time_asked_for_are_not_seen() -> None:
    ledger = Ledger(until_us=T0_US + 30 * SECOND)
    ledger.add(trained().events)
    books = ledger.books("r")
    assert (books.status, books.steps, books.end_us) == ("running", 10, T0_US + 30 * SECOND)


@pytest.mark.parametrize("backwards", [False, True])
def test_of_two_failures_or_starts_that_are_one_the_first_in_canonical_order_counts(backwards: bool) -> None:
    one = Log().start(0, gpus=8).failure(30, "gpu").end(40, "completed").events
    other = Log().start(0, gpus=16).failure(30, "network").end(40, "failed").events
    ledger = fed(Log().up(0, resume=0).steps(0, 1, 10))
    for events in (other, one) if backwards else (one, other):
        ledger.add(events)
        ledger.runs()
    [books] = [ledger.books(run) for run in ledger.runs()]
    assert (books.status, books.world_size) == ("failed", 16)
    assert [it.category for it in ledger.details("r").interruptions] == ["gpu"]
