"""The ledger of real training that is killed, frozen and slowed agrees with the test's own account of it.

`make test-torch` runs these with short disturbances, `make proof` with ones as long as in earnest.
"""

from __future__ import annotations

import os
import signal
import time
from statistics import mean, median

import pytest
from cluster import Cluster
from own_account import own_account

TOLERANCE_S = 0.5
IN_EARNEST = os.environ.get("TACHOGRAPH_PROOF") == "long"
FREEZE_S = 45.0 if IN_EARNEST else 4.0
AWAY_S = 120.0 if IN_EARNEST else 3.0
PAUSE_S = 0.1
"""What a step takes at least."""


def agree(cluster: Cluster) -> None:
    """Each account within half a second, all that was said shipped once."""
    own = own_account(cluster.processes(), cluster.kills_s)
    books = cluster.books()
    ledgers = {account: us / 1e6 for account, us in books.accounts_us.items()}
    print({account: (round(own[account], 3), round(ledgers[account], 3)) for account in own})
    assert books.status == "completed"
    for account, seconds in own.items():
        assert ledgers[account] == pytest.approx(seconds, abs=TOLERANCE_S), (account, own, ledgers)
    assert cluster.missing_or_double() == []
    assert cluster.one_name_for_each_start() == []


@pytest.mark.parametrize("save_mode", ["sync", "async"])
def test_an_undisturbed_run_is_kept_but_for_its_saves(cluster: Cluster, save_mode: str) -> None:
    cluster.train(save_mode=save_mode)
    cluster.finish()
    agree(cluster)
    books = cluster.books()
    assert (books.num_failures, books.num_attempts, books.steps) == (0, 1, 40)
    assert books.accounts_us["lost"] == 0


def test_a_rank_killed_in_training_loses_the_work_since_the_last_save(cluster: Cluster) -> None:
    cluster.train(save_every=18)
    cluster.kill(cluster.wait_for_step(23, rank=3))
    cluster.finish()
    agree(cluster)
    books = cluster.books()
    assert (books.num_failures, books.num_attempts) == (1, 2)
    assert books.accounts_us["lost"] >= 4 * PAUSE_S * 1e6


def test_an_asynchronous_save_that_had_not_landed_saves_nothing(cluster: Cluster) -> None:
    cluster.train(save_mode="async", write_s=3.0, steps=30)
    cluster.wait_for_save(20)
    cluster.kill(cluster.wait_for_step(21))
    cluster.finish()
    agree(cluster)
    assert cluster.books().accounts_us["lost"] >= 11 * PAUSE_S * 1e6


def test_a_rank_killed_in_a_save_leaves_a_save_that_counts_for_nothing(cluster: Cluster) -> None:
    cluster.train(write_s=2.0, save_every=20)
    cluster.kill(cluster.wait_for_save(20))
    cluster.finish()
    agree(cluster)
    books = cluster.books()
    assert books.num_failures == 1
    assert books.subs_us["checkpoint/aborted"] > 0


def test_all_ranks_of_a_node_killed_are_one_failure(cluster: Cluster) -> None:
    cluster.train()
    cluster.wait_for_step(15, rank=2)
    cluster.kill(*(process for rank in (2, 3) if (process := cluster.latest(rank))))
    cluster.finish()
    agree(cluster)
    assert cluster.books().num_failures == 1


def test_a_frozen_rank_makes_one_long_step_of_all_ranks_and_no_failure(cluster: Cluster) -> None:
    cluster.train(save_every=100)
    frozen = cluster.wait_for_step(15, rank=2)
    os.kill(frozen.pid, signal.SIGSTOP)
    time.sleep(FREEZE_S)
    os.kill(frozen.pid, signal.SIGCONT)
    cluster.finish()
    agree(cluster)
    assert cluster.books().num_failures == 0
    for rank in range(4):
        assert len([event for event in steps_of(cluster, rank) if event["dur"] > 0.9 * FREEZE_S]) == 1


def test_busy_time_names_the_slow_rank_where_step_times_do_not(cluster: Cluster) -> None:
    # Long pauses, since the rest of a step takes as long as other processes let it, slow rank or not.
    cluster.train(slow_rank=2, pause_s=0.3, steps=20, save_every=100)
    cluster.finish()
    agree(cluster)
    busy_s = {rank: median(event["busy_s"] for event in steps_of(cluster, rank)) for rank in range(4)}
    others_s = [seconds for rank, seconds in busy_s.items() if rank != 2]
    assert busy_s[2] > 1.1 * max(others_s)
    wall_s = {process.rank: mean(process.step_seconds[1:]) for process in cluster.processes()}
    print("busy", busy_s, "wall", wall_s)
    assert max(wall_s.values()) < 1.03 * min(wall_s.values())


def steps_of(cluster: Cluster, rank: int) -> list[dict]:
    return [event for event in cluster.events() if event["kind"] == "step" and event["rank"] == rank]


def test_an_agent_killed_and_started_again_loses_and_repeats_nothing(cluster: Cluster) -> None:
    cluster.train()
    cluster.wait_for_step(12)
    cluster.kill_agent("node-a")
    cluster.wait_for_step(22)
    cluster.start_agent("node-a")
    cluster.finish()
    agree(cluster)
    assert cluster.books().num_failures == 0


def test_a_collector_that_is_away_for_a_while_misses_nothing(cluster: Cluster) -> None:
    cluster.train(steps=round(40 + (AWAY_S / PAUSE_S if IN_EARNEST else 0)))
    cluster.wait_for_step(8)
    cluster.collector.go_away()
    cluster.wait_until_refused()
    time.sleep(AWAY_S)
    cluster.collector.come_back()
    cluster.finish()
    agree(cluster)
