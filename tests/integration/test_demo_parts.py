"""The demo's parts that touch files, sockets and processes: the all-reduce, saves, and ways to disturb a training."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from demo import group as meeting
from demo.cluster import BadReads, Brake
from demo.group import Group
from demo.model import NUM_WEIGHTS, write_shard
from demo.train import KEPT_SAVES, checkpoint_of, newest_step, save


def test_every_rank_gets_the_same_sum(tmp_path: Path) -> None:
    def rank(number: int) -> list[float]:
        group = Group(number, 3, tmp_path / "meeting")
        total = group.sum(np.array([number, 10 * number], np.float32))
        group.barrier()
        group.close()
        return total.tolist()

    with ThreadPoolExecutor(3) as ranks:
        assert list(ranks.map(rank, range(3))) == [[3, 30]] * 3


def test_a_rank_whose_peer_is_gone_stands_before_it_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stood: list[bool] = []
    monkeypatch.setattr(meeting, "_stand", lambda: stood.append(True))

    def rank(number: int) -> bool:
        group = Group(number, 2, tmp_path / "meeting")
        if number:
            group.close()
            return True
        with pytest.raises(ConnectionError):
            group.barrier()
        group.close()
        return True

    with ThreadPoolExecutor(2) as ranks:
        assert all(ranks.map(rank, range(2)))
    assert stood == [True]


def test_the_newest_whole_save_is_gone_on_from_and_old_ones_go(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    assert newest_step(tmp_path) == 0
    weights = np.zeros(NUM_WEIGHTS, np.float32)
    for step in (25, 50, 75, 100):
        size = save(tmp_path, step, weights + step, weights)
        assert size == checkpoint_of(tmp_path, step).stat().st_size
    (tmp_path / "checkpoints" / "step-000125.new").write_bytes(b"cut sh")
    assert newest_step(tmp_path) == 100
    assert len(list((tmp_path / "checkpoints").glob("step-*.npz"))) == KEPT_SAVES
    with np.load(checkpoint_of(tmp_path, 100)) as state:
        assert state["weights"][0] == 100


def test_who_has_a_shard_mapped_reads_garbage_until_it_is_mended(tmp_path: Path) -> None:
    shard = tmp_path / "shard.npy"
    write_shard(shard, 0)
    good = shard.read_bytes()
    mapped = np.load(shard, mmap_mode="r")
    first = np.array(mapped[0])
    bad = BadReads(shard)
    assert np.allclose(mapped[0, :-1], 100 * first[:-1])
    assert mapped[0, -1] == first[-1]
    bad.mend()
    assert np.array_equal(mapped[0], first)
    assert shard.read_bytes() == good


def _state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _becomes(process: subprocess.Popen[bytes], states: str) -> bool:
    give_up_at = time.monotonic() + 60
    while _state(process) not in states and time.monotonic() < give_up_at:
        time.sleep(0.005)
    return _state(process) in states


def test_a_brake_stops_a_process_in_turns_and_lets_go_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Brake, "STOPPED_S", 0.0)
    monkeypatch.setattr(Brake, "RUNNING_S", 0.0)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        brake = Brake(process)
        brake.press()
        assert _becomes(process, "T")
        brake.press()
        assert _becomes(process, "SRD")
        brake.press()
        assert _becomes(process, "T")
        brake.let_go()
        assert _becomes(process, "SRD")
    finally:
        process.kill()
        process.wait()
