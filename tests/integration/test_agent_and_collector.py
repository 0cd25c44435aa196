"""The real agent and the real collector, a process each, over both databases: every event once, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collector_process import CollectorProcess, Starts
from live_spool import rank_files
from sqlalchemy import func, select
from tachograph_collector.store import schema
from tachograph_collector.store.database import Database
from tachograph_collector.store.packing import unpack_steps

AGENT = [sys.executable, "-m", "tachograph_agent.sidecar.main"]
RUN = "lab/run <1> & 'co'"
TRAINER = """
import sys
from tachograph_agent import Recorder
recorder = Recorder(resume_step=0)
for number in range(1, int(sys.argv[1]) + 1):
    recorder.step_done(number, dur_s=0.001, loss=2.0)
    if number % 50 == 0:
        with recorder.checkpoint(number): pass
"""


def until(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Poll until ``condition`` holds; fails after ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


class Node:
    """A spool, trainers that write to it, and an agent that ships it."""

    def __init__(self, folder: Path) -> None:
        self.spool = folder / "spool"
        self.spool.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHOGRAPH", "SLURM"))}
        self.environment = {**kept, "TACHOGRAPH_SPOOL": str(self.spool), "TACHOGRAPH_RUN": RUN}
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, url: str, *options: str) -> subprocess.Popen[bytes]:
        command = [*AGENT, "--collector", url, "--node", "n1", "--metrics", "off", "--flush", "200ms", "--no-health"]
        agent = subprocess.Popen([*command, "--heartbeat", "500ms", *options], env=self.environment)
        self.children.append(agent)
        return agent

    def train(self, num_steps: int, rank: int = 0) -> None:
        environment = {**self.environment, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
        subprocess.run([sys.executable, "-c", TRAINER, str(num_steps)], env=environment, check=True, timeout=120)

    def is_shipped(self) -> bool:
        return not rank_files(self.spool)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    for child in made.children:
        if child.poll() is None:
            child.kill()
        child.wait()


def stored_steps(url: str) -> list[tuple[int | None, int]]:
    """(rank, step) of every step that is stored, repeats included."""
    database = Database(url)
    with database.read() as connection:
        found = connection.execute(select(schema.samples.c.data).where(schema.samples.c.kind == "step")).scalars()
        steps = [(step.rank, step.step) for data in found for step in unpack_steps(bytes(data))]
    database.close()
    return sorted(steps, key=str)


def stored_kinds(url: str) -> Counter[str]:
    """How many of each kind of lifecycle event."""
    database = Database(url)
    with database.read() as connection:
        query = select(schema.events.c.kind, func.count()).group_by(schema.events.c.kind)
        found = Counter({str(row.kind): int(row[1]) for row in connection.execute(query)})
    database.close()
    return found


def expected(num_steps: int, num_ranks: int) -> list[tuple[int, int]]:
    return sorted(((rank, step) for rank in range(num_ranks) for step in range(1, num_steps + 1)), key=str)


def test_what_ranks_record_is_stored_once(node: Node, database_url: str, start_collector: Starts) -> None:
    collector = start_collector(database_url)
    node.start(collector.url, "--encoding", "zstd")
    for rank in range(2):
        node.train(300, rank)
    until(node.is_shipped, "an empty spool")
    assert stored_steps(database_url) == expected(300, 2)
    kinds = stored_kinds(database_url)
    assert (kinds["attempt.start"], kinds["checkpoint.saved"]) == (2, 12)
    rejected = collector.request("GET", "/v1/rejected").json()
    assert rejected == {"rejected": [], "next": None}
    assert collector.stop() == 0


def test_a_collector_that_is_killed_and_comes_back_has_everything_once(
    node: Node, database_url: str, start_collector: Starts
) -> None:
    collector = start_collector(database_url)
    node.start(collector.url)
    for rank in range(2):
        node.train(200, rank)
        collector.kill()
        node.train(200, rank + 2)
        collector.start()
    until(node.is_shipped, "an empty spool")
    assert stored_steps(database_url) == expected(200, 4)


def test_an_agent_that_is_killed_sends_nothing_twice(node: Node, database_url: str, start_collector: Starts) -> None:
    collector = start_collector(database_url)
    for rank in range(3):
        agent = node.start(collector.url)
        node.train(200, rank)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    node.start(collector.url)
    until(node.is_shipped, "an empty spool")
    assert Counter(stored_steps(database_url)) == Counter(expected(200, 3))


def test_check_of_the_agent_reaches_the_collector_and_stores_nothing(
    node: Node, database_url: str, start_collector: Starts
) -> None:
    collector = start_collector(database_url)
    command = [*AGENT, "check", "--collector", collector.url, "--no-health"]
    done = subprocess.run(command, env=node.environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{collector.url} answers" in done.stdout
    assert "clock" in done.stdout
    assert stored_kinds(database_url) == Counter()


def test_events_that_are_bad_are_told_to_the_agent_and_the_others_are_stored(
    node: Node, database_url: str, start_collector: Starts
) -> None:
    collector = start_collector(database_url)
    now_s = time.time()
    good: dict[str, Any] = {"kind": "run.start", "t": now_s, "run": RUN, "unheard": {"of": [1, None]}}
    told = collector.post_events([good, {"kind": "step", "t": 5.0, "run": RUN, "step": 1}, {"kind": "x"}])
    assert told.status == 200
    assert (told.json()["accepted"], told.json()["rejected"]) == (1, 2)
    assert len(told.json()["reasons"]) == 2
    database = Database(database_url)
    with database.read() as connection:
        (body,) = connection.execute(select(schema.events.c.body)).scalars()
    database.close()
    assert json.loads(body) == good


def test_a_collector_that_is_told_to_stop_answers_what_it_took(
    collector: CollectorProcess,
) -> None:
    now_s = time.time()
    answers = [
        collector.post_events([{"kind": "run.start", "t": now_s, "run": f"r{number}"}]).status for number in range(5)
    ]
    assert answers == [200] * 5
    assert collector.stop() == 0
    assert stored_kinds(collector.database_url)["run.start"] == 5
