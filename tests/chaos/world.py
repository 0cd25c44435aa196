"""A small world that can be broken: two nodes with their agents, collectors, a database, and the network between them.

Everything is a real process: ``tachograph-agent``, ``tachograph collector``, PostgreSQL. ``faults`` are the ways in
which it can be broken; each breaks something, lets it be for a moment, and sees to it that it can go on.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.proxy import Mode, Proxy, Target
from chaos.recorded import RUN, Line
from databases import PostgreSQLServer
from free_ports import free_port
from live_spool import rank_files
from tachograph_agent.spool.layout import attempt_directory
from tachograph_agent.spool.rankfile import RankFile

_PROGRAMS: Final = Path(sys.executable).parent
_SPOOL_SEGMENT_BYTES: Final = 48 * 1024
"""Small, so that segments end and are deleted while things break."""


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Process:
    """One program that may be killed and started again."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, without waiting until it is up."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def end(self, how: signal.Signals, timeout_s: float = 60) -> int:
        """End it and give its exit status."""
        assert self._process is not None
        self.signal(how)
        self.signal(signal.SIGCONT)
        return self._process.wait(timeout_s)

    def revive(self) -> None:
        """Start it if it has ended, as whatever supervises it would."""
        if self._process is None or self._process.poll() is not None:
            self.start()


@dataclass
class Node:
    """One node: its spool, its agent, and the ranks' files that the recording is written to."""

    name: str
    spool: Path
    agent: Process
    files: dict[tuple[str, int], RankFile] = field(default_factory=dict)

    def write(self, line: Line) -> None:
        """Append one line to its rank's file, as the recorder does; the last one lets the file go."""
        key = (line.attempt, line.rank)
        if key not in self.files:
            directory = attempt_directory(self.spool, RUN, line.attempt)
            self.files[key] = RankFile(self.spool, directory, line.rank, _SPOOL_SEGMENT_BYTES)
        assert self.files[key].append(line.text), f"{self.name}: a line was not written"
        if line.event["kind"] == "recorder.end":
            self.files.pop(key).close()

    def unshipped(self) -> list[Path]:
        """Files of ranks that are still in the spool; the agent deletes one once all of it is stored."""
        return rank_files(self.spool)


class World:
    """All of it. ``postgresql`` None: one collector over a SQLite file; else two over the server."""

    def __init__(self, folder: Path, postgresql: PostgreSQLServer | None, names: tuple[str, ...], seed: int) -> None:
        self.chance = random.Random(seed)
        self.postgresql = postgresql
        self.folder = folder
        self.proxies: list[Proxy] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHOGRAPH", "SLURM"))}
        self._environment = kept
        self.ports = [free_port() for _ in range(1 if postgresql is None else 2)]
        self.to_database = [] if postgresql is None else [self._proxy(self._database_socket) for _ in self.ports]
        self.collectors = [self._collector(number) for number in range(len(self.ports))]
        self.to_collectors = [self._proxy(self._collector_ports) for _ in names]
        self.nodes = [self._node(name, proxy.port) for name, proxy in zip(names, self.to_collectors, strict=True)]

    def _proxy(self, targets: Callable[[], list[Target]]) -> Proxy:
        self.proxies.append(Proxy(targets))
        return self.proxies[-1]

    def _database_socket(self) -> list[Target]:
        assert self.postgresql is not None
        return [str(self.postgresql.folder / ".s.PGSQL.5432")]

    def _collector_ports(self) -> list[Target]:
        return [("127.0.0.1", port) for port in self.ports]

    def _collector(self, number: int) -> Process:
        if self.postgresql is None:
            url = f"sqlite:///{self.folder / 'collector.db'}"
        else:
            url = f"postgresql://postgres@127.0.0.1:{self.to_database[number].port}/{self._database_name()}"
        command = [str(_PROGRAMS / "tachograph"), "collector", "--port", str(self.ports[number]), "--database-url", url]
        return Process(f"collector {number}", command, self._environment, self.folder / f"collector-{number}.log")

    def _database_name(self) -> str:
        assert self.postgresql is not None
        if not hasattr(self, "_database"):
            self._database = self.postgresql.new_database().partition("?")[0].rpartition("/")[2]
        return self._database

    def _node(self, name: str, port: int) -> Node:
        spool = self.folder / f"spool-{name}"
        spool.mkdir()
        command = [str(_PROGRAMS / "tachograph-agent"), "--collector", f"http://127.0.0.1:{port}", "--node", name]
        command += ["--spool", str(spool), "--metrics", "off", "--flush", "300ms", "--no-health"]
        agent = Process(f"agent {name}", command, self._environment, self.folder / f"agent-{name}.log")
        return Node(name, spool, agent)

    @property
    def processes(self) -> list[Process]:
        """Agents and collectors."""
        return [*self.collectors, *(node.agent for node in self.nodes)]

    def start(self) -> None:
        """Start everything."""
        for process in self.processes:
            process.start()

    def faults(self) -> dict[str, Callable[[], None]]:
        """Every way in which this world can be broken, by name."""
        found: dict[str, Callable[[], None]] = {
            "kill an agent": lambda: self._kill(self._an_agent()),
            "freeze an agent": lambda: self._freeze(self._an_agent()),
            "stop an agent": lambda: self._kill(self._an_agent(), signal.SIGTERM),
            "kill a collector": lambda: self._kill(self._a_collector()),
            "freeze a collector": lambda: self._freeze(self._a_collector(), 12.0),
            "stop a collector": lambda: self._kill(self._a_collector(), signal.SIGTERM),
            "cut agents off": lambda: self._network(self.to_collectors, None),
            "refuse agents": lambda: self._network(self.to_collectors, "refuse"),
            "stall agents": lambda: self._network(self.to_collectors, "stall"),
            "lose answers": lambda: self._network(self.to_collectors, "swallow"),
        }
        if self.postgresql is not None:
            found |= {
                "kill the database": lambda: self._restart_database(signal.SIGKILL),
                "restart the database": lambda: self._restart_database(signal.SIGINT),
                "cut the database off": lambda: self._network(self.to_database, None),
                "refuse the database": lambda: self._network(self.to_database, "refuse"),
                "stall the database": lambda: self._network(self.to_database, "stall"),
                "lose the database's answers": lambda: self._network(self.to_database, "swallow"),
            }
        return found

    def _an_agent(self) -> Process:
        return self.chance.choice(self.nodes).agent

    def _a_collector(self) -> Process:
        return self.chance.choice(self.collectors)

    def _moment(self, longest_s: float = 0.4) -> None:
        time.sleep(self.chance.uniform(0.0, longest_s))

    def _kill(self, process: Process, how: signal.Signals = signal.SIGKILL) -> None:
        process.revive()
        process.end(how)
        process.start()

    def _freeze(self, process: Process, now_and_then_s: float = 2.0) -> None:
        """For a moment; now and then longer, a collector for longer than its leases last: it wakes up without runs."""
        process.signal(signal.SIGSTOP)
        if self.chance.random() < 0.15:
            time.sleep(now_and_then_s)
        self._moment()
        process.signal(signal.SIGCONT)

    def _network(self, proxies: list[Proxy], mode: Mode | None) -> None:
        proxy = self.chance.choice(proxies)
        if mode is None:
            proxy.cut()
            return
        proxy.set(mode)
        self._moment()
        proxy.set("open")

    def _restart_database(self, how: signal.Signals) -> None:
        assert self.postgresql is not None
        self.postgresql.stop(how)
        self._moment()
        self.postgresql.start()

    def work(self) -> None:
        """Let it work for a moment; mostly until every collector takes connections again, else with more to come."""
        if self.chance.random() < 0.8:
            give_up_at = time.monotonic() + 60
            while not all(_is_open(port) for port in self.ports) and time.monotonic() < give_up_at:
                self.revive()
                time.sleep(0.05)
        self._moment(0.8)

    def heal(self) -> None:
        """Everything is up, and nothing is in the way."""
        for proxy in self.proxies:
            proxy.set("open")
        for process in self.processes:
            process.signal(signal.SIGCONT)
            process.revive()

    def revive(self) -> None:
        """Start again whatever has ended by itself."""
        for process in self.processes:
            process.revive()

    def close(self) -> None:
        """End everything."""
        for node in self.nodes:
            for file in node.files.values():
                file.close()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.end(signal.SIGKILL)
        for proxy in self.proxies:
            proxy.close()

    def logs(self) -> Iterator[str]:
        """The end of every log, for a test that fails."""
        for process in self.processes:
            told = process.log.read_text(errors="replace").splitlines()[-15:] if process.log.exists() else []
            yield "\n".join([f"--- {process.name}", *told])
