"""Simulated runs: what each part of a design does to them, and what is the same whatever one asks for."""

from __future__ import annotations

from dataclasses import fields, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tachograph_agent.events import AttemptStart
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.simulate import (
    Corruption,
    Design,
    Elastic,
    Failures,
    Outcome,
    Retention,
    Spares,
    simulate,
    simulate_log,
)
from tachograph_collector.model.simulate.history import History
from tachograph_collector.model.simulate.schedule import Schedule

DAY = 86_400.0
BLOCKING = Design(
    interval_s=2000, blocking_s=60, detect_s=300, replace_s=1200, reload_s=120, warmup_s=180, nodes=64, step_s=7
)
ASYNCHRONOUS = replace(BLOCKING, interval_s=500, blocking_s=3, persist_s=120)
OFTEN = Failures(4 * 3600.0)
CORRUPT = replace(OFTEN, corruption=Corruption(2 * DAY, 3600))

DESIGNS = {
    "blocking": (BLOCKING, OFTEN),
    "asynchronous": (ASYNCHRONOUS, OFTEN),
    "stalls": (replace(ASYNCHRONOUS, persist_s=1100), OFTEN),
    "skips": (replace(ASYNCHRONOUS, persist_s=1100, overrun="skip"), OFTEN),
    "peers": (replace(ASYNCHRONOUS, peer_share=0.7, peer_reload_s=10), OFTEN),
    "peers with the newest": (
        replace(ASYNCHRONOUS, persist_s=450, peer_share=0.7, peer_reload_s=10, peer_holds_newest=True),
        OFTEN,
    ),
    "pool of spares": (replace(BLOCKING, spares=Spares(2, swap_s=20, repair_s=8 * 3600.0)), OFTEN),
    "clusters": (BLOCKING, replace(OFTEN, cluster_probability=0.3)),
    "Weibull": (BLOCKING, replace(OFTEN, shape=0.6)),
}
OTHERS = {
    "elastic": (replace(BLOCKING, replace_s=9000, elastic=Elastic(8, 5, reconfigure_s=30)), OFTEN),
    "corruption": (replace(ASYNCHRONOUS, retention=Retention(5, 7200)), CORRUPT),
}


def same(one: Outcome, other: Outcome, runs: slice) -> bool:
    names = [field.name for field in fields(Outcome) if field.name not in ("wall_us", "hardware_share")]
    return all(np.array_equal(getattr(one, name)[runs], getattr(other, name)[runs]) for name in names)


def plain_simulator() -> Any:
    place = Path(__file__).parents[3] / "bench" / "plain_simulator.py"
    spec = spec_from_file_location("bench_plain_simulator", place)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", DESIGNS)
def test_a_plain_loop_over_failures_books_the_same_on_average(name: str) -> None:
    """Written by itself, other random numbers: each account within four standard errors of the difference."""
    design, failures = DESIGNS[name]
    ours = simulate(design, failures, duration_s=10 * DAY, num_runs=4000, seed=1)
    plain = np.array(plain_simulator().simulate(design, failures, duration_s=10 * DAY, num_runs=1000, seed=1))
    for account, theirs in zip(("kept_us", "checkpoint_us", "lost_us", "restart_us"), plain.T, strict=True):
        own = getattr(ours, account)
        error = (np.var(own) / len(own) + np.var(theirs) / len(theirs)) ** 0.5
        assert abs(np.mean(own) - np.mean(theirs)) < 4 * error, account


@pytest.mark.parametrize("name", [*DESIGNS, *OTHERS])
def test_a_run_is_the_same_among_any_number_of_runs(name: str) -> None:
    design, failures = (DESIGNS | OTHERS)[name]
    some = simulate(design, failures, duration_s=60 * DAY, num_runs=7, seed=3)
    many = simulate(design, failures, duration_s=60 * DAY, num_runs=300, seed=3)
    assert same(some, many, slice(7))
    _, accounts = simulate_log(design, failures, duration_s=60 * DAY, seed=3, index=250)
    assert accounts.kept_us == many.kept_us[250]
    assert accounts.lost_us == many.lost_us[250]


def test_runs_that_need_far_more_failures_than_expected_are_the_same_among_any_number_of_runs() -> None:
    """Weibull gaps of shape 0.25: some runs see many times as many failures as the mean gap says."""
    failures = Failures(DAY, shape=0.25)
    peers = replace(ASYNCHRONOUS, peer_share=0.5, peer_reload_s=0)
    some = simulate(peers, failures, duration_s=5 * DAY, num_runs=40, seed=3)
    many = simulate(peers, failures, duration_s=5 * DAY, num_runs=900, seed=3)
    assert same(some, many, slice(40))
    # 16 suffice for nearly all runs whose gaps are memoryless.
    assert some.num_failures.max() > 20
    assert many.num_failures.max() > 40


@pytest.mark.parametrize("name", [*DESIGNS, *OTHERS])
def test_accounts_are_whole_and_sum_to_the_wall_clock(name: str) -> None:
    design, failures = (DESIGNS | OTHERS)[name]
    outcome = simulate(design, failures, duration_s=3 * DAY, num_runs=500, seed=4)
    accounts = [outcome.kept_us, outcome.checkpoint_us, outcome.lost_us, outcome.restart_us]
    assert all(account.dtype == np.int64 and np.all(account >= 0) for account in accounts)
    assert outcome.wall_us == 3 * DAY * 1e6
    assert set(np.sum(accounts, axis=0)) == {outcome.wall_us}
    assert np.all(outcome.kept_s + outcome.checkpoint_s + outcome.lost_s + outcome.restart_s == pytest.approx(3 * DAY))


def test_seeds_give_the_same_runs_again_and_other_seeds_others() -> None:
    one, again, other = (simulate(BLOCKING, OFTEN, duration_s=DAY, num_runs=50, seed=seed) for seed in (1, 1, 2))
    assert same(one, again, slice(None))
    assert not np.array_equal(one.kept_us, other.kept_us)


def test_a_run_without_failures_only_trains_and_saves() -> None:
    never = Failures(1e14)
    outcome = simulate(BLOCKING, never, duration_s=10 * 2060 + 500, num_runs=3, seed=1)
    # 500 s are 71 of the steps of 2000/286 s, and the one in flight.
    one_us = round(2000e6 / 286)
    assert set(outcome.checkpoint_us) == {600_000_000}
    assert set(outcome.kept_us) == {(10 * 286 + 71) * one_us}
    assert set(outcome.lost_us) == {0}
    assert set(outcome.num_failures) == {0}


def test_a_spare_that_is_always_free_saves_the_wait_and_none_saves_nothing() -> None:
    def goodput(spares: Spares | None) -> float:
        design = replace(BLOCKING, spares=spares)
        return simulate(design, OFTEN, duration_s=30 * DAY, num_runs=300, seed=1).goodput

    none, zero = goodput(None), goodput(Spares(0, swap_s=20))
    assert none == zero
    free = goodput(Spares(1, swap_s=20, charged=False))
    assert free == goodput(Spares(1, swap_s=20, repair_s=1e-6, charged=False))
    pools = [goodput(Spares(count, swap_s=20, repair_s=12 * 3600.0, charged=False)) for count in (1, 2, 4, 12)]
    assert [none, *pools, free] == sorted([none, *pools, free])
    # Three repairs are under way on average: a dozen spares are as good as any number.
    assert free - pools[-1] < 0.001 < pools[1] - pools[0]
    assert goodput(Spares(1, swap_s=20)) == pytest.approx(free * 64 / 65)


def test_a_peer_that_holds_the_newest_snapshot_saves_the_write_that_was_under_way() -> None:
    def outcome(*, newest: bool) -> Outcome:
        design = replace(ASYNCHRONOUS, persist_s=450, peer_share=1, peer_reload_s=0, peer_holds_newest=newest)
        return simulate(design, OFTEN, duration_s=30 * DAY, num_runs=300, seed=1)

    older, newest = outcome(newest=False), outcome(newest=True)
    saved_s = (np.sum(older.lost_s) - np.sum(newest.lost_s)) / np.sum(older.num_failures)
    # It counts if a failure strikes within 450 s of the end of a save, in rounds of 503 s after a restart of 1680 s.
    reach_a_save = np.exp(-(1680 + 503) / OFTEN.mtbf_s)
    while_it_is_written = np.expm1(-450 / OFTEN.mtbf_s) / np.expm1(-503 / OFTEN.mtbf_s)
    assert saved_s == pytest.approx(500 * reach_a_save * while_it_is_written, rel=0.02)


def test_failures_in_restarts_count_and_start_them_anew() -> None:
    hard = Failures(1500)
    outcome = simulate(BLOCKING, hard, duration_s=DAY, num_runs=500, seed=1)
    assert np.mean(outcome.num_failures) == pytest.approx(DAY / 1500, rel=0.02)
    # P(a restart of 1800 s is survived) = exp(-1800/1500): most end in another failure.
    assert np.mean(outcome.restart_us) / outcome.wall_us > 0.65


def test_an_elastic_run_goes_on_with_as_few_replicas_as_it_may_and_no_fewer() -> None:
    design = replace(BLOCKING, replace_s=9000, elastic=Elastic(8, 5, reconfigure_s=30))
    events, _ = simulate_log(design, Failures(2000), duration_s=30 * DAY, seed=1)
    assert {event.world_size for event in events if isinstance(event, AttemptStart)} == {5, 6, 7, 8}
    rigid = replace(design, elastic=Elastic(8, 8, reconfigure_s=30))
    waiting = replace(design, elastic=None)
    one, other = (simulate(how, OFTEN, duration_s=30 * DAY, num_runs=50, seed=1) for how in (rigid, waiting))
    assert same(one, other, slice(None))


def test_a_crash_that_goes_back_to_before_a_corruption_heals_it() -> None:
    """Corruption is noticed after ten mean gaps between crashes. It lives to be noticed only in saves."""
    failures = Failures(3600, corruption=Corruption(3 * 3600.0, 36_000))

    def noticed(interval_s: float) -> float:
        design = Design(interval_s=interval_s, blocking_s=1, reload_s=1)
        outcome = simulate(design, failures, duration_s=20 * DAY, num_runs=50, seed=1)
        alone = simulate(design, Failures(3600), duration_s=20 * DAY, num_runs=50, seed=1)
        return float(np.mean(outcome.num_failures - alone.num_failures))

    assert noticed(20 * DAY) < 0.1
    # Every 13 h one strikes and is noticed, 1 in 60 heals before the next save: 37 in 20 days.
    assert noticed(120) == pytest.approx(36, rel=0.05)


def test_quotients_of_whole_numbers_are_exact() -> None:
    """Times are float64: of 2 million (time, round) pairs, hostile ones among them, each is rounded as in integers."""
    draw = np.random.default_rng(1)
    rounds = [int(r) for r in np.exp(draw.uniform(0, np.log(1e12), 200))]
    for round_us in rounds:
        schedule = Schedule(round_us, 1, 1, 0, 0, 0)
        most = 2**51 // round_us
        near = draw.integers(0, most + 1, 5000) * round_us
        times = np.concatenate([near, np.maximum(near - 1, 0), near + 1, draw.integers(0, 2**51, 1000)])
        assert np.array_equal(schedule.saves(times.astype(np.float64)), times // round_us)


@pytest.mark.parametrize("seed", range(4))
def test_the_history_of_saves_goes_back_where_a_list_of_all_saves_would(seed: int) -> None:
    draw = np.random.default_rng(seed)
    schedule = Schedule.of(replace(ASYNCHRONOUS, interval_s=float(draw.uniform(50, 400)), persist_s=300))
    retention = Retention(int(draw.integers(1, 8)), [None, 900.0, 3000.0, 20_000.0][seed])
    runs, now = 12, np.zeros(12)
    history = History(runs, schedule, retention)
    kept: list[list[tuple[float, float]]] = [[] for _ in range(runs)]
    from_scratch = 0
    for _ in range(150):
        landed = np.floor(draw.exponential(6, runs))
        history.bank(now, landed)
        for run in range(runs):
            base = kept[run][-1][1] if kept[run] else 0.0
            for save in np.arange(1, landed[run] + 1):
                ends_us, steps = now[run] + schedule.end_us(save), base + schedule.steps_at(save)
                kept[run].append((float(ends_us), float(steps)))
                kept[run] = retained(kept[run], retention)
        now = now + schedule.end_us(landed + 1) + draw.integers(1, 10**9, runs)
        which = np.flatnonzero(draw.random(runs) < 0.2)
        corrupt = now[which] - np.floor(draw.exponential(5e9, len(which)))
        scratch = history.go_back(which, corrupt)
        for run, since, is_scratch in zip(which.tolist(), corrupt, scratch, strict=True):
            kept[run] = [save for save in kept[run] if save[0] <= since]
            assert is_scratch == (not kept[run])
        from_scratch += int(np.sum(scratch))
        assert history.steps.tolist() == [saves[-1][1] if saves else 0 for saves in kept]
    assert from_scratch > 0


def retained(saves: list[tuple[float, float]], retention: Retention) -> list[tuple[float, float]]:
    """Of a list of (end, steps), what is left after each new save."""
    old, new = saves[: -retention.last], saves[-retention.last :]
    if retention.every_s is None:
        return new
    spans = [end // (retention.every_s * 1e6) for end, _ in saves]
    return [save for k, save in enumerate(old) if k == 0 or spans[k] != spans[k - 1]] + new


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: replace(BLOCKING, interval_s=0), "interval_s is 0"),
        (lambda: replace(BLOCKING, blocking_s=-1), "blocking_s is -1"),
        (lambda: replace(BLOCKING, persist_s=float("nan")), "persist_s is nan"),
        (lambda: replace(BLOCKING, overrun=cast("Any", "queue")), "overrun is 'queue'; expected 'stall' or 'skip'"),
        (lambda: replace(BLOCKING, peer_share=95), "peer_share is 95; expected a share from 0 to 1"),
        (lambda: replace(BLOCKING, nodes=0), "nodes is 0"),
        (lambda: Elastic(4, 5), "elastic.min_replicas is 5; expected at most replicas, 4"),
        (lambda: Retention(0), "retention.last is 0"),
        (lambda: Spares(-1, 20), "spares.count is -1"),
        (lambda: Failures(0), "mtbf_s is 0"),
        (lambda: Failures(10, cluster_probability=1.2), "cluster_probability is 1.2"),
        (lambda: simulate(BLOCKING, OFTEN, duration_s=DAY, num_runs=0, seed=1), "num_runs is 0"),
        (lambda: simulate(BLOCKING, OFTEN, duration_s=DAY, num_runs=1, seed=-1), "seed is -1"),
        (lambda: simulate(BLOCKING, OFTEN, duration_s=-DAY, num_runs=1, seed=1), "duration_s is -86400"),
        (
            lambda: simulate(BLOCKING, OFTEN, duration_s=1e12, num_runs=1, seed=1),
            "duration_s is 1e[+]12; expected at most",
        ),
        (lambda: simulate(BLOCKING, Failures(0.01), duration_s=DAY, num_runs=1, seed=1), "mtbf_s is too short"),
        (
            lambda: simulate(OTHERS["elastic"][0], CORRUPT, duration_s=DAY, num_runs=1, seed=1),
            "elastic can't be simulated with corruption",
        ),
        (lambda: simulate_log(BLOCKING, OFTEN, duration_s=DAY, seed=1, record_steps=0), "record_steps is 0"),
        (
            lambda: simulate(BLOCKING, OFTEN, duration_s=DAY, num_runs=1, seed=1).goodput_interval(),
            "num_runs is 1; expected at least 2",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(wrong: Any, named: str) -> None:
    with pytest.raises(ModelError, match=named):
        wrong()
