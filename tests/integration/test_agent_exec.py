"""``tachograph-agent exec`` and ``notice`` as processes beside an agent: what is told arrives, and arrives once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_server.server import Server
from tachograph_agent.events import decode
from tachograph_collector.ledger import Ledger
from test_agent_process import AGENT, TIMEOUT_S, Node, until

STUBBORN = """
import signal, sys, time
from tachograph_agent import Recorder
recorder = Recorder(resume_step=0)
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
number = 0
while not stopping:
    number += 1
    recorder.step_done(number, dur_s=0.01)
    time.sleep(0.01)
sys.exit(9)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.fixture
def node(tmp_path: Path, server: Server) -> Iterator[Node]:
    made = Node(tmp_path, server.url)
    yield made
    for child in made.children:
        if child.poll() is None:
            child.kill()
        child.wait()


def wrapped(node: Node, script: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([*AGENT, "exec", "--", sys.executable, "-c", script], env=node.environment)
    node.children.append(child)
    return child


def of_kind(server: Server, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in server.events if event["kind"] in kinds]


def test_failure_of_the_command_arrives_with_exit_code_and_run(node: Node, server: Server) -> None:
    node.start()
    assert wrapped(node, "raise SystemExit(3)").wait(timeout=TIMEOUT_S) == 3
    server.wait_for(lambda _: bool(of_kind(server, "failure")))
    (event,) = of_kind(server, "failure")
    assert (event["run"], event["exit_code"]) == ("lab/run", 3)


def test_stop_of_the_wrapper_stops_the_command_and_arrives_as_planned(node: Node, server: Server) -> None:
    node.start()
    child = wrapped(node, STUBBORN)
    server.wait_for(lambda _: len(of_kind(server, "step")) > 3)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=TIMEOUT_S) == 9
    server.wait_for(lambda _: bool(of_kind(server, "attempt.end")))
    until(lambda: not [path for path in node.files() if path.parent.name != "agent"], "an empty spool")
    # The rank says what it ended with; the notice before it makes that a planned end for whoever books it.
    first, own_words = sorted(of_kind(server, "attempt.end", "failure"), key=lambda event: event["t"])
    assert (first["kind"], first["planned"], first["reason"]) == ("attempt.end", True, "told to stop by SIGTERM")
    assert (own_words["rank"], own_words["exit_code"]) == (0, 9)
    ledger = Ledger()
    ledger.add([decode(json.dumps(event).encode()) for event in server.events])
    (run,) = ledger.runs()
    books = ledger.books(run)
    assert (books.num_failures, books.num_planned_stops) == (0, 1)


def test_files_of_notices_are_deleted_once_they_are_stored(node: Node, server: Server) -> None:
    node.start()
    for kind in ("allocation.start", "allocation.end"):
        command = [*AGENT, "notice", kind, "--gpus", "4", "--run", "lab/run"]
        assert subprocess.run(command, env=node.environment, timeout=TIMEOUT_S, check=False).returncode == 0
    server.wait_for(lambda _: len(of_kind(server, "allocation.start", "allocation.end")) == 2)
    until(lambda: not node.files(), "an empty spool")
    assert of_kind(server, "failure") == []


def test_notice_file_ends_the_runs_of_the_node_as_planned(node: Node, server: Server, tmp_path: Path) -> None:
    notice = tmp_path / "notice"
    node.start("--notice-file", str(notice))
    node.train(100_000, 0.01)
    server.wait_for(lambda _: len(of_kind(server, "step")) > 3)
    notice.write_text("drained for maintenance\n")
    server.wait_for(lambda _: bool(of_kind(server, "attempt.end")))
    (event,) = of_kind(server, "attempt.end")
    assert (event["run"], event["reason"], event["planned"]) == ("lab/run", "drained for maintenance", True)


def test_command_runs_without_any_spool(node: Node) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TACHOGRAPH")}
    command = [*AGENT, "exec", "--", sys.executable, "-c", "raise SystemExit(6)"]
    assert subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=False).returncode == 6


def test_sidecar_tells_the_allocation_while_it_lives_and_its_end_when_told_to_stop(node: Node, server: Server) -> None:
    agent = node.start("--holds-gpus", "8")
    server.wait_for(lambda _: bool(of_kind(server, "allocation.start")))
    assert of_kind(server, "allocation.end") == []
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=TIMEOUT_S) == 0
    told = of_kind(server, "allocation.start", "allocation.end")
    assert [(event["run"], event["node"], event["gpus"]) for event in told] == [("lab/run", "n1", 8)] * 2
    assert told[0]["t"] < told[1]["t"]
