"""The books in the tables are the pure ledger's of the same events, however these came, and whatever died meanwhile."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from ledger_oracle.build import T0_US, Log
from ledger_oracle.feeding import batches
from ledger_oracle.generate import random_run
from ledger_oracle.mess import MILD, messed
from ledger_oracle.order import at_us
from live_world import MINUTE, SECOND, World, hurried
from tachograph_agent.events import AnyEvent
from tachograph_collector.live import leases
from tachograph_collector.live.detecting import Moment
from tachograph_collector.live.folder import RunFolder
from tachograph_collector.live.pace import Pace


def play(world: World, events: list[AnyEvent], chance: random.Random, *, crashes: float = 0.0) -> None:
    """Let events come in batches, some of them late; keepers fold meanwhile and may die at any time."""
    events = sorted(events, key=lambda event: at_us(event) + chance.choice([0, 0, 0, 1, 40]) * SECOND)
    while events:
        size = chance.randrange(1, 60)
        batch, events = events[:size], events[size:]
        world.at(max(at_us(event) for event in batch) + 2 * SECOND)
        world.receive(batch)
        if chance.random() < 0.7:
            world.settle()
        if chance.random() < crashes:
            world.crash()
            if chance.random() < 0.5:
                world.take_over()
    world.take_over()


@pytest.mark.parametrize("seed", range(4))
def test_books_in_the_tables_are_the_pure_ledgers_however_events_come(world: World, seed: int) -> None:
    chance = random.Random(seed)
    events, _ = random_run(seed, most_acts=8)
    play(world, messed(events, chance, share=0.05, kinds=MILD), chance)
    world.check("sim")


@pytest.mark.parametrize("seed", range(4, 8))
def test_crash_at_any_fold_changes_nothing(world: World, seed: int) -> None:
    world.pace = hurried(save_every_us=5 * SECOND, save_share=1.0)
    chance = random.Random(seed)
    world.crash()
    events, _ = random_run(seed, most_acts=8)
    play(world, events, chance, crashes=0.2)
    world.check("sim")


def test_run_is_booked_minute_by_minute_while_it_runs(world: World) -> None:
    log = Log("r").start(0).up(0, resume=0).steps(0, 1, 150)
    for batch in batches(log.events, 4):
        world.at(at_us(batch[-1]) + SECOND)
        world.receive(batch)
        world.settle()
    world.wait(8, step_s=2)
    world.check("r")
    assert [minute.label for minute in world.minutes("r")] == ["kept"] * 5
    assert world.revisions("r") == []


def test_minute_is_booked_within_two_seconds_and_the_agents_delay(world: World) -> None:
    log = Log("r").start(0).up(0, resume=0).steps(0, 1, 29)
    for event in log.events:
        world.at(at_us(event) + 3 * SECOND)
        world.receive([event])
        world.settle()
    world.at(T0_US + 60 * SECOND + 3 * SECOND)
    world.receive(Log("r").step(60, 30).events)
    world.settle()
    world.wait(4)
    assert [minute.kept_us for minute in world.minutes("r")] == [MINUTE]


def test_what_working_out_and_judging_attempts_costs_is_at_most_its_share_of_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the working out was counted, and of a thousand restarts the judging and writing takes five times that."""
    world.receive(Log("r").start(0).up(0, resume=0).steps(0, 1, 10).events)
    world.at(T0_US + 21 * SECOND)
    with world.database.write() as connection:
        lease = leases.acquire(connection, world.run("r"), "one", world.clock.now_us)
    assert lease is not None
    spent_us = 0
    folder = RunFolder(world.database, lease, "r", Pace(), lambda: world.clock.now_us + spent_us)
    worked_out: list[int] = []
    real = folder.detecting.look

    def look(moment: Moment) -> None:
        nonlocal spent_us
        if moment.details is not None:
            worked_out.append(world.clock.now_us)
            spent_us += SECOND // 10
        real(moment)

    monkeypatch.setattr(folder.detecting, "look", look)
    folder.open()
    for step in range(11, 51):  # a step each second
        world.receive(Log("r").steps(19 + step, step, step).events)
        world.at(world.clock.now_us + SECOND)
        folder.turn()
    took_us = world.clock.now_us - worked_out[0]
    assert len(worked_out) > 5
    assert (len(worked_out) - 1) * SECOND / 10 <= Pace().details_share * took_us
    assert all(b - a <= 15 * SECOND for a, b in pairwise(worked_out))
