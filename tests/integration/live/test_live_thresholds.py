"""Thresholds are read from one file, again when it changes, and hold for runs that are under way."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_run import RUN, faulty_run
from ledger_oracle.build import T0_US
from live_world import SECOND, World
from tachograph_agent.events import AnyEvent, microseconds
from tachograph_collector.detect import SettingsError
from tachograph_collector.live.keeper import Keeper
from tachograph_collector.live.thresholds import ThresholdsFile
from tachograph_collector.store.incident_tables import incidents


def keeper_with(world: World, path: Path) -> Keeper:
    world.keepers.clear()
    keeper = Keeper(world.database, "t", world.pace, lambda: world.clock.now_us, ThresholdsFile(path))
    world.keepers.append(keeper)
    return keeper


def play(world: World, events: list[AnyEvent], until_s: int, begin_s: int = 0) -> None:
    for second in range(begin_s, until_s, 10):
        world.at(T0_US + (second + 10) * SECOND)
        low, high = T0_US + second * SECOND, T0_US + (second + 10) * SECOND
        told = [event for event in events if low <= microseconds(event.t) < high]
        if told:
            world.receive(told)
        world.settle()


def detectors_found(world: World) -> list[object]:
    return sorted(str(row["detector"]) for row in world.rows(incidents, RUN))


def test_thresholds_of_the_run_hold_and_change_while_it_runs(world: World, tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text(f'[[run]]\nmatch = "{RUN}"\nstraggler.raise_k = 5\n')
    keeper = keeper_with(world, path)
    events = faulty_run(last_step=120, ended=False)
    play(world, events, 430)
    assert detectors_found(world) == []
    path.write_text('[[run]]\nmatch = "someone else"\nstraggler.ratio = 3.0\n')
    play(world, events, 500, 430)
    assert "straggler" in detectors_found(world)  # what was flagged before counts: nothing was forgotten
    assert keeper.snapshot().thresholds.fault is None


def test_file_that_becomes_wrong_is_told_and_the_old_thresholds_hold(world: World, tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text("[hang]\nleast_s = 100000.0\n")
    keeper = keeper_with(world, path)
    events = faulty_run(last_step=80, ended=False)
    play(world, events, 400)
    endless, infinite = "[hang]\nleast_s = " + "9" * 5000, "[hang]\nleast_s = inf"
    for wrong in ("[hang]\nleast = 1\n", endless, infinite, "[hang\n", None):
        path.unlink() if wrong is None else path.write_text(wrong)
        world.wait(4)
        fault = keeper.snapshot().thresholds.fault
        assert fault is not None
        assert str(path) in fault
    assert keeper.snapshot().counters.thresholds_refused == 5
    world.wait(120, step_s=5)
    assert "hang" not in detectors_found(world)
    path.write_text("[hang]\nleast_s = 60.0\n")
    world.wait(30, step_s=5)
    assert "hang" in detectors_found(world)
    assert keeper.snapshot().thresholds.fault is None


@pytest.mark.parametrize("text", [None, "[hang\n", "[hang]\nleast = 1\n", '[[run]]\nmatch = "a"\nhang.least = 1\n'])
def test_file_that_is_wrong_from_the_start_is_refused_by_name(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "thresholds.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=r"thresholds\.toml"):
        ThresholdsFile(path)
