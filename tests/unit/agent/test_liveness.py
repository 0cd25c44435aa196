"""Liveness: a rank that ends without a good-bye is told as dead, once, in its own name; all others are not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_server.spools import T0, Collector, dead_file, event, loop_of, run_dry, step
from tachograph_agent.sidecar.loop import Loop
from tachograph_agent.spool import rankfile

NOW = T0 + 1000.0


def failures(collector: Collector) -> list[dict[str, Any]]:
    return [told for told in collector.events if told["kind"] == "failure"]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@contextmanager
def writer_of(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock of a segment, as a recorder does."""
    lock = "file = open(sys.argv[1], 'ab'); fcntl.lockf(file, fcntl.LOCK_EX)"
    script = f"import fcntl, sys; {lock}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child
        finally:
            child.kill()


def make(spool: Path, collector: Collector) -> Loop:
    return loop_of(spool, spool.parent / "state", collector)


def test_rank_that_dies_is_named_at_the_next_look(spool: Path) -> None:
    path = dead_file(spool, event("attempt.start", rank=3), step(1, rank=3), rank=3)
    collector = Collector()
    loop = make(spool, collector)
    with writer_of(path) as writer:
        loop.tick(0.0)
        assert failures(collector) == []
        writer.kill()
        writer.wait()
    loop.tick(0.25)
    loop.tick(0.5)
    (told,) = failures(collector)
    assert {name: told[name] for name in ("run", "attempt", "node", "rank", "category", "inferred", "t")} == {
        "run": "lab/run",
        "attempt": "1",
        "node": "n1",
        "rank": 3,
        "category": "unknown",
        "inferred": True,
        "t": NOW,
    }


def test_rank_that_died_while_no_agent_looked_died_when_it_last_wrote(spool: Path) -> None:
    path = dead_file(spool, step(1))
    os.utime(path, (T0 + 5, T0 + 5))
    collector = Collector()
    run_dry(make(spool, collector))
    assert failures(collector)[0]["t"] == T0 + 5


def test_death_is_never_before_the_last_event(spool: Path) -> None:
    path = dead_file(spool, step(50))
    os.utime(path, (T0 + 5, T0 + 5))
    collector = Collector()
    run_dry(make(spool, collector))
    assert failures(collector)[0]["t"] > T0 + 50


@pytest.mark.parametrize("last", ["recorder.end", "run.end", "attempt.end"])
def test_rank_whose_last_word_is_an_end_has_not_died(spool: Path, last: str) -> None:
    dead_file(spool, step(1), event(last, 2))
    collector = Collector()
    run_dry(make(spool, collector))
    assert failures(collector) == []


def test_rank_that_died_in_the_middle_of_its_good_bye_has_died(spool: Path) -> None:
    dead_file(spool, step(1), event("recorder.end", 2)[:-5])
    collector = Collector()
    run_dry(make(spool, collector))
    assert len(failures(collector)) == 1


def test_rank_that_went_on_in_the_next_segment_has_not_died(spool: Path) -> None:
    dead_file(spool, step(1), number=1)
    dead_file(spool, step(2), event("recorder.end", 3), number=2)
    collector = Collector()
    loop = make(spool, collector)
    loop.liveness._segment_bytes = 10
    run_dry(loop)
    assert failures(collector) == []


def test_rank_that_died_and_came_again_under_the_same_attempt_has_died_once(spool: Path) -> None:
    dead_file(spool, step(1), number=1)
    dead_file(spool, step(2), event("recorder.end", 3), number=2)
    collector = Collector()
    run_dry(make(spool, collector))
    assert len(failures(collector)) == 1


@pytest.mark.parametrize("num_turns", range(5))
def test_death_is_told_once_by_agents_that_die(spool: Path, num_turns: int) -> None:
    dead_file(spool, step(1))
    collector = Collector()
    for _ in range(3):
        loop = make(spool, collector)
        for turn in range(num_turns):
            loop.tick(turn * 10.0, drain=True)
        loop.follower.close()  # killed
    run_dry(make(spool, collector))
    assert len({(told["rank"], told["t"]) for told in failures(collector)}) == 1


def test_agent_that_dies_between_deciding_and_telling_tells_the_same(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_file(spool, step(1))
    first = make(spool, Collector())
    monkeypatch.setattr(first.own, "write", lambda *_, **__: False)
    first.tick(0.0)
    decided = next(iter(first.positions.marks.values())).died_unix_s
    first.follower.close()
    collector = Collector()
    run_dry(loop_of(spool, spool.parent / "state", collector, unix_clock=lambda: NOW + 77.0))
    assert [told["t"] for told in failures(collector)] == [round(decided, 6)]


def test_file_is_kept_until_its_death_is_told(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dead_file(spool, step(1))
    collector = Collector()
    loop = make(spool, collector)
    monkeypatch.setattr(loop.own, "write", lambda *_, **__: False)
    for turn in range(6):
        loop.tick(turn * 10.0, drain=True)
    assert path.exists()
    monkeypatch.undo()
    run_dry(loop, 100.0)
    assert not path.exists()
    assert len(failures(collector)) == 1


def test_full_disk_is_freed_of_a_dead_ranks_file_that_the_collector_has_and_the_death_is_told(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that waited for its death to be told kept the disk full, and the death from being told, for good."""
    path = dead_file(spool, step(1), step(2)[:-5])
    write = os.write

    def write_if_there_is_room(descriptor: int, data: bytes) -> int:
        if path.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(rankfile, "write", write_if_there_is_room)
    collector = Collector()
    run_dry(make(spool, collector))
    assert not path.exists()
    (told,) = failures(collector)
    assert told["rank"] == 0
    assert "as where a disk is full" in told["detail"]
    assert collector.kinds().count("step") == 1


def test_death_that_can_not_be_written_even_then_is_told_when_there_is_room(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_file(spool, step(1))
    collector = Collector()
    loop = make(spool, collector)

    def no_room(*_: object) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as full:
        full.setattr(rankfile, "write", no_room)
        for turn in range(6):
            loop.tick(turn * 10.0, drain=True)
    assert failures(collector) == []
    run_dry(loop, 100.0)
    assert len(failures(collector)) == 1


def test_agent_that_died_is_no_dead_rank(spool: Path) -> None:
    collector = Collector()
    first = make(spool, collector)
    spool.mkdir()
    first.own.write("health", check="disk")
    first.own.close()
    run_dry(make(spool, collector))
    assert collector.kinds() == ["health"]


def test_file_without_a_line_that_tells_whose_it_is_is_no_death(spool: Path) -> None:
    dead_file(spool, b"nonsense\n")
    collector = Collector()
    run_dry(make(spool, collector))
    assert collector.events == []


def test_live_runs_say_who_is_alive_and_the_last_step(spool: Path) -> None:
    path = dead_file(spool, event("attempt.start", rank=2), step(7, rank=2), rank=2)
    dead_file(spool, step(9, rank=1), event("recorder.end", 10, rank=1), rank=1)
    loop = make(spool, Collector())
    with writer_of(path):
        loop.tick(0.0)
        (live,) = loop.status.runs.values()
    assert (live.run, live.attempt, live.alive) == ("lab/run", "1", [2])
    assert live.step in (7, 9)
