"""The real agent beside a run: a line that the kernel writes becomes an event once, what can't be seen is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_server.server import Server
from agent_server.spools import rank_file, step

AGENT = [sys.executable, "-m", "tachograph_agent.sidecar.main"]
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=77, name=python, made up"


class Node:
    """A node with one rank that is alive, a kernel's log that the test writes, and an agent."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.kernel_log = folder / "kmsg"
        self.num_messages = 0
        self.say("old news", XID.format(79))
        self.kept = self.spool / ".agent" / "kmsg.json"
        self.agents: list[subprocess.Popen[bytes]] = []
        self.rank = rank_file(self.spool)
        assert self.rank.append(step(1))

    def say(self, *texts: str) -> None:
        """Messages of the kernel."""
        with self.kernel_log.open("a") as file:
            for text in texts:
                file.write(f"4,{self.num_messages},5000000,-;{text}\n")
                self.num_messages += 1

    def start(self, *options: str) -> None:
        """Start the agent."""
        command = [*AGENT, "--collector", self.server.url, "--node", "n1", "--metrics", "off", "--flush", "100ms"]
        command += ["--spool", str(self.spool), "--kernel-log", str(self.kernel_log), *options]
        environment = {name: told for name, told in os.environ.items() if not name.startswith("TACHOGRAPH")}
        self.agents.append(subprocess.Popen(command, env=environment))

    def stop(self) -> None:
        """Stop the agent as the system does."""
        self.agents[-1].send_signal(signal.SIGTERM)
        assert self.agents[-1].wait(60.0) == 0

    def findings(self, check: str) -> list[dict[str, Any]]:
        """What the collector has of a check."""
        return [told for told in self.server.events if told["kind"] == "health" and told["check"] == check]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Server() as server:
        made = Node(tmp_path, server)
        yield made
        for agent in made.agents:
            agent.kill()
            agent.wait()
        made.rank.close()


def test_a_kernel_line_is_told_once_over_restarts_and_old_ones_never(node: Node) -> None:
    node.start()
    node.server.wait_for(lambda server: node.kept.exists())
    node.say(XID.format(48))
    node.server.wait_for(lambda server: bool(node.findings("xid")))
    node.stop()
    node.say(XID.format(119))
    node.start()
    node.server.wait_for(lambda server: len(node.findings("xid")) >= 2)
    node.stop()
    first, second = node.findings("xid")
    assert [first["value"], second["value"]] == [48, 119]
    assert (first["run"], first["node"], first["gpu"], first["severity"]) == ("lab/run", "n1", "0000:3b:00", "critical")
    assert "attempt" not in first


def test_a_log_that_can_not_be_read_is_said_once_and_the_rest_goes_on(node: Node) -> None:
    node.kernel_log.unlink()
    node.start()
    node.server.wait_for(lambda server: bool(node.findings("kernel")))
    assert node.rank.append(step(2))
    node.server.wait_for(lambda server: sum(told["kind"] == "step" for told in server.events) == 2)
    node.stop()
    (blind,) = node.findings("kernel")
    assert (blind["state"], blind["severity"], blind["run"]) == ("blind", "info", "lab/run")
    assert "CAP_SYSLOG" in blind["detail"]


def test_without_health_nothing_of_it_is_told(node: Node) -> None:
    node.start("--no-health")
    node.server.wait_for(lambda server: any(told["kind"] == "step" for told in server.events))
    node.stop()
    assert not [told for told in node.server.events if told["kind"] == "health" and told["check"] != "clock"]
    assert not node.kept.exists()
