"""A real collector: a process of its own on a free port of this machine, ready when a test gets it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

STARTS_WITHIN_S = 60
ENDS_WITHIN_S = 60
_SERVING = re.compile(r"serving https?://[^ ,]*:(\d+)")


@dataclass
class Reply:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass
class CollectorProcess:
    """``tachograph collector`` on ``database_url``. ``start`` returns when /readyz says yes."""

    database_url: str
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    """The one it got; a restart takes it again."""
    said: list[str] = field(default_factory=list)
    """The lines of its log."""

    def start(self) -> CollectorProcess:
        """Start, or start again, and wait until it is ready; fails with its log if it ends before."""
        program = str(Path(sys.executable).with_name("tachograph"))
        command = [program, "collector", "--port", str(self.port)]
        command += ["--database-url", self.database_url, *self.options]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TACHOGRAPH_")}
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=kept | self.environment
        )
        self._serving = threading.Event()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()
        waited = self._serving.wait(STARTS_WITHIN_S)
        assert waited, "the collector did not come up: " + "\n".join(self.said)
        assert not self._ended.is_set() or self.port, "the collector ended: " + "\n".join(self.said)
        give_up_at = time.monotonic() + STARTS_WITHIN_S
        while (ready := self.request("GET", "/readyz")).status != 200:
            assert time.monotonic() < give_up_at, ready.body
            time.sleep(0.05)
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.said.append(line.rstrip("\n"))
            found = _SERVING.search(line)
            if found:
                self.port = int(found[1])
                self._serving.set()
        self._ended.set()
        self._serving.set()
        process.stderr.close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def post_events(self, events: list[dict[str, Any]] | bytes, **headers: str) -> Reply:
        """Send events as an agent does; ``Tachograph_Batch="name"`` names the batch."""
        lines = events if isinstance(events, bytes) else b"".join(json.dumps(each).encode() + b"\n" for each in events)
        told = {"Content-Type": "application/x-ndjson"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self.request("POST", "/v1/events", lines, told)

    def kill(self) -> None:
        """``kill -9``."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop, and give its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._reader.join(ENDS_WITHIN_S)
        return code


Starts = Callable[..., CollectorProcess]


@pytest.fixture
def start_collector(tmp_path: Path) -> Iterator[Starts]:
    """Start a collector: ``start_collector(database_url=..., options=[...])``; a fresh SQLite file unless told."""
    started: list[CollectorProcess] = []

    def start(
        database_url: str | None = None, options: list[str] | None = None, environment: dict[str, str] | None = None
    ) -> CollectorProcess:
        url = database_url or f"sqlite:///{tmp_path / 'collector' / f'{len(started)}.db'}"
        made = CollectorProcess(url, options or [], environment or {})
        started.append(made)
        return made.start()

    yield start
    for each in started:
        if hasattr(each, "process") and each.process.poll() is None:
            each.kill()


@pytest.fixture
def collector(start_collector: Starts) -> CollectorProcess:
    """A collector over a fresh SQLite file."""
    return start_collector()
