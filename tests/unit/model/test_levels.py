"""Two checkpoint levels: the closed form against its Markov chain, solved, and against runs that are played out."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.levels import best_two_level, two_level_first_order, two_level_goodput
from tachograph_collector.model.theory import goodput

few = settings(deadline=None, max_examples=60, derandomize=True)


class Levels(NamedTuple):
    tau: float
    per_storage: int
    local_cost: float
    storage_cost: float
    local_restart: float
    storage_restart: float
    local_share: float
    mtbf: float


TYPICAL = Levels(8.5, 20, 0.05, 3, 6, 20, 0.9, 720)
HARSH = Levels(30, 4, 2, 9, 25, 60, 0.6, 90)


def solved(design: Levels) -> float:
    """Goodput from the chain of states (stretches banked, training or restarting), solved as linear equations."""
    tau, n, local_cost, storage_cost, local_restart, storage_restart, share, mtbf = design
    # Unknowns: time to the period's end from training with i banked (i), from a local restart there (n + i), and from a
    # storage restart (2 n).
    equations, right = np.eye(2 * n + 1), np.zeros(2 * n + 1)

    def stay(state: int, length: float, then: int | None, local: int) -> None:
        lasts = np.exp(-length / mtbf)
        right[state] = mtbf * (1 - lasts)
        if then is not None:
            equations[state, then] -= lasts
        equations[state, local] -= (1 - lasts) * share
        equations[state, 2 * n] -= (1 - lasts) * (1 - share)

    for i in range(n):
        cost = storage_cost if i == n - 1 else local_cost
        stay(i, tau + cost, i + 1 if i < n - 1 else None, n + i)
        stay(n + i, local_restart, i, n + i)
    stay(2 * n, storage_restart, 0, 2 * n)
    return float(n * tau / np.linalg.solve(equations, right)[0])


def played_out(design: Levels, num_failures: int, seed: int) -> tuple[float, float]:
    """Goodput of one long run, failure by failure, and its standard error from 50 batches."""
    tau, n, local_cost, storage_cost, local_restart, storage_restart, share, mtbf = design
    rng = np.random.default_rng(seed)
    gaps, is_local = rng.exponential(mtbf, num_failures), rng.random(num_failures) < share
    period = n * tau + (n - 1) * local_cost + storage_cost
    local, in_storage_restart, since, banked_total = True, False, 0, 0
    banked_at = np.empty(num_failures)
    for failure, (gap, next_is_local) in enumerate(zip(gaps.tolist(), is_local.tolist(), strict=True)):
        left = gap - (local_restart if local else storage_restart)
        in_storage_restart = left < 0 and not local
        if left >= 0:
            # Where in its period training resumes, then whole periods, then whole stretches of the last one.
            here = since * (tau + local_cost) + left
            periods, rest = divmod(here, period)
            stretches = min(int(rest // (tau + local_cost)), n - 1)
            banked_total += int(periods) * n + stretches - since
            since = stretches
        local = next_is_local and not in_storage_restart
        if not local:
            banked_total, since = banked_total - since, 0
        banked_at[failure] = banked_total
    batches = np.diff(np.append(0, banked_at[num_failures // 50 - 1 :: num_failures // 50]))
    walls = gaps.reshape(50, -1).sum(axis=1)
    share_kept = tau * batches.sum() / walls.sum()
    error = np.std(tau * batches - share_kept * walls) / np.sqrt(50) / walls.mean()
    return share_kept, float(error)


@few
@given(
    st.floats(0.01, 2),
    st.integers(1, 12),
    st.floats(0, 0.3),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 2),
    st.floats(0, 1),
)
def test_the_closed_form_solves_the_chain(
    tau: float,
    n: int,
    local_cost: float,
    storage_cost: float,
    local_restart: float,
    storage_restart: float,
    share: float,
) -> None:
    design = Levels(tau, n, local_cost, storage_cost, local_restart, storage_restart, share, 1)
    assert float(two_level_goodput(*design)) == pytest.approx(solved(design), rel=1e-7)


@pytest.mark.parametrize("design", [TYPICAL, HARSH, HARSH._replace(per_storage=1), HARSH._replace(local_share=0.1)])
def test_runs_that_are_played_out_keep_what_two_levels_promise(design: Levels) -> None:
    kept, error = played_out(design, 100_000, 8)
    assert error < 0.005
    assert abs(kept - float(two_level_goodput(*design))) < 4 * error


@few
@given(st.floats(0.01, 2), st.floats(0, 1), st.floats(0, 2), st.floats(0, 1))
def test_storage_every_time_with_one_restart_is_the_one_level_model(
    tau: float, cost: float, restart: float, share: float
) -> None:
    two = two_level_goodput(tau, 1, 0.01, cost, restart, restart, share, 1)
    assert float(two) == pytest.approx(float(goodput(tau, cost, restart, 1)), rel=1e-10)


@few
@given(st.floats(0.01, 0.5), st.integers(1, 20), st.floats(0, 0.05), st.floats(0, 1))
def test_local_saves_that_never_help_are_only_a_cost(
    tau: float, n: int, local_cost: float, storage_cost: float
) -> None:
    two = two_level_goodput(tau, n, local_cost, storage_cost, 0.3, 0.5, 0, 1)
    one = goodput(n * tau, (n - 1) * local_cost + storage_cost, 0.5, 1)
    assert float(two) == pytest.approx(float(one), rel=1e-9)


def test_local_saves_that_always_help_need_no_storage() -> None:
    two = two_level_goodput(8.5, 10**9, 0.05, 3, 6, 20, 1, 720)
    assert float(two) == pytest.approx(float(goodput(8.5, 0.05, 6, 720)), rel=1e-8)


@few
@given(st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter_to_two_levels(unit: float) -> None:
    scaled = two_level_goodput(8.5 * unit, 20, 0.05 * unit, 3 * unit, 6 * unit, 20 * unit, 0.9, 720 * unit)
    assert float(scaled) == pytest.approx(float(two_level_goodput(*TYPICAL)), rel=1e-9)


def test_hopeless_designs_keep_nothing_instead_of_overflowing() -> None:
    assert float(two_level_goodput(1e6, 1000, 1, 1, 1, 1, 0.5, 1)) == 0
    assert float(two_level_goodput(1, 10, 1, 1, 1, 1e6, 0.5, 1)) == 0
    assert float(two_level_goodput(1e6, 2, 1, 1, 1, 1, 1, 1)) == 0


def test_the_best_two_levels_are_a_maximum_near_the_first_orders_rule() -> None:
    best = best_two_level(0.05, 3, 6, 20, 0.9, 720)
    for tau, n in [(0.95, 0), (1.05, 0), (1, -2), (1, 2)]:
        other = two_level_goodput(best.tau * tau, best.per_storage + n, *TYPICAL[2:])
        assert float(other) < best.goodput
    tau, storage = two_level_first_order(0.05, 3, 0.9, 720)
    assert best.tau == pytest.approx(float(tau), rel=0.05)
    assert best.tau * best.per_storage == pytest.approx(float(storage), rel=0.05)


def test_no_design_of_a_wide_grid_beats_the_best() -> None:
    grid = two_level_goodput(np.geomspace(1, 300, 200)[:, None], np.arange(1, 60), *HARSH[2:])
    best = best_two_level(*HARSH[2:])
    assert best.goodput >= grid.max()
    assert best.goodput == pytest.approx(grid.max(), rel=1e-3)


def test_a_local_save_that_is_as_dear_as_storage_is_not_used() -> None:
    assert best_two_level(3, 3, 20, 20, 0.9, 720).per_storage == 1


def test_arrays_of_designs_equal_their_elements_one_by_one() -> None:
    taus, shares = np.array([[5.0], [20.0]]), np.array([0, 0.5, 1])
    table = two_level_goodput(taus, 10, 0.05, 3, 6, 20, shares, 720)
    assert table.shape == (2, 3)
    for row in range(2):
        for column in range(3):
            assert table[row, column] == two_level_goodput(taus[row, 0], 10, 0.05, 3, 6, 20, shares[column], 720)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two_level_goodput(0, *TYPICAL[1:]), "tau is 0; expected a number above 0"),
        (
            lambda: two_level_goodput(8.5, 2.5, *TYPICAL[2:]),
            "per_storage is 2.5; expected a whole number of at least 1",
        ),
        (lambda: two_level_goodput(8.5, 20, 0.05, 3, -6, 20, 0.9, 720), "local_restart is -6; expected 0 or more"),
        (
            lambda: two_level_goodput(8.5, 20, 0.05, 3, 6, 20, 90, 720),
            "local_share is 90; expected a share from 0 to 1",
        ),
        (lambda: two_level_first_order(4, 3, 0.9, 720), "local_cost is 4; expected at most storage_cost, here 3"),
        (lambda: best_two_level(0.05, 3, 6, 20, 1, 720), "local_share is 0 or 1; expected a share between them"),
        (lambda: best_two_level(0, 3, 6, 20, 0.9, 720), "local_cost is 0; expected a number above 0"),
    ],
)
def test_bad_levels_are_refused_by_name_with_what_is_accepted(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError) as error:
        call()
    assert message in str(error.value)
