"""A failure that was only inferred can be taken back, in whatever order the two are read."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.answers import Read, differences, ledger_answers, oracle_answers
from ledger_oracle.build import T0, T0_US, Log
from ledger_oracle.feeding import batches, unlike, whole
from ledger_oracle.generate import Truth
from ledger_oracle.strategies import runs
from msgspec.structs import replace
from tachograph_agent.events import AnyEvent, EventError, Failure, FailureWithdrawn, from_dict
from tachograph_collector.ledger import Ledger

VOID = "withdrawal of no inferred failure"


def training() -> Log:
    return Log().start(0).up(0, resume=0).steps(10, 1, 15)


def dead(log: Log, t: float = 60, **fields: object) -> Log:
    return log.failure(t, "heartbeat", **{"inferred": True, "node": "n1", **fields})


def withdrawn(log: Log, of: float = 60, t: float = 90, **fields: object) -> Log:
    return log.own("failure.withdrawn", t, **{"of_t": T0 + of, "node": "n1", **fields})


def test_inferred_failure_that_is_withdrawn_counts_no_more(read: Read) -> None:
    assert read(dead(training()), now=100).failures == 1
    answer = read(withdrawn(dead(training())), now=100)
    assert answer.failures == 0
    assert answer.accounts_us["lost"] == 0
    assert differences({"r": answer}, {"r": read(training(), now=100)}) == []


def test_order_of_arrival_makes_no_difference() -> None:
    first, second = dead(Log()).events, withdrawn(Log()).events
    answers = []
    for order in permutations([training().events, first, second]):
        ledger = Ledger()
        for batch in order:
            ledger.add(batch)
            ledger.runs(T0_US + 100_000_000)
        answers.append(whole(ledger, T0_US + 100_000_000))
    assert all(unlike(answer, answers[0]) == [] for answer in answers)
    assert answers[0]["r"][0].num_failures == 0


def test_failure_that_was_told_can_not_be_withdrawn(read: Read) -> None:
    assert read(withdrawn(dead(training(), inferred=None)), now=100).failures == 1


def test_told_failure_stands_where_an_inferred_one_of_the_same_name_is_withdrawn() -> None:
    for told_first in (True, False):
        told = training().failure(60, "heartbeat", node="n1", detail="it smokes").events[-1:]
        inferred = dead(Log()).events
        ledger = Ledger()
        ledger.add([*training().events, *(told + inferred if told_first else inferred + told)])
        ledger.add(withdrawn(Log()).events)
        [stop] = ledger.details("r").interruptions
        assert (stop.inferred, stop.detail) == (False, "it smokes")


@pytest.mark.parametrize(
    "fields", [{"of": 61}, {"node": "n2"}, {"rank": 1}, {"attempt": 1}], ids=["time", "node", "rank", "attempt"]
)
def test_withdrawal_names_one_failure_only(read: Read, fields: dict[str, object]) -> None:
    log = withdrawn(dead(training()), **fields)  # type: ignore[arg-type]  # one of them is a time
    assert read(log, now=100).failures == 1


def test_withdrawal_that_names_nothing_is_counted() -> None:
    ledger = Ledger()
    ledger.add(withdrawn(training()).events)
    ledger.runs()
    assert ledger.set_aside("r") == {VOID: 1}
    ledger.add(dead(Log()).events)
    ledger.runs()
    assert ledger.set_aside("r") == {}


def test_next_failure_after_a_withdrawn_one_counts(read: Read) -> None:
    log = dead(withdrawn(dead(training())), 95, node="n1")
    assert read(log, now=100).failures == 1


def test_withdrawal_outlives_saving() -> None:
    ledger = Ledger()
    ledger.add(withdrawn(training()).events)
    taken_up = Ledger()
    taken_up.restore(ledger.save())
    taken_up.add(dead(Log()).events)
    assert taken_up.books("r", T0_US + 100_000_000).num_failures == 0


def test_withdrawal_says_which_failure_it_means() -> None:
    with pytest.raises(EventError, match="of_t"):
        from_dict({"kind": "failure.withdrawn", "t": T0, "run": "r"})


@settings(deadline=None, max_examples=150, derandomize=True)
@given(runs(), st.integers(0, 2**32), st.integers(1, 30))
def test_ledger_and_oracle_agree_on_withdrawn_failures(run: tuple[list[AnyEvent], Truth], seed: int, size: int) -> None:
    chance = random.Random(seed)
    events: list[AnyEvent] = []
    for event in run[0]:
        if isinstance(event, Failure) and chance.random() < 0.8:
            event = replace(event, inferred=True)
            if chance.random() < 0.7:
                events.append(
                    FailureWithdrawn(
                        t=event.t + chance.randrange(0, 3),
                        of_t=event.t,
                        run=event.run,
                        attempt=event.attempt,
                        node=event.node,
                        rank=event.rank,
                    )
                )
        events.append(event)
    now_us = round(max(event.t for event in events) * 1e6) + 1
    expected = oracle_answers(events, now_us)
    assert differences(ledger_answers(events, now_us), expected) == []
    chance.shuffle(events)
    ledger = Ledger()
    for batch in batches(events, size):
        ledger.add(batch)
        ledger.runs(now_us)
    again = Ledger()
    again.add(events)
    assert unlike(whole(ledger, now_us), whole(again, now_us)) == []
