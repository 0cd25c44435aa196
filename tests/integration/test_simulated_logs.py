"""The ledger's books of a simulated log equal the simulator's own accounts, to the microsecond, in random designs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from tachograph_agent.events import Failure, KnownEvent, RunEnd, decode, encode
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.simulate import (
    Accounts,
    Corruption,
    Design,
    Elastic,
    Failures,
    Retention,
    Spares,
    simulate,
    simulate_log,
)

KINDS = ("plain", "peers", "spares", "elastic", "corruption")
NUM_DESIGNS = 80


class Case(NamedTuple):
    design: Design
    failures: Failures
    duration_s: float
    place: int
    record_steps: int | None


def random_case(kind: str, seed: int) -> Case:
    """A design in which everything happens often: some parts take no time, some take longer than failures leave."""
    draw = np.random.default_rng([seed, KINDS.index(kind)])

    def between(low: float, high: float) -> float:
        return float(np.exp(draw.uniform(np.log(low), np.log(high))))

    def often_zero(low: float, high: float) -> float:
        return between(low, high) if draw.random() < 0.85 else 0.0

    interval_s = between(5, 4000)
    how: dict[str, Any] = {
        "interval_s": interval_s,
        "blocking_s": often_zero(0.01, 300),
        "persist_s": often_zero(0.1, 6000) if draw.random() < 0.6 else None,
        "overrun": str(draw.choice(["stall", "skip"])),
        "detect_s": often_zero(1, 900),
        "replace_s": often_zero(1, 3000),
        "reload_s": often_zero(1, 900),
        "warmup_s": often_zero(1, 900),
        "step_s": between(0.5, interval_s * 1.5),
    }
    when: dict[str, Any] = {"mtbf_s": between(300, 40_000)}
    if draw.random() < 0.3:
        when["shape"] = between(0.5, 2)
    if draw.random() < 0.3:
        when["cluster_probability"] = 0.3
    if kind == "peers" or draw.random() < 0.3:
        how["peer_share"] = float(draw.choice([0.5, 0.95, 1.0]))
        how["peer_reload_s"] = often_zero(1, 100)
        how["peer_holds_newest"] = bool(draw.random() < 0.6)
    if kind == "spares" or (kind == "elastic" and draw.random() < 0.5):
        how["spares"] = Spares(int(draw.integers(0, 4)), often_zero(1, 60), often_zero(100, 100_000))
    if kind == "elastic":
        replicas = int(draw.integers(2, 9))
        how["elastic"] = Elastic(replicas, int(draw.integers(1, replicas + 1)), often_zero(1, 200))
    if kind == "corruption":
        when["corruption"] = Corruption(between(1000, 100_000), often_zero(10, 20_000))
        ladders = (None, Retention(1), Retention(3), Retention(5, between(500, 20_000)))
        how["retention"] = ladders[int(draw.integers(len(ladders)))]
    # Long enough for dozens of failures, short enough for logs of some hundred events.
    duration_s = min(between(1000, 200_000), 40 * when["mtbf_s"], 300 * interval_s)
    record_steps = int(draw.integers(1, 20)) if draw.random() < 0.4 else None
    if record_steps and duration_s / (how["step_s"] * record_steps) > 1000:
        record_steps = None
    return Case(Design(**how), Failures(**when), duration_s, int(draw.integers(0, 4)), record_steps)


def log_of(case: Case) -> tuple[list[KnownEvent], Accounts]:
    return simulate_log(
        case.design,
        case.failures,
        duration_s=case.duration_s,
        seed=11,
        run="r",
        index=case.place,
        record_steps=case.record_steps,
    )


def booked(events: Sequence[KnownEvent]) -> Ledger:
    ledger = Ledger()
    ledger.add(events)
    return ledger


@pytest.mark.parametrize("kind", KINDS)
def test_the_ledger_books_a_simulated_log_as_the_simulator_does(kind: str) -> None:
    happened: Counter[str] = Counter()
    for seed in range(NUM_DESIGNS):
        case = random_case(kind, seed)
        events, own = log_of(case)
        ledger = booked(events)
        assert ledger.runs() == ["r"], case
        books = ledger.books("r")
        accounts = books.accounts_us
        by_ledger = (accounts["kept"], accounts["checkpoint"], accounts["lost"], accounts["restart"], books.wall_us)
        assert Accounts(*by_ledger) == own, case
        assert ledger.set_aside("r") == {}, case
        many = simulate(case.design, case.failures, duration_s=case.duration_s, num_runs=4, seed=11)
        among = (many.kept_us, many.checkpoint_us, many.lost_us, many.restart_us)
        assert tuple(int(account[case.place]) for account in among) == by_ledger[:4], case
        if case.design.elastic is not None:
            assert books.gpu is not None
            assert books.gpu.kept / case.design.elastic.replicas == pytest.approx(many.useful_us[case.place], abs=1)
        happened.update(event.kind for event in events)
        happened.update(event.category for event in events if isinstance(event, Failure))
        happened.update(event.status for event in events if isinstance(event, RunEnd))
        happened["aborted save"] += books.subs_us["checkpoint/aborted"] > 0
        happened["in flight"] += books.subs_us["lost/in_flight"] > 0
        happened["from scratch"] += int(many.num_from_scratch[case.place])
    wanted = ["failure", "phase", "checkpoint.persisted", "aborted save", "in flight", "completed", "failed"]
    wanted += {"elastic": ["attempt.end"], "corruption": ["sdc", "from scratch", "rollback"]}.get(kind, [])
    assert {name: happened[name] for name in wanted if not happened[name]} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulated_log_survives_being_written_and_read_in_any_order(kind: str) -> None:
    for seed in range(5):
        case = random_case(kind, seed)
        events, own = log_of(case)
        read = [decode(line) for line in reversed([encode(event) for event in events])]
        ledger = Ledger()
        ledger.add(read)
        assert ledger.books("r").accounts_us["kept"] == own.kept_us
        assert ledger.books("r").accounts_us["lost"] == own.lost_us


def test_a_simulated_log_says_what_its_restarts_were() -> None:
    design = Design(
        interval_s=1000, blocking_s=20, detect_s=100, replace_s=200, reload_s=30, warmup_s=40, nodes=16, step_s=5
    )
    events, own = simulate_log(design, Failures(6 * 3600.0), duration_s=10 * 86_400, seed=2)
    ledger = booked(events)
    books, details = ledger.books("simulated"), ledger.details("simulated")
    assert books.subs_us["restart/other"] == books.subs_us["restart/stall"] == 0
    assert details.anomalies == []
    outcome = simulate(design, Failures(6 * 3600.0), duration_s=10 * 86_400, num_runs=1, seed=2)
    assert books.num_failures == outcome.num_failures[0] > 20
    assert own.kept_us == books.accounts_us["kept"]
    whole = [stop for stop in details.interruptions if stop.resumed_at_us is not None]
    assert {stop.phases_us["detect"] for stop in whole} == {100_000_000}
    assert {stop.phases_us["replace"] for stop in whole} == {200_000_000}
    assert {stop.phases_us["reload"] for stop in whole} == {30_000_000}
