"""The cluster that this machine plays: a collector, nodes with an agent and ranks each, and ways to disturb them.

Everything is a process as it would be elsewhere. What is played: nodes share a machine and a network that is loopback,
and the agents don't look at the health of the node (``--no-health``), which is that of your machine.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from demo.processes import Process, end, spawn, tail

EXAMPLES = Path(__file__).parents[1]
THRESHOLDS = Path(__file__).with_name("thresholds.toml")
RUN = "demo"
STARTS_WITHIN_S = 60.0
LOOK_EVERY_S = 0.05
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SERVING = re.compile(r"serving (http://[^ ,]+)")


class BrokenDemoError(Exception):
    """The demo itself does not work here; the message says what, and the last that was said about it."""


class Collector:
    """``tachograph collector`` on a free port and a SQLite file in ``folder``; ready when it is made.

    ``check`` raises when the demo is to end, and is called while it is waited for; none is left behind then.
    """

    def __init__(self, folder: Path, check: Callable[[], None]) -> None:
        log = folder / "collector.log"
        program = str(Path(sys.executable).with_name("tachograph"))
        database = f"sqlite:///{folder / 'collector.db'}"
        command = [program, "collector", "--port", "0", "--database-url", database, "--thresholds", str(THRESHOLDS)]
        self._process = spawn(command, log, {})
        try:
            self.url = self._wait_for_url(log, check)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        end([self._process])

    def _wait_for_url(self, log: Path, check: Callable[[], None]) -> str:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while not (found := _SERVING.search(log.read_text(errors="replace"))):
            check()
            if self._process.poll() is not None or time.monotonic() > until_s:
                raise BrokenDemoError("the collector did not come up; it said:\n" + tail(log))
            time.sleep(LOOK_EVERY_S)
        return found[1]


class Node:
    """An agent, and the ranks that run here."""

    def __init__(self, name: str, folder: Path, collector_url: str) -> None:
        self.name = name
        self.ranks: dict[int, Process] = {}
        self._folder = folder
        self._spool = folder / name / "spool"
        self._spool.mkdir(parents=True)
        program = str(Path(sys.executable).with_name("tachograph-agent"))
        command = [program, "--spool", str(self._spool), "--node", name, "--collector", collector_url]
        command += ["--flush", "500ms", "--metrics", "off", "--no-health", "--min-free", "16M"]
        self._agent = spawn(command, folder / f"agent-{name}.log", {})

    def start(self, ranks: range, size: int, attempt: int) -> None:
        """Start these ranks of an attempt."""
        for rank in ranks:
            env = ONE_THREAD | {
                "PYTHONPATH": str(EXAMPLES),
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "TACHOGRAPH_RUN": RUN,
                "TACHOGRAPH_ATTEMPT": str(attempt),
                "TACHOGRAPH_NODE": self.name,
                "TACHOGRAPH_SPOOL": str(self._spool),
            }
            command = [sys.executable, "-m", "demo.train", str(self._folder)]
            self.ranks[rank] = spawn(command, self._folder / f"rank-{rank}.log", env)

    def freeze(self) -> None:
        """Stop everything at once, as a kernel that panics does: connections stay open and nobody answers."""
        for process in (self._agent, *self.ranks.values()):
            process.send_signal(signal.SIGSTOP)

    def power_off(self) -> None:
        """Kill everything, frozen or not."""
        end((self._agent, *self.ranks.values()), signal.SIGKILL)
        self.ranks.clear()

    def stop_ranks(self) -> None:
        """Tell the ranks to stop, and wait until they have."""
        end(self.ranks.values())
        self.ranks.clear()

    def stop(self) -> None:
        """End the ranks, and then the agent, which sends what is left first."""
        self.stop_ranks()
        end([self._agent])


class Brake:
    """Holds a process back until it is let go: it may run a quarter of the time. ``press`` wants to be called often."""

    STOPPED_S, RUNNING_S = 0.15, 0.05

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turns_s = 0.0
        self._is_stopped = False

    def press(self) -> None:
        """Stop it or let it run, as its turn is."""
        now_s = time.monotonic()
        if now_s >= self._turns_s:
            self._is_stopped = not self._is_stopped
            self._process.send_signal(signal.SIGSTOP if self._is_stopped else signal.SIGCONT)
            self._turns_s = now_s + (self.STOPPED_S if self._is_stopped else self.RUNNING_S)

    def let_go(self) -> None:
        """It runs as before."""
        self._process.send_signal(signal.SIGCONT)


class BadReads:
    """A shard whose file holds garbage until it is mended: all features are a hundred times what they should be."""

    def __init__(self, shard: Path) -> None:
        self._shard = shard
        self._good = shard.read_bytes()
        rows = np.load(shard, mmap_mode="r+")
        rows[:, :-1] *= 100
        rows.flush()

    def mend(self) -> None:
        """Put back what was there, in place: the ranks have the file mapped."""
        with self._shard.open("r+b") as file:
            file.write(self._good)
            file.flush()
            os.fsync(file.fileno())
