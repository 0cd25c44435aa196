"""A trainer's own log, followed by an agent that is killed again and again: every step arrives, and counts once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_server.server import Server
from test_agent_process import Node, once, until

NUM_STEPS = 300


def record(number: int) -> str:
    """One record of a made-up log."""
    at = f"{number // 60:02d}:{number % 60:02d}"
    return (
        f" [2025-10-09 08:{at}.000000] iteration {number:8d}/    5000 | consumed samples: "
        f"{number * 128:12d} | elapsed time per iteration (ms): 1000.0 | learning rate: 3.000000E-04 | "
        "global batch size:   128 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 |\n"
    )


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


def steps_stored(server: Server) -> list[int]:
    return sorted(told["step"] for told in once(server) if told["kind"] == "step")


def test_agents_killed_at_any_moment_tell_each_step_of_a_log_once(node: Node, server: Server, tmp_path: Path) -> None:
    chance = random.Random(3)
    log = tmp_path / "train.log"
    # A log that no agent knew before it was renamed is nobody's: on a busy machine none may be up by then.
    written = 10
    log.write_text("".join(record(number) for number in range(1, written + 1)))
    node.start("--log", str(log))
    server.wait_for(lambda made: bool(steps_stored(made)))
    node.kill_agent()
    while written < NUM_STEPS:
        node.start("--log", str(log))
        until_s = time.monotonic() + chance.uniform(0.4, 1.2)
        while time.monotonic() < until_s and written < NUM_STEPS:
            written += 1
            with log.open("a") as file:
                file.write(record(written))
            if written == NUM_STEPS // 2:
                log.rename(tmp_path / "train.log.1")
            time.sleep(0.01)
        node.kill_agent()
    node.start("--log", str(log))
    server.wait_for(lambda made: len(steps_stored(made)) >= NUM_STEPS)
    until(lambda: "lost" not in node.said(), "no word of a loss")
    assert steps_stored(server) == list(range(1, NUM_STEPS + 1))
    assert {told["attempt"] for told in server.events if told["kind"] == "step"} == {0}
