"""Peer copies: which failures leave one, counted by hand, by enumeration and by draws."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tachograph_collector.model.check import ModelError
from tachograph_collector.model.peers import copy_survival, group_survival, peer_restart, ring_holders, served_share
from tachograph_collector.model.theory import best_goodput, goodput, optimum

few = settings(deadline=None, max_examples=60, derandomize=True)


@few
@given(st.integers(1, 6), st.integers(2, 6), st.integers(1, 35))
def test_a_rack_leaves_a_copy_when_the_ring_steps_over_it(rack: int, num_racks: int, distance: int) -> None:
    nodes = rack * num_racks
    distance = 1 + distance % (nodes - 1) if nodes > 2 else 1
    survival = copy_survival(np.arange(nodes) // rack, ring_holders(nodes, distance))
    assert survival == (1 if rack <= distance <= nodes - rack else 0)


def test_a_node_always_leaves_its_copy_and_the_whole_job_never() -> None:
    assert copy_survival(np.arange(8), ring_holders(8, 1)) == 1
    assert copy_survival(np.zeros(8), ring_holders(8, 4)) == 0


def test_a_second_copy_in_another_rack_saves_what_the_first_does_not() -> None:
    racks = np.arange(8) // 2
    assert copy_survival(racks, ring_holders(8, 1)) == 0
    assert copy_survival(racks, ring_holders(8, 1, copies=2)) == 1


def test_domains_count_by_their_failure_rates() -> None:
    # Nodes 0 to 3 form one rack and hold each other's copies; 4 and 5 stand alone.
    racks, holders = [0, 0, 0, 0, 1, 2], [[1], [2], [3], [0], [5], [4]]
    assert copy_survival(racks, holders) == pytest.approx(2 / 6)
    assert copy_survival(racks, holders, [1, 1, 1, 1, 3, 3]) == pytest.approx(6 / 10)


def test_one_node_without_a_copy_is_enough_to_lose_the_domain() -> None:
    assert copy_survival([0, 0, 1, 1], [[2], [0], [0], [1]]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("nodes", "failed", "copies"), [(8, 2, 1), (8, 5, 1), (9, 3, 2), (9, 4, 2), (12, 7, 2), (6, 6, 1)]
)
def test_group_survival_is_the_count_of_all_sets_of_failed_nodes(nodes: int, failed: int, copies: int) -> None:
    size = copies + 1
    groups = [set(range(first, first + size)) for first in range(0, nodes, size)]
    sets = [set(chosen) for chosen in combinations(range(nodes), failed)]
    fine = sum(not any(group <= chosen for group in groups) for chosen in sets)
    assert float(group_survival(nodes, failed, copies)) == pytest.approx(fine / len(sets))


def test_fewer_failures_than_copies_always_leave_one_and_too_many_never() -> None:
    assert group_survival(1023, [0, 1, 2], 2) == pytest.approx([1, 1, 1])
    assert float(group_survival(16, 9)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("nodes", "failed"), [(1024, 64), (16_384, 400), (64, 31)])
def test_group_survival_holds_for_jobs_of_any_size(nodes: int, failed: int) -> None:
    # Pairs, one failure after the other: the next may not be a partner of those before.
    pairs = np.prod([(nodes - 2 * i) / (nodes - i) for i in range(failed)])
    assert float(group_survival(nodes, failed)) == pytest.approx(pairs, rel=1e-9)


def test_the_peers_restart_is_between_the_two_and_has_the_specifications_goodput() -> None:
    restart = peer_restart([0, 0.5, 0.95, 1], 5.6, 7.8, 720)
    assert restart[0] == pytest.approx(7.8)
    assert restart[-1] == pytest.approx(5.6)
    assert np.all(np.diff(restart) < 0)
    # Row 5 of the ladder, 12 h: asynchronous saves, persist 0.92.
    assert float(best_goodput(0.05, restart[2] + 0.92, 720)) == pytest.approx(0.979, abs=5e-4)


def test_a_mix_of_restarts_that_is_played_out_keeps_what_the_peers_restart_says() -> None:
    rng = np.random.default_rng(9)
    gaps, from_peer = rng.exponential(90, 400_000), rng.random(400_000) < 0.8
    tau = float(optimum(1, 90))
    kept = tau * np.floor(np.maximum(gaps - np.where(from_peer, 3, 60), 0) / (tau + 1))
    expected = float(goodput(tau, 1, peer_restart(0.8, 3, 60, 90), 90))
    error = np.std(kept - expected * gaps) / np.sqrt(gaps.size) / 90
    assert abs(kept.sum() / gaps.sum() - expected) < 4 * error


def test_arrays_of_peers_equal_their_elements_one_by_one() -> None:
    shares, slow = np.array([[0.5], [0.9]]), np.array([6.0, 30.0, 90.0])
    table = peer_restart(shares, 5, slow, 720)
    assert table.shape == (2, 3)
    assert table[1, 2] == peer_restart(0.9, 5, 90, 720)
    assert group_survival([8, 16], [[2], [3]]).shape == (2, 2)
    assert group_survival([8, 16], [[2], [3]])[1, 0] == group_survival(8, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ring_holders(8, 8), "distance is 8; expected one whose first 1 multiples are no multiples of 8"),
        (lambda: ring_holders(8, 4, copies=2), "distance is 4; expected one whose first 2 multiples"),
        (lambda: ring_holders(1, 1), "num_nodes is 1; expected a whole number of at least 2"),
        (lambda: ring_holders([8, 9], 1), "num_nodes is an array of shape (2,); expected one number"),
        (lambda: copy_survival([], [[1]]), "domains is an array of shape (0,); expected one domain per node"),
        (lambda: copy_survival([0, 1], [[1]]), "holders is an array of shape (1, 1); expected 2 nodes × their copies"),
        (lambda: copy_survival([0, 1], [[1], [2]]), "holders is 2; expected nodes from 0 to 1"),
        (lambda: copy_survival([0, 1], [[1], [0]], 0), "node_rates is all 0; expected at least one above 0"),
        (lambda: group_survival(15, 2), "num_nodes is 15; expected a multiple of 2, the size of a group"),
        (lambda: group_survival(16, 17), "num_failed is 17; expected at most num_nodes, here 16"),
        (lambda: served_share([1, 2], [1]), "survival has shape (1,); expected one number for each of 2 kinds"),
        (lambda: served_share([0, 0], [1, 1]), "failure_shares is all 0; expected at least one above 0"),
        (lambda: peer_restart(1.5, 5, 8, 720), "peer_share is 1.5; expected a share from 0 to 1"),
        (lambda: peer_restart(0.5, 5, -8, 720), "from_storage is -8; expected 0 or more"),
    ],
)
def test_bad_peers_are_refused_by_name_with_what_is_accepted(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError) as error:
        call()
    assert message in str(error.value)
