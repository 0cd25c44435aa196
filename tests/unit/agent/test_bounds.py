"""Bounds: step samples go first, lifecycle events last, a gap says how many and whose; what is in use stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from agent_server.spools import T0, Collector, dead_file, event, loop_of, run_dry, step
from tachograph_agent.sidecar.bounds import Keeper
from tachograph_agent.sidecar.config import Bounds
from tachograph_agent.sidecar.ship import Answer, Fate

NOW = T0 + 1000.0
AWAY = [Answer(Fate.LATER, "away")] * 3


class Case:
    """Three ranks' closed files of a day without a collector."""

    def __init__(self, tmp_path: Path, **bounds: Any) -> None:
        self.spool = tmp_path / "spool"
        self.paths = []
        for rank in range(3):
            steps = [step(n, rank=rank) for n in range(1, 101)]
            save = event("checkpoint.persisted", 200, rank=rank, step=100)
            path = dead_file(self.spool, *steps, save, event("recorder.end", 201, rank=rank), rank=rank)
            os.utime(path, (NOW - 100 + rank, NOW - 100 + rank))
            self.paths.append(path)
        self.size = sum(path.stat().st_size for path in self.paths)
        self.free = 10**12
        self.collector = Collector(*AWAY)
        self.loop = loop_of(self.spool, tmp_path / "state", self.collector, batch_bytes=2000)
        self.loop.tick(0.0, drain=True)
        self.loop.tick(0.0, drain=True)
        defaults = {"max_bytes": 10**9, "max_age_s": 10**6, "min_free_bytes": 0}
        self.keeper = Keeper(
            self.loop, Bounds(**{**defaults, **bounds}), free_bytes=lambda: self.free, unix_clock=lambda: NOW
        )

    def shipped(self) -> list[dict[str, Any]]:
        """What the collector has when it is back."""
        self.collector.answers.clear()
        run_dry(self.loop, 1000.0)
        return self.collector.events


def kinds_of(events: list[dict[str, Any]], rank: int) -> list[str]:
    return sorted({told["kind"] for told in events if told.get("rank") == rank})


def test_within_bounds_nothing_goes(tmp_path: Path) -> None:
    case = Case(tmp_path)
    assert case.keeper.keep() == 0
    assert len([told for told in case.shipped() if told["kind"] == "step"]) == 300


@pytest.mark.parametrize("how", ["size", "free space"])
def test_step_samples_of_the_oldest_go_first_and_lifecycle_events_stay(tmp_path: Path, how: str) -> None:
    case = Case(tmp_path)
    in_use = {path for path in case.paths for name in case.loop.segments_in_use() if name.endswith(path.name)}
    if how == "size":
        case.keeper._bounds = Bounds(case.size - 1000, 10**6, 0)
    else:
        case.keeper._bounds = Bounds(10**9, 10**6, 10**12)
        case.free = 10**12 - 1000
        # The disk is as free as what was deleted makes it.
        case.keeper._free_bytes = lambda: (
            case.free + case.size - sum(p.stat().st_size for p in case.paths if p.exists())
        )
    case.keeper.keep()
    gone = [path for path in case.paths if not path.exists()]
    assert len(gone) == 1
    assert gone[0] not in in_use
    rank = case.paths.index(gone[0])
    events = case.shipped()
    assert kinds_of(events, rank) == ["checkpoint.persisted", "gap", "recorder.end"]
    (gap,) = [told for told in events if told["kind"] == "gap"]
    assert (gap["dropped"], gap["since"], gap["run"], gap["rank"]) == (100, T0 + 1, "lab/run", rank)
    assert case.loop.counters.dropped == {"step": 100, "lifecycle": 0}
    assert len([told for told in events if told["kind"] == "step"]) == 200


def test_lifecycle_events_go_when_nothing_else_is_left_and_are_counted(tmp_path: Path) -> None:
    case = Case(tmp_path, max_bytes=1)
    num_free = len(case.paths) - len(case.loop.segments_in_use())
    assert num_free
    case.keeper.keep()
    assert [path.exists() for path in case.paths].count(False) == num_free
    assert case.loop.counters.dropped["step"] == 100 * num_free
    assert case.loop.counters.dropped["lifecycle"] >= 2 * num_free
    assert any("lifecycle" in told["detail"] for told in case.shipped() if told["kind"] == "gap")


def test_segment_in_use_is_never_touched(tmp_path: Path) -> None:
    case = Case(tmp_path, max_bytes=1)
    names = case.loop.segments_in_use()
    assert names
    case.keeper.keep()
    assert all((case.spool / name).exists() for name in names)


def test_segment_that_is_written_is_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(tmp_path, max_bytes=1)
    monkeypatch.setattr(case.loop.follower, "is_written", lambda _: True)
    case.keeper.keep()
    assert all(path.exists() for path in case.paths)


def test_what_is_too_old_goes_whole(tmp_path: Path) -> None:
    case = Case(tmp_path, max_age_s=98.5)
    oldest = case.paths[0]
    expected = [path.exists() for path in case.paths]
    case.keeper.keep()
    left = [path.exists() for path in case.paths]
    assert all(expected)
    in_use = any(name.endswith(oldest.name) for name in case.loop.segments_in_use())
    assert left[2]
    assert left[0] == in_use
    gaps = [told for told in case.shipped() if told["kind"] == "gap"]
    assert sum(gap["dropped"] for gap in gaps) == 102 * left.count(False)


def test_lifecycle_events_that_find_no_room_are_not_given_up_for_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path)
    monkeypatch.setattr(case.loop.own, "keep", lambda _: False)
    assert case.keeper._free(1, case.keeper._thin) == 0
    assert all(path.exists() for path in case.paths)
