"""What holds of every log: truth, sums, and that nothing depends on how events arrive."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.answers import Answer, answers_of, differences, ledger_answers, oracle_answers
from ledger_oracle.build import T0_US
from ledger_oracle.generate import Truth
from ledger_oracle.mess import KINDS, MILD, messed
from ledger_oracle.order import at_us
from ledger_oracle.strategies import runs
from tachograph_agent.events import AnyEvent
from tachograph_collector.ledger import Ledger

few = settings(deadline=None, max_examples=100, derandomize=True)
many = settings(deadline=None, max_examples=300, derandomize=True)

seeds = st.integers(0, 2**32)


def now_of(truth: Truth, events: list[AnyEvent]) -> int | None:
    """The present of a running log, after all its events."""
    if truth.now_ms is None:
        return None
    return max([T0_US + truth.now_ms * 1000, *[at_us(event) for event in events]])


def in_ms(answer: Answer) -> dict[str, Any]:
    """An answer in the words of the generator's truth."""

    def place(us: int) -> float:
        return (us - T0_US) / 1000

    return {
        "spans": [(place(s), place(e), status) for s, e, status in answer.spans],
        "accounts": {k: v / 1000 for k, v in answer.accounts_us.items()},
        "causes": {k: v / 1000 for k, v in answer.causes_us.items()},
        "at_risk": None if answer.at_risk_us is None else answer.at_risk_us / 1000,
        "strips": [(place(s), place(e), account) for s, e, account in answer.strips],
        "attempts": answer.num_attempts,
        "failures": answer.failures,
        "planned_stops": answer.planned_stops,
        "unexplained_stops": answer.unexplained_stops,
        "rollbacks": answer.rollbacks,
        "steps": answer.steps,
        "held_gpu_ms": None if answer.gpu_us is None else answer.gpu_us["held"] / 1000,
    }


def told(truth: Truth) -> dict[str, Any]:
    """The truth, as ``in_ms`` has it."""
    found = {name: getattr(truth, name) for name in Truth.__dataclass_fields__ if name != "now_ms"}
    found["causes"] = {cause: ms for cause, ms in truth.causes.items() if ms}
    return found


@many
@given(runs())
def test_generated_run_is_booked_exactly(run: tuple[list[AnyEvent], Truth]) -> None:
    events, truth = run
    now = None if truth.now_ms is None else T0_US + truth.now_ms * 1000
    assert in_ms(ledger_answers(events, now)["sim"]) == told(truth)


@few
@given(runs())
def test_oracle_books_generated_runs_exactly(run: tuple[list[AnyEvent], Truth]) -> None:
    events, truth = run
    now = None if truth.now_ms is None else T0_US + truth.now_ms * 1000
    assert in_ms(oracle_answers(events, now)["sim"]) == told(truth)


def check_sums(answer: Answer) -> None:
    """The four accounts fill the run's time, and nothing is booked twice."""
    assert sum(answer.accounts_us.values()) == answer.wall_us == sum(end - start for start, end, _ in answer.spans)
    assert sum(answer.subs_us.values()) == answer.wall_us
    for account, us in answer.accounts_us.items():
        assert sum(v for k, v in answer.subs_us.items() if k.startswith(f"{account}/")) == us >= 0
        assert sum(e - s for s, e, name in answer.strips if name == account) == us
        assert sum(minute[1][account] for minute in answer.minutes) == us
    assert all(end <= start for (_, end, _), (start, _, _) in pairwise(answer.strips))
    assert all(any(s <= start < end <= e for s, e, _ in answer.spans) for start, end, _ in answer.strips)
    assert sum(answer.causes_us.values()) == answer.accounts_us["lost"]
    assert all(sum(minute[1].values()) <= 60_000_000 for minute in answer.minutes)
    assert answer.at_risk_us is None or 0 <= answer.at_risk_us <= answer.accounts_us["kept"]
    if answer.gpu_us is not None:
        assert sum(v for k, v in answer.gpu_us.items() if k != "held") == answer.gpu_us["held"]


@many
@given(runs(), seeds)
def test_accounts_sum_to_wall_and_never_overlap_however_messy_the_log(
    run: tuple[list[AnyEvent], Truth], seed: int
) -> None:
    events, truth = run
    messy = messed(events, random.Random(seed), share=0.2, kinds=KINDS)
    for answer in ledger_answers(messy, now_of(truth, messy)).values():
        check_sums(answer)


@many
@given(runs(), seeds, st.integers(1, 40))
def test_order_number_and_batches_of_events_change_nothing(
    run: tuple[list[AnyEvent], Truth], seed: int, most: int
) -> None:
    events, truth = run
    chance = random.Random(seed)
    messy = messed(events, chance, share=0.1, kinds=KINDS)
    now = now_of(truth, messy)
    plain = ledger_answers(messy, now)
    again = messy + [event for event in messy if chance.random() < 0.3]
    chance.shuffle(again)
    ledger = Ledger()
    while again:
        size = chance.randrange(1, most + 1)
        ledger.add(again[:size])
        again = again[size:]
        answers_of(ledger, now)  # what was asked on the way must not change what is answered at last
    assert differences(answers_of(ledger, now), plain) == []


@few
@given(runs())
def test_ledger_and_oracle_agree_in_every_detail_on_whole_logs(run: tuple[list[AnyEvent], Truth]) -> None:
    events, truth = run
    now = now_of(truth, events)
    assert differences(ledger_answers(events, now), oracle_answers(events, now)) == []


@many
@given(runs(ranks=(1,)), seeds)
def test_ledger_and_oracle_agree_on_logs_that_lost_events(run: tuple[list[AnyEvent], Truth], seed: int) -> None:
    events, truth = run
    messy = messed(events, random.Random(seed), share=0.15, kinds=MILD)
    now = now_of(truth, messy)
    # not said: whose world counts where an attempt's own word is lost, and what restart without a step is called
    left_out = ["gpu_us", "subs_us"]
    assert differences(ledger_answers(messy, now), oracle_answers(messy, now), left_out) == []
