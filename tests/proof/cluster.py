"""Two "nodes" on one machine: each with a spool, an agent and a torchrun of two ranks; and ways to disturb them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from collector_stub import StubCollector
from free_ports import free_port
from live_spool import rank_files
from own_account import Process, read_marks
from tachograph_agent.events import decode
from tachograph_collector.ledger import Ledger
from tachograph_collector.ledger.books import Books

RUN = "proof/tiny"
NODES = ("node-a", "node-b")
TRAIN = Path(__file__).with_name("train.py")
PATIENCE_S = 90.0
END_S = 300.0
"""The longest run's own length, with a start on a busy machine."""
OWN_KINDS = frozenset({"failure", "heartbeat", "health", "gap"})
"""What an agent says itself; all else a rank has said."""


def wait_for(what: str, ready: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Look again and again until it is so; fails with what was awaited."""
    until_s = time.monotonic() + patience_s
    while not ready():
        if time.monotonic() > until_s:
            raise AssertionError(f"waited {patience_s:.0f} s for {what}")
        time.sleep(0.02)


class Cluster:
    """Starts all of it, disturbs it, and gathers what came of it."""

    def __init__(self, directory: Path, collector: StubCollector) -> None:
        self.directory = directory
        self.collector = collector
        self.kills_s: list[float] = []
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._launchers: list[subprocess.Popen[bytes]] = []
        for name in ("marks", "checkpoints", *NODES):
            (directory / name).mkdir()
        words = ["the", "wheel", "turns", "and", "a", "pen", "draws", "each", "minute", "on", "paper"]
        text = " ".join(random.Random(7).choices(words, k=2000))
        (directory / "text.txt").write_text(text)

    # -- running ---------------------------------------------------------------------------------------------------

    def start_agent(self, node: str) -> None:
        spool = self.directory / node
        command = [sys.executable, "-m", "tachograph_agent.sidecar.main", "run", "--spool", str(spool), "--node", node]
        command += ["--collector", self.collector.url, "--flush", "1s", "--metrics", "off"]
        with (self.directory / f"agent-{node}.log").open("ab") as log:
            self._agents[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill_agent(self, node: str) -> None:
        agent = self._agents.pop(node)
        agent.kill()
        agent.wait()

    def train(
        self,
        *,
        steps: int = 40,
        save_every: int = 10,
        save_mode: str = "sync",
        write_s: float = 0.5,
        pause_s: float = 0.1,
        slow_rank: int = -1,
    ) -> None:
        """Start both launchers; they restart their ranks when any dies."""
        port = free_port()
        for node in NODES:
            command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2"]
            command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=proof"]
            command += [f"--rdzv-conf=is_host={int(node == NODES[0])},last_call_timeout=1", "--local-addr=127.0.0.1"]
            command += ["--max-restarts=3", str(TRAIN), str(self.directory)]
            command += [f"--steps={steps}", f"--save-every={save_every}", f"--save-mode={save_mode}"]
            command += [f"--write-s={write_s}", f"--pause-s={pause_s}", f"--slow-rank={slow_rank}"]
            env = {
                **os.environ,
                "TACHOGRAPH_RUN": RUN,
                "TACHOGRAPH_NODE": node,
                "TACHOGRAPH_SPOOL": str(self.directory / node),
                # A store of its own for each rendezvous: in a shared one a restart finds the keys of the start before.
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
                "PYTHONWARNINGS": "ignore",
            }
            with (self.directory / f"train-{node}.log").open("ab") as log:
                self._launchers.append(subprocess.Popen(command, stdout=log, stderr=log, env=env))

    def finish(self) -> None:
        """Wait for the training's end and until all of it is shipped, then stop the agents."""
        for launcher in self._launchers:
            status = launcher.wait(timeout=END_S)
            assert status == 0, self.logs()
        # What an agent ships within the seconds that it has to stop is another test's matter.
        wait_for("the agents to ship what the ranks wrote", lambda: not self.unshipped())
        for agent in self._agents.values():
            agent.send_signal(signal.SIGTERM)
        for node, agent in self._agents.items():
            assert agent.wait(timeout=60) == 0, (self.directory / f"agent-{node}.log").read_text()[-2000:]
        self._agents.clear()

    def stop(self) -> None:
        """End everything that still runs; ranks end with their launcher."""
        for process in [*self._launchers, *self._agents.values()]:
            if process.poll() is None:
                process.terminate()
        for process in [*self._launchers, *self._agents.values()]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            if process.poll() is None:
                process.kill()
                process.wait()

    def unshipped(self) -> list[Path]:
        """The ranks' files that are not confirmed yet: an agent deletes what the collector has."""
        return [path for node in NODES for path in rank_files(self.directory / node)]

    def wait_until_refused(self) -> None:
        """Until every agent has said that nobody takes its events."""
        logs = [self.directory / f"agent-{node}.log" for node in NODES]
        wait_for("agents without collector", lambda: all("events are not taken" in log.read_text() for log in logs))

    def logs(self) -> str:
        """The ends of what the launchers said."""
        return "\n".join((self.directory / f"train-{node}.log").read_text()[-3000:] for node in NODES)

    # -- disturbing ------------------------------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        return read_marks(self.directory / "marks")

    def latest(self, rank: int) -> Process | None:
        """The newest process of a rank."""
        return next((process for process in reversed(self.processes()) if process.rank == rank), None)

    def wait_for_step(self, number: int, rank: int = 0) -> Process:
        wait_for(f"step {number} of rank {rank}\n{self.directory}", lambda: self._has_done(rank, number))
        process = self.latest(rank)
        assert process is not None
        return process

    def _has_done(self, rank: int, number: int) -> bool:
        if any(launcher.poll() not in (None, 0) for launcher in self._launchers):
            raise AssertionError(f"training ended by itself\n{self.logs()}")
        process = self.latest(rank)
        return process is not None and bool(process.steps) and process.steps[-1][0] >= number

    def wait_for_save(self, number: int, rank: int = 0) -> Process:
        """Until that rank writes the save of that step."""

        def is_writing() -> bool:
            process = self.latest(rank)
            return process is not None and number in process.writing

        wait_for(f"the save of step {number}", is_writing)
        process = self.latest(rank)
        assert process is not None
        return process

    def kill(self, *processes: Process) -> None:
        """kill -9."""
        self.kills_s.append(time.monotonic())
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)

    # -- what came of it -------------------------------------------------------------------------------------------

    def events(self) -> list[dict]:
        """What the collector has, as plain objects."""
        return [json.loads(line) for line in self.collector.lines()]

    def books(self) -> Books:
        """The ledger's account of what the collector has."""
        ledger = Ledger()
        ledger.add([event for line in self.collector.lines() if (event := decode(line)).run == RUN])
        (run,) = ledger.runs()
        return ledger.books(run)

    def missing_or_double(self) -> list[str]:
        """Where what was shipped differs from what the ranks marked: each step and save once, of each process."""
        found = []
        said = [event for event in self.events() if event["kind"] not in OWN_KINDS]
        for line, count in Counter(json.dumps(event, sort_keys=True) for event in said).items():
            if count > 1:
                found.append(f"{count} times: {line}")
        shipped: Counter[tuple[int, str, int]] = Counter()
        for event in said:
            if event["kind"] in ("step", "checkpoint.start"):
                shipped[event["rank"], event["kind"], event["step"]] += 1
        marked: Counter[tuple[int, str, int]] = Counter()
        for process in self.processes():
            marked.update((process.rank, "step", number) for number, *_ in process.steps)
            marked.update((process.rank, "checkpoint.start", number) for number, *_ in process.saves)
        # A process that is killed between an event and its mark has done one of the two.
        slack = len(self.kills_s)
        differing = {key: (shipped[key], marked[key]) for key in shipped | marked if shipped[key] != marked[key]}
        by_rank = Counter(rank for rank, *_ in differing)
        if any(count > slack for count in by_rank.values()):
            found.append(f"shipped and marked differ: {differing}")
        return found

    def one_name_for_each_start(self) -> list[str]:
        """Where the ranks of one start do not share an attempt's name, or two starts do."""
        names = [
            (str(event["attempt"]), event["rank"], event["node"])
            for event in sorted(self.events(), key=lambda event: event["t"])
            if event["kind"] == "attempt.start"
        ]
        expected = {(rank, NODES[rank // 2]) for rank in range(4)}
        found = []
        for name in dict.fromkeys(name for name, *_ in names):
            who = Counter((rank, node) for each, rank, node in names if each == name)
            if set(who) != expected or max(who.values()) > 1:
                found.append(f"attempt {name}: {who}")
        return found
