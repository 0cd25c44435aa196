"""torchrun with the handler registered tells how its workers ended, and when nodes joined, as torchelastic knows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cluster import END_S, wait_for
from free_ports import free_port

HANDLER = [sys.executable, "-m", "tachograph_agent.integrations.elastic", "--local-addr=127.0.0.1"]
KILLED_ONCE = """
import os, signal
if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
"""
RAISES = """
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    raise RuntimeError("made up for this test")
main()
"""
WAITS_FOR_A_SECOND_NODE = """
import os, pathlib, sys, time
if os.environ["GROUP_WORLD_SIZE"] == "1":
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(600)
"""


class Launchers:
    """Starts the handler in torchrun's place, each with a spool of its own."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack

    def start(self, node: str, script: str, *options: str, arguments: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        (self._directory / node).mkdir()
        path = self._directory / "script.py"
        path.write_text(script)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("TACHOGRAPH", "SLURM"))}
        env |= {"TACHOGRAPH_SPOOL": str(self._directory / node), "TACHOGRAPH_RUN": "run", "TACHOGRAPH_NODE": node}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        launcher = subprocess.Popen(
            [*HANDLER, *options, str(path), *arguments], env=env, stderr=subprocess.PIPE, text=True
        )
        self._stack.enter_context(launcher)
        self._stack.callback(launcher.terminate)
        return launcher

    def told(self, node: str) -> list[dict[str, Any]]:
        """What is in a node's spool, in the order of time."""
        files = (self._directory / node).glob("u*/agent/*.jsonl")
        return sorted(
            (json.loads(line) for file in files for line in file.read_text().splitlines()), key=lambda e: e["t"]
        )


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[Launchers]:
    with ExitStack() as stack:
        yield Launchers(tmp_path, stack)


def test_killed_worker_is_a_failure_by_rank_and_signal_and_the_restart_says_no_more(launchers: Launchers) -> None:
    launcher = launchers.start("node-a", KILLED_ONCE, "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    _, said = launcher.communicate(timeout=END_S)
    assert launcher.returncode == 0, said
    (failure,) = launchers.told("node-a")
    assert {name: failure[name] for name in ("kind", "run", "node", "rank", "signal")} == {
        "kind": "failure",
        "run": "run",
        "node": "node-a",
        "rank": 1,
        "signal": "SIGKILL",
    }


def test_workers_error_is_told_when_no_restart_is_left(launchers: Launchers) -> None:
    launcher = launchers.start("node-a", RAISES, "--standalone", "--nproc-per-node=1", "--max-restarts=0")
    _, said = launcher.communicate(timeout=END_S)
    assert launcher.returncode == 1
    assert "ChildFailedError" in said, "torchrun's own output stays"
    exited, error = launchers.told("node-a")
    assert (exited["kind"], exited["exit_code"], exited["rank"]) == ("failure", 1, 0)
    assert (error["detail"], error["category"]) == ("RuntimeError: made up for this test", "software")


def test_node_that_joins_ends_the_attempt_as_planned_on_the_node_that_was_there(
    launchers: Launchers, tmp_path: Path
) -> None:
    options = ["--nnodes=1:2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=grows", "--max-restarts=0"]
    options.append(f"--rdzv-endpoint=127.0.0.1:{free_port()}")
    is_up = tmp_path / "up"
    settings = "--rdzv-conf=is_host={},last_call_timeout=1"
    first = launchers.start("node-a", WAITS_FOR_A_SECOND_NODE, *options, settings.format(1), arguments=(str(is_up),))
    wait_for("the first node's worker", is_up.exists)
    second = launchers.start("node-b", WAITS_FOR_A_SECOND_NODE, *options, settings.format(0), arguments=(str(is_up),))
    for launcher in (second, first):
        _, said = launcher.communicate(timeout=END_S)
        assert launcher.returncode == 0, said
    (end,) = launchers.told("node-a")
    assert (end["kind"], end["planned"], end["reason"]) == ("attempt.end", True, "membership changed from 1 to 2 nodes")
    assert launchers.told("node-b") == []
