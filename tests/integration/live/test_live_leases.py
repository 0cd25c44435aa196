"""Several collectors over one database: each run is folded by one, and who was paused too long writes nothing."""

from __future__ import annotations

import random

import pytest
from ledger_oracle.build import T0_US, Log
from ledger_oracle.generate import random_run
from ledger_oracle.order import at_us
from live_world import SECOND, World
from tachograph_collector.live import leases
from tachograph_collector.live.folder import RunFolder
from tachograph_collector.live.leases import LeaseLostError
from tachograph_collector.store.schema import books, minutes, revisions


def trained(run: str = "r", minutes: int = 3) -> Log:
    return Log(run).start(0).up(0, resume=0).steps(0, 1, 30 * minutes)


def test_paused_collector_with_an_old_fence_writes_nothing(world: World) -> None:
    world.receive(trained().events)
    world.at(T0_US + 200 * SECOND)
    run = world.run("r")
    with world.database.write() as connection:
        lease = leases.acquire(connection, run, "paused", world.clock.now_us)
    assert lease is not None
    paused = RunFolder(world.database, lease, "r", world.pace, lambda: world.clock.now_us)
    paused.open()
    paused.turn()
    world.take_over()  # its lease has run out while it did nothing; another folds on
    world.receive(Log("r").rollback(200, 30).events)
    world.wait(5)
    before = [world.rows(table, "r") for table in (books, minutes, revisions)]
    with pytest.raises(LeaseLostError):
        paused.save()
    with pytest.raises(LeaseLostError):
        paused.turn()
    assert [world.rows(table, "r") for table in (books, minutes, revisions)] == before
    world.check("r")


def test_lease_that_ran_out_still_holds_while_nobody_has_taken_it(world: World) -> None:
    world.receive(trained().events)
    run = world.run("r")
    with world.database.write() as connection:
        lease = leases.acquire(connection, run, "slow", world.clock.now_us)
        assert lease is not None
        assert leases.acquire(connection, run, "other", world.clock.now_us) is None
    world.at(world.clock.now_us + 60 * SECOND)
    with world.database.write() as connection:
        leases.hold(connection, lease, world.clock.now_us)
        assert leases.acquire(connection, run, "other", world.clock.now_us) is None


def test_runs_of_a_killed_collector_are_folded_by_another_within_15_seconds(world: World) -> None:
    world.receive(trained().events)
    world.at(T0_US + 181 * SECOND)
    world.settle()
    world.add_keeper()
    dead = world.keepers.pop(0)
    assert dead.snapshot().runs
    world.receive(Log("r").steps(180, 91, 97).events)
    world.wait(15)
    assert world.run("r") in world.keepers[0].snapshot().runs
    assert world.books("r").folded_seq == world.rows(books, "r")[0]["folded_seq"]
    world.check("r")


def test_of_a_dead_collectors_runs_those_with_news_are_taken_first(world: World) -> None:
    """A run that trained on waited for a thousand that had long been silent."""
    for name in ("silent-1", "busy", "silent-2"):
        world.receive(trained(name).events)
        world.at(world.clock.now_us + SECOND)
    world.at(T0_US + 181 * SECOND)
    world.settle()
    world.keepers.clear()
    world.receive(Log("busy").steps(180, 91, 97).events)
    world.at(world.clock.now_us + leases.LEASE_US)
    with world.database.read() as connection:
        found = leases.candidates(connection, world.clock.now_us, 3)
    assert [each.name for each in found] == ["busy", "silent-1", "silent-2"]


def test_collector_that_stops_gives_its_runs_away_at_once(world: World) -> None:
    world.receive(trained().events)
    world.at(T0_US + 181 * SECOND)
    world.settle()
    world.keepers.pop(0).close()
    world.add_keeper()
    world.wait(1)
    assert world.run("r") in world.keepers[0].snapshot().runs


@pytest.mark.parametrize("seed", range(20, 23))
def test_collectors_that_fight_for_a_run_book_it_once(world: World, seed: int) -> None:
    chance = random.Random(seed)
    world.add_keeper()
    events, _ = random_run(seed, most_acts=8)
    events = sorted(events, key=at_us)
    while events:
        size = chance.randrange(1, 60)
        batch, events = events[:size], events[size:]
        world.at(max(at_us(event) for event in batch) + 2 * SECOND)
        world.receive(batch)
        for _ in range(3):
            # A keeper that has its turn seldom loses its leases to the other, and finds out when it writes.
            world.at(world.clock.now_us + chance.choice([1, 1, 6]) * SECOND)
            chance.choice(world.keepers).round()
    world.take_over()
    world.check("sim")
    lost = sum(keeper.snapshot().counters.leases_lost for keeper in world.keepers)
    taken = sum(keeper.snapshot().counters.leases_taken for keeper in world.keepers)
    assert taken >= 1 + (lost > 0)


def test_run_that_breaks_the_ledger_is_set_aside_and_tried_again_and_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = RunFolder.turn

    def broken(self: RunFolder) -> object:
        if self.name == "bad":
            raise ZeroDivisionError("a defect")
        return turn(self)

    monkeypatch.setattr(RunFolder, "turn", broken)
    world.receive(trained("bad").events)
    world.receive(trained("good").events)
    world.at(T0_US + 190 * SECOND)
    world.wait(3)
    assert [aside.reason for aside in world.keepers[0].snapshot().set_aside.values()] == ["ZeroDivisionError: a defect"]
    assert len(world.minutes("good")) == 3
    monkeypatch.setattr(RunFolder, "turn", turn)
    world.wait(10)
    assert world.keepers[0].snapshot().set_aside == {}
    world.check("bad")
    world.check("good")


def test_collector_with_no_room_folds_what_it_can_and_says_how_many_wait(world: World) -> None:
    from live_world import hurried

    world.pace = hurried(max_runs=2)
    world.crash()
    for number in range(4):
        world.receive(trained(f"run-{number}").end(180).events)
    world.at(T0_US + 190 * SECOND)
    world.settle()
    assert len(world.keepers[0].snapshot().runs) <= 2
    assert world.keepers[0].snapshot().num_waiting >= 1
    world.wait(60)
    assert world.keepers[0].snapshot().num_waiting == 0
    for number in range(4):
        assert world.books(f"run-{number}").frozen_us is not None
