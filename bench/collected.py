"""A collector over a database, both real, and what they take: processor time by the kernel's count, rows and bytes.

PostgreSQL comes from a wheel as in the tests, durable (``fsync=on``, ``synchronous_commit=on``), on the same machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import HERE
from sqlalchemy import text

sys.path.append(str(HERE.parent / "tests"))

from collector_process import CollectorProcess
from databases import PostgreSQLServer, sqlite_url
from tachograph_collector.store.database import Database

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOOK_EVERY_S = 0.1
_PROCESS_CPU_CLOCK = 2
"""How Linux numbers the clocks of other processes: clock_getcpuclockid(3)."""
SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
"""What a PostgreSQL of this size is given; nothing that makes it less durable."""


@dataclass
class Running:
    """A collector that is ready, its database, and the database's server if it has one."""

    collector: CollectorProcess
    database: Database
    server: PostgreSQLServer | None = None

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds so far, of the collector and of PostgreSQL."""
        used = {"collector": _cpu_s(self.collector.process.pid)}
        if self.server is not None and self.server.process is not None:
            root = self.server.process.pid
            used["PostgreSQL"] = sum(map(_cpu_s, [root, *_children(root)])) + _cpu_s(root, of_ended_children=True)
        return used

    def exact_cpu_s(self) -> float:
        """Processor seconds of the collector so far, to the microsecond: its process' own clock."""
        return time.clock_gettime((~self.collector.process.pid << 3) | _PROCESS_CPU_CLOCK)

    def resident_bytes(self) -> int:
        """The most memory that the collector has had."""
        status = Path(f"/proc/{self.collector.process.pid}/status").read_text().splitlines()
        (peak,) = [line.split()[1] for line in status if line.startswith("VmHWM")]
        return int(peak) * 1024

    def one(self, query: str, **values: Any) -> Any:
        """The first row of a query, on a connection past the collector; None if there is none."""
        with self.database.read() as connection:
            return connection.execute(text(query), values).first()

    def wait_folded(self, run: str, within_s: float = 120.0) -> float:
        """Seconds until the run's books hold all that is stored; raises ``TimeoutError``."""
        begin_s = time.monotonic()
        while True:
            row = self.one(_POSITION, name=run)
            if row is not None and row[1] is not None and row[1] >= row[0]:
                return time.monotonic() - begin_s
            if time.monotonic() > begin_s + within_s:
                raise TimeoutError(f"run {run} is not folded after {within_s} s: {row}")
            time.sleep(0.01)

    def get(self, path: str) -> tuple[float, bytes]:
        """Seconds and body of one request."""
        begin_s = time.perf_counter()
        reply = self.collector.request("GET", path)
        took_s = time.perf_counter() - begin_s
        if reply.status != 200:
            raise RuntimeError(f"GET {path} answered {reply.status}: {reply.body[:300]!r}")
        return took_s, reply.body

    def stored_bytes(self) -> dict[str, int]:
        """Bytes by table, indexes and all; of SQLite, the whole file."""
        if self.server is None:
            assert self.database.url.database is not None
            return {"all": sum(path.stat().st_size for path in Path(self.database.url.database).parent.glob("*.db*"))}
        query = (
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind IN ('r', 'p') "
            "AND relnamespace = 'public'::regnamespace"
        )
        with self.database.read() as connection:
            return {str(name): int(size) for name, size in connection.execute(text(query))}

    def wal_bytes(self) -> int:
        """How far PostgreSQL's write-ahead log has come; 0 for SQLite."""
        if self.server is None:
            return 0
        return int(self.one("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0])

    def wal_syncs(self) -> int:
        """How often PostgreSQL has made its log durable; 0 for SQLite."""
        if self.server is None:
            return 0
        query = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
        return int(self.one(query)[0] or 0)


@contextmanager
def running(scratch: Path, kind: str, options: list[str] | None = None) -> Iterator[Running]:
    """A fresh database of that kind, ``sqlite`` or ``postgresql``, and a collector over it."""
    server = PostgreSQLServer(**SETTINGS) if kind == "postgresql" else None
    collector: CollectorProcess | None = None
    try:
        if server is None:
            folder = scratch / f"sqlite-{time.monotonic_ns()}"
            folder.mkdir()
            url = sqlite_url(folder / "tachograph.db")
        else:
            server.start()
            url = server.new_database()
        collector = CollectorProcess(url, ["--log-level", "warning", *(options or [])])
        collector.said = _Said()
        collector.options = options or []
        collector.start()
        database = Database(url)
        yield Running(collector, database, server)
        database.close()
        collector.stop()
    finally:
        if collector is not None and hasattr(collector, "process") and collector.process.poll() is None:
            collector.process.kill()
            collector.process.wait()
        if server is not None:
            server.close()


class _Said(list[str]):
    """A collector's log, whose warnings are shown."""

    def append(self, line: str, /) -> None:
        super().append(line)
        if "level=info" not in line:
            print(f"    {line}", file=sys.stderr)


_POSITION = (
    "SELECT runs.last_seq, leases.folded_seq FROM runs LEFT JOIN leases "
    "ON leases.tenant_id = runs.tenant_id AND leases.run_id = runs.run_id WHERE runs.name = :name"
)


@dataclass
class Watch:
    """Looks ten times a second how far a run is stored and folded, from a thread."""

    running: Running
    run: str
    seen: list[tuple[float, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            row = self.running.one(_POSITION, name=self.run)
            if row is not None:
                self.seen.append((time.monotonic(), int(row[0]), int(row[1] or 0)))

    def lags_s(self, after_s: float = 0.0) -> list[float]:
        """For each look later than ``after_s`` (monotonic): for how long the oldest unfolded event has been stored."""
        lags, older = [], 0
        for at_s, stored, folded in self.seen:
            while older < len(self.seen) and self.seen[older][1] <= folded:
                older += 1
            since_s = self.seen[older][0] if older < len(self.seen) else at_s
            if at_s >= after_s:
                lags.append(0.0 if folded >= stored else max(0.0, at_s - since_s) + LOOK_EVERY_S)
        return lags


@contextmanager
def load(running: Running, **told: Any) -> Iterator[subprocess.Popen[str]]:
    """The load generator, once it is about to send. ``outcome`` waits for what it says at its end."""
    child = subprocess.Popen(
        [sys.executable, str(HERE / "load.py"), json.dumps({"port": running.collector.port, **told})],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise subprocess.CalledProcessError(child.wait(), "bench/load.py")
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def outcome(child: subprocess.Popen[str]) -> dict[str, Any]:
    """What the load generator says at its end."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise subprocess.CalledProcessError(child.wait(), "bench/load.py")
    told: dict[str, Any] = json.loads(line)
    return told


def _cpu_s(pid: int, *, of_ended_children: bool = False) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    first = 13 if of_ended_children else 11
    return (int(fields[first]) + int(fields[first + 1])) / TICKS_PER_S


def _children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
