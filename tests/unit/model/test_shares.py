"""Where the time goes at an interval: shares that sum to all of it, and that a simulated run ends up with."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tachograph_collector.model.shares import shares
from tachograph_collector.model.theory import asynchronous_goodput

TIMES = st.floats(1e-3, 1e7)


def simulated(tau: float, cost: float, restart: float, mtbf: float, failures: int, seed: int) -> dict[str, float]:
    """One long run, failure by failure: what each second was."""
    rng = random.Random(seed)
    spent = {"kept": 0.0, "checkpoint": 0.0, "lost": 0.0, "restart": 0.0}
    for _ in range(failures):
        left = rng.expovariate(1 / mtbf)
        spent["restart"] += min(restart, left)
        left = max(0.0, left - restart)
        saves = int(left // (tau + cost))
        spent["kept"] += saves * tau
        spent["checkpoint"] += saves * cost
        spent["lost"] += left - saves * (tau + cost)
    whole = sum(spent.values())
    return {name: amount / whole for name, amount in spent.items()}


@pytest.mark.parametrize(("tau", "cost", "restart", "mtbf"), [(180, 1, 30, 720), (20, 5, 60, 100), (600, 30, 0, 300)])
def test_the_shares_are_those_of_a_long_simulated_run(tau: float, cost: float, restart: float, mtbf: float) -> None:
    told = shares(tau, cost, restart, mtbf)
    found = simulated(tau, cost, restart, mtbf, 200_000, seed=1)
    for name, share in found.items():
        assert float(getattr(told, name)) == pytest.approx(share, abs=0.008), name


def test_the_example_of_the_docstring_holds() -> None:
    told = shares(180, 1, 30, 720)
    found = [round(float(each), 4) for each in (told.kept, told.checkpoint, told.lost, told.restart)]
    assert found == [0.8390, 0.0047, 0.1155, 0.0408]


@given(TIMES, TIMES, TIMES, TIMES, st.just(0.0) | TIMES)
def test_they_sum_to_all_of_the_time(tau: float, cost: float, restart: float, mtbf: float, persist: float) -> None:
    told = shares(tau, cost, restart, mtbf, persist)
    parts = [float(each) for each in (told.kept, told.checkpoint, told.lost, told.restart)]
    assert all(0 <= part <= 1 for part in parts)
    assert sum(parts) == pytest.approx(1, abs=1e-9)
    assert parts[0] == float(asynchronous_goodput(tau, cost, persist, restart, mtbf))
