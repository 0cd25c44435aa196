"""Rule 10 of ``docs/ledger.md``: which GPUs are held at each time, and how many of them work.

Steps take 2 s and begin with second 0; GPU time is in GPU-seconds.
"""

from __future__ import annotations

import pytest
from ledger_oracle.answers import Answer, Read
from ledger_oracle.build import Log
from tachograph_collector.ledger import Ledger


def up(world: int | None = 4) -> Log:
    return Log().start(0).up(0, resume=0, world_size=world)


def gpu(answer: Answer, *names: str) -> list[float]:
    assert answer.gpu_us is not None
    return [answer.gpu_us[name] / 1e6 for name in names]


def test_part_of_an_allocation_can_be_taken_back(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8).steps(0, 1, 5).add("allocation.end", 10, gpus=3)
    assert gpu(read(log.steps(10, 6, 10).end(20)), "held", "kept", "idle") == [80 + 50, 80, 50]


@pytest.mark.parametrize("gpus", [8, 9, None])
def test_all_of_an_allocation_can_be_taken_back(read: Read, gpus: int | None) -> None:
    log = up().add("allocation.start", 0, gpus=8).steps(0, 1, 5).add("allocation.end", 10, gpus=gpus)
    assert gpu(read(log.end(20)), "held", "restart") == [80, 0]


def test_part_that_is_taken_back_twice_at_one_time_is_taken_once(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8).steps(0, 1, 5)
    log.add("allocation.end", 10, gpus=3).add("allocation.end", 10, gpus=3)
    assert gpu(read(log.steps(10, 6, 10).end(20)), "held") == [80 + 50]


def test_allocations_of_several_nodes_add_up(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8, node="a").add("allocation.start", 0, gpus=8, node="b")
    log.steps(0, 1, 5).add("allocation.end", 10, gpus=8, node="a").steps(10, 6, 10).end(20)
    assert gpu(read(log), "held", "idle") == [160 + 80, 120 + 40]


def test_end_that_names_no_node_ends_all(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8, node="a").add("allocation.start", 0, gpus=8, node="b")
    log.steps(0, 1, 5).add("allocation.end", 10).end(20)
    assert gpu(read(log), "held") == [160]


def test_end_of_a_node_that_was_never_given_ends_nothing(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8, node="a").steps(0, 1, 5).add("allocation.end", 10, node="b")
    assert gpu(read(log.steps(10, 6, 10).end(20)), "held") == [160]


def test_allocation_that_is_given_again_replaces_the_first(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8).steps(0, 1, 5).add("allocation.start", 10, gpus=16)
    assert gpu(read(log.steps(10, 6, 10).end(20)), "held", "idle") == [80 + 160, 40 + 120]


def test_allocation_of_unknown_size_counts_the_attempts_world(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8, node="a").add("allocation.start", 0, node="b").steps(0, 1, 5)
    assert gpu(read(log.end(10)), "held", "kept", "idle") == [40, 40, 0]


def test_world_larger_than_the_allocation_works_with_what_is_held(read: Read) -> None:
    log = up(world=16).add("allocation.start", 0, gpus=8).steps(0, 1, 5).end(10)
    assert gpu(read(log), "held", "kept", "idle") == [80, 80, 0]


def test_nothing_is_held_before_the_first_allocation(read: Read) -> None:
    log = up().add("allocation.start", 10, gpus=8).steps(20, 1, 5).end(30)
    assert gpu(read(log), "held", "restart", "kept") == [8 * 20, 80, 40]


def test_allocation_counts_from_its_own_time_on(read: Read) -> None:
    log = up(world=8).steps(0, 1, 5).add("allocation.start", 4, gpus=8).add("allocation.end", 7, gpus=8).end(10)
    assert gpu(read(log), "held", "kept") == [24, 24]


def test_held_gpus_are_all_restart_where_nothing_works(read: Read) -> None:
    log = Log().add("allocation.start", 0, gpus=8).start(0).up(10, resume=0, world_size=4).steps(20, 1, 5).end(30)
    assert gpu(read(log), "restart", "kept", "idle") == [8 * 20, 40, 40]


def test_world_of_the_run_counts_where_an_attempt_tells_none(read: Read) -> None:
    log = Log().start(0, world_size=6, gpus=12).up(0, resume=0).steps(0, 1, 5).end(10)
    assert gpu(read(log), "held") == [60]


def test_attempt_that_tells_no_world_has_that_of_the_one_before(read: Read) -> None:
    log = up().steps(0, 1, 5).failure(10).as_attempt(1).up(10, resume=5).steps(10, 6, 10).end(20)
    assert gpu(read(log), "held") == [80]


def test_gpu_time_is_unknown_where_it_is_unknown_for_a_part(read: Read) -> None:
    log = Log().start(0).up(0, resume=0).steps(0, 1, 5).failure(10).as_attempt(1).up(10, resume=5, world_size=4)
    assert read(log.steps(10, 6, 10).end(20)).gpu_us is None


def test_attempt_after_a_rollback_has_the_same_world(read: Read) -> None:
    log = up().steps(0, 1, 5).rollback(10, 3).steps(10, 4, 8).end(20)
    assert gpu(read(log), "held") == [80]


def test_world_that_several_ranks_tell_is_the_lowest_ranks(read: Read) -> None:
    log = Log().start(0).up(0, resume=0, rank=1, world_size=2).up(0.5, resume=0, rank=0, world_size=4)
    log.up(0.6, rank=2, world_size=8).steps(2, 1, 4).end(10)
    assert gpu(read(log), "held") == [40]


def test_allocation_told_late_changes_what_was_held() -> None:
    ledger = Ledger()
    ledger.add(up().steps(0, 1, 10).end(20).events)
    books = ledger.books("r")
    assert books.gpu is not None
    assert books.gpu.held == 80_000_000
    ledger.add(Log().add("allocation.start", 0, gpus=8).events)
    books = ledger.books("r")
    assert books.gpu is not None
    assert (books.gpu.held, books.gpu.idle) == (160_000_000, 80_000_000)


def test_world_told_late_changes_what_was_held() -> None:
    ledger = Ledger()
    log = Log().start(0).steps(0, 1, 10).end(20)
    ledger.add(log.events)
    assert ledger.books("r").gpu is None
    ledger.add(Log().up(0, resume=0, world_size=4).events)
    books = ledger.books("r")
    assert books.gpu is not None
    assert (books.gpu.held, books.gpu.kept) == (80_000_000, 80_000_000)


@pytest.mark.parametrize("order", [(8, 16, None), (None, 16, 8), (16, None, 8), (8, None, 16)], ids=str)
def test_of_allocations_that_are_one_the_first_in_canonical_order_counts(
    read: Read, order: tuple[int | None, ...]
) -> None:
    log = up()
    for gpus in order:
        log.add("allocation.start", 0, gpus=gpus)
    assert gpu(read(log.steps(0, 1, 5).end(10)), "held") == [160]  # as text, 16 comes before 8


def test_allocation_that_is_told_late_to_have_ended_within_a_stretch_changes_the_rest_of_it() -> None:
    ledger = Ledger()
    ledger.add(up().add("allocation.start", 0, gpus=8).steps(0, 1, 10).end(20).events)
    ledger.books("r")
    ledger.add(Log().add("allocation.end", 15, gpus=8).events)
    books = ledger.books("r")
    assert books.gpu is not None
    assert (books.gpu.held, books.gpu.kept, books.gpu.idle) == (120_000_000, 60_000_000, 60_000_000)


def test_node_of_unknown_size_that_was_given_back_counts_no_more(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8, node="a").add("allocation.start", 0, node="b").steps(0, 1, 5)
    log.add("allocation.end", 10, node="b").steps(10, 6, 10).end(20)
    assert gpu(read(log), "held", "idle") == [40 + 80, 40]


def test_what_is_given_after_all_was_taken_counts_alone(read: Read) -> None:
    log = up().add("allocation.start", 0, gpus=8, node="a").add("allocation.start", 0, node="b").steps(0, 1, 5)
    log.add("allocation.end", 10).add("allocation.start", 12, gpus=6, node="c").steps(12, 6, 9).end(20)
    assert gpu(read(log), "held") == [40 + 48]


def test_world_of_a_higher_rank_counts_where_the_lowest_tells_none(read: Read) -> None:
    log = Log().start(0).up(0, resume=0, rank=1, world_size=2).up(0.5, resume=0, rank=0).steps(2, 1, 4).end(10)
    assert gpu(read(log), "held") == [20]
