"""The agent as a process beside real recorders: killed, cut off, misled and refused, and still every event once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import live_spool
import pytest
from agent_server.server import Server, identity
from free_ports import free_port

AGENT = [sys.executable, "-m", "tachograph_agent.sidecar.main"]
TIMEOUT_S = 60.0

TRAINER = """
import os, sys, time
from tachograph_agent import Recorder
recorder = Recorder(resume_step=0)
for number in range(1, int(sys.argv[1]) + 1):
    recorder.step_done(number, dur_s=0.001, loss=2.0)
    if number % 50 == 0:
        with recorder.checkpoint(number): pass
    if len(sys.argv) > 2: time.sleep(float(sys.argv[2]))
"""


def until(condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Poll until ``condition`` holds; fails after ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


class Node:
    """A node: a spool, trainers that write to it, and an agent that may be killed and started again."""

    def __init__(self, folder: Path, url: str) -> None:
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.url = url
        self.log = folder / "agent.log"
        self.agent: subprocess.Popen[bytes] | None = None
        self.children: list[subprocess.Popen[bytes]] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHOGRAPH", "SLURM"))}
        self.environment = {**kept, "TACHOGRAPH_SPOOL": str(self.spool), "TACHOGRAPH_RUN": "lab/run"}

    def start(self, *options: str, url: str | None = None) -> subprocess.Popen[bytes]:
        """Start the agent."""
        command = [*AGENT, "--collector", url or self.url, "--node", "n1", "--metrics", "off", "--flush", "200ms"]
        with self.log.open("ab") as log:
            self.agent = subprocess.Popen([*command, *options], env=self.environment, stderr=log)
        self.children.append(self.agent)
        return self.agent

    def train(self, num_steps: int, pause_s: float = 0.0, *, rank: int = 0, **env: str) -> subprocess.Popen[bytes]:
        """Start a training process."""
        environment = {**self.environment, "RANK": str(rank), "WORLD_SIZE": "8", "MASTER_PORT": "29500", **env}
        command = [sys.executable, "-c", TRAINER, str(num_steps), *([str(pause_s)] if pause_s else [])]
        child = subprocess.Popen(command, env=environment)
        self.children.append(child)
        return child

    def kill_agent(self) -> None:
        """End the agent as the machine would: without a word."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def said(self) -> str:
        """The agent's log."""
        return self.log.read_text()

    def files(self) -> list[Path]:
        """Rank files in the spool."""
        return live_spool.files(self.spool)


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


def steps_of(server: Server, rank: int) -> list[int]:
    return [told["step"] for told in server.events if told["kind"] == "step" and told.get("rank") == rank]


def once(server: Server) -> list[dict[str, Any]]:
    """What is stored, events that are one counted once."""
    return list({identity(told): told for told in server.events}.values())


@pytest.mark.parametrize("seed", [1, 2])
def test_agents_killed_at_any_moment_lose_nothing_and_double_nothing(node: Node, server: Server, seed: int) -> None:
    chance = random.Random(seed)
    server.fault_of = lambda _: chance.choice([None, None, "lose", "cut", "late:0.05", "503:0", "429:0"])
    trainers = [node.train(400, 0.004, rank=rank) for rank in range(3)]
    while any(trainer.poll() is None for trainer in trainers):
        node.start()
        seen = server.num_requests
        wanted = seen + chance.randint(0, 4)
        # At a moment that no one chose: so many requests later, or after a while if the agent was slower.
        deadline_s = time.monotonic() + chance.uniform(0.1, 1.0)
        until(lambda: server.num_requests >= wanted or time.monotonic() > deadline_s, "requests")  # noqa: B023 - at once
        node.kill_agent()
    server.fault_of = lambda _: None
    node.start()
    until(lambda: not [path for path in node.files() if path.parent.name != "agent"], "an empty spool")
    for rank in range(3):
        told = sorted(one["step"] for one in once(server) if one["kind"] == "step" and one.get("rank") == rank)
        assert told == list(range(1, 401))
        saved = [one for one in once(server) if one["kind"] == "checkpoint.saved" and one.get("rank") == rank]
        assert len(saved) == 8
    assert Counter(one["kind"] for one in once(server))["failure"] == 0


def test_collector_that_comes_later_gets_everything_once(node: Node, tmp_path: Path) -> None:
    port = free_port()
    node.start(url=f"http://127.0.0.1:{port}")
    node.train(200, rank=0).wait()
    until(lambda: "not taken" in node.said(), "a word that the collector is away")
    assert node.said().count("not taken") == 1
    with Server(port=port) as back:
        back.wait_for(lambda server: len(steps_of(server, 0)) == 200)
        until(lambda: not node.files(), "an empty spool")
        assert len(back.events) == len(once(back))


def test_killed_rank_is_named_within_about_a_second(node: Node, server: Server) -> None:
    node.start()
    ranks = [node.train(100_000, 0.01, rank=rank) for rank in range(2)]
    for rank in range(2):
        server.wait_for(lambda made, rank=rank: len(steps_of(made, rank)) > 3)  # type: ignore[misc]  # bound at once
    killed_unix_s = time.time()
    ranks[1].kill()
    server.wait_for(lambda made: any(told["kind"] == "failure" for told in made.events))
    (told,) = [told for told in server.events if told["kind"] == "failure"]
    assert (told["rank"], told["run"], told["inferred"]) == (1, "lab/run", True)
    assert -0.1 < told["t"] - killed_unix_s < 5.0  # a loaded machine; the bench says how long it takes


def test_sigterm_drains_says_good_bye_and_is_quick(node: Node, server: Server) -> None:
    agent = node.start("--flush", "1h", "--heartbeat", "1h")
    trainer = node.train(100_000, 0.01)
    server.wait_for(lambda made: any(told["kind"] == "attempt.start" for told in made.events))
    until(lambda: any(file.stat().st_size > 2000 for file in live_spool.rank_files(node.spool)), "steps that wait")
    before = len(steps_of(server, 0))
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=TIMEOUT_S) == 0  # and not after the hour at which it would have sent them
    assert len(steps_of(server, 0)) > before
    trainer.kill()


def test_sigterm_is_obeyed_in_time_while_the_collector_does_not_answer(node: Node, server: Server) -> None:
    agent = node.start()
    server.will(*["late:120"] * 3)
    node.train(50).wait()
    server.wait_for(lambda made: made.num_requests > 0)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=TIMEOUT_S) == 0  # long before that answer


def test_second_agent_on_a_spool_says_so_and_ends_with_status_2(node: Node) -> None:
    first = node.start()
    until(lambda: "follows" in node.said(), "the first agent")
    second = subprocess.run(
        [*AGENT, "--collector", node.url, "--metrics", "off"],
        env=node.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert second.returncode == 2
    assert "another agent serves the spool" in second.stderr
    assert first.poll() is None


def test_heartbeats_tell_ranks_and_last_step_and_the_last_says_good_bye(node: Node, server: Server) -> None:
    agent = node.start("--heartbeat", "200ms")
    node.train(100_000, 0.01, rank=4)
    server.wait_for(lambda made: any(beat.get("step", 0) > 3 for beat in made.heartbeats))
    agent.send_signal(signal.SIGTERM)
    agent.wait(timeout=TIMEOUT_S)
    assert server.heartbeats[-1]["goodbye"] is True
    numbers = [beat["seq"] for beat in server.heartbeats]
    assert numbers == sorted(set(numbers))
    assert server.heartbeats[-1]["ranks"] == [4]


# -- bad input --


def test_hostile_names_of_runs_stay_names(node: Node, server: Server, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if node.spool not in path.parents}
    node.start()
    names = ["../../etc/passwd", "a/b/../c", "..", "line\nbreak", "x" * 10_000, "\x1b[31mred", 'quote"\\', "ünï/çødé"]
    for name in names:
        node.train(3, TACHOGRAPH_RUN=name).wait()
    server.wait_for(lambda made: len(steps_of(made, 0)) == 3 * len(names))
    runs = {told["run"] for told in server.events}
    assert len(runs) == len(names)
    assert "../../etc/passwd" in runs
    assert max(map(len, runs)) <= 200
    outside = {path for path in tmp_path.rglob("*") if node.spool not in path.parents}
    assert outside - before == {node.log}


def test_foreign_and_torn_files_are_said_once_and_the_rest_goes_on(node: Node, server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"kind":"step","run":"secret","t":1,"step":1}\n')
    strange = node.spool / f"u{os.getuid()}" / "strange"
    strange.mkdir(parents=True)
    (strange / "rank-00000.000001.jsonl").symlink_to(secret)
    os.link(secret, strange / "rank-00001.000001.jsonl")
    os.mkfifo(strange / "rank-00002.000001.jsonl")
    (strange / "rank-00003.000001.jsonl").mkdir()
    (strange / "core.1234").write_bytes(b"\0" * 100)
    (strange / "rank-00004.000001.jsonl").write_bytes(os.urandom(5000))
    (strange / "rank-00005.000001.jsonl").write_bytes(b'{"kind":"step","run":"torn","t":1')
    node.start()
    node.train(20, rank=7).wait()
    server.wait_for(lambda made: len(steps_of(made, 7)) == 20)
    until(lambda: node.said().count("left alone") >= 5, "a word about each")
    server.wait_for(lambda made: made.num_requests >= 1)
    assert {told["run"] for told in server.events} == {"lab/run"}
    assert node.said().count("left alone") == 5
    assert secret.exists()
    assert node.agent is not None
    assert node.agent.poll() is None


def test_rank_file_replaced_under_its_feet_is_said_and_the_new_one_read(node: Node, server: Server) -> None:
    node.start()
    node.train(100_000, 0.01)
    server.wait_for(lambda made: len(steps_of(made, 0)) > 3)
    (path,) = live_spool.rank_files(node.spool)  # the agent's own may lie beside it
    other = node.spool / "other"
    other.write_text('{"kind":"step","run":"lab/other","t":1760000000,"step":1}\n' * 1)
    other.replace(path)
    server.wait_for(lambda made: any(told["run"] == "lab/other" for told in made.events))
    assert node.said().count("was replaced or cut") == 1


def test_refused_token_is_said_once_and_nothing_is_lost(node: Node, server: Server, tmp_path: Path) -> None:
    server.token = "right"
    token = tmp_path / "token"
    token.write_text("wrong")
    agent = node.start("--token-file", str(token))
    node.train(20).wait()
    until(lambda: "token not known" in node.said(), "a word about the token")
    assert node.said().count("token not known") == 1
    assert "wrong" not in node.said()
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=TIMEOUT_S) == 0
    token.write_text("right")
    node.start("--token-file", str(token))
    server.wait_for(lambda made: len(steps_of(made, 0)) == 20)


def test_address_that_does_not_resolve_is_said_once_and_nothing_is_lost(node: Node) -> None:
    node.start(url="http://no-such-host.invalid:8080")
    node.train(20).wait()
    until(lambda: "no-such-host.invalid" in node.said().partition("not taken")[2], "a word about the name")
    assert node.said().count("not taken") == 1
    assert node.files()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that only who is told trusts."""
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=collector"],
            *["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(cert), "-keyout", str(key)],
        ],
        check=True,
        capture_output=True,
    )
    assert ssl.create_default_context(cafile=str(cert))
    return cert, key


def test_certificate_that_is_not_trusted_is_said_and_the_one_that_is_told_is(
    node: Node, certificate: tuple[Path, Path]
) -> None:
    with Server(certificate=certificate) as server:
        agent = node.start(url=server.url)
        node.train(20).wait()
        until(lambda: "certificate verify failed" in node.said(), "a word about the certificate")
        assert server.events == []
        agent.send_signal(signal.SIGTERM)
        agent.wait(timeout=TIMEOUT_S)
        node.start("--ca-file", str(certificate[0]), url=server.url)
        server.wait_for(lambda made: len(steps_of(made, 0)) == 20)


def test_state_directory_that_is_a_link_is_refused(node: Node, tmp_path: Path) -> None:
    (node.spool / ".agent").symlink_to(tmp_path)
    assert node.start().wait(timeout=TIMEOUT_S) == 2
    assert "no plain directory" in node.said()
    assert not (tmp_path / "positions.json").exists()


# -- check --


def check(node: Node, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENT, "check", *options],
        env=node.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_check_says_what_it_sees_and_reaches(node: Node, server: Server) -> None:
    told = check(node, "--collector", server.url)
    assert told.returncode == 0, told.stdout
    assert str(node.spool) in told.stdout
    assert f"{server.url} answers" in told.stdout


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("spool", "create it"),
        ("collector", "check the name"),
        ("token", "tachograph token create"),
        ("none", "give --collector"),
        ("port", "is it running"),
        ("https", "give http://"),
    ],
)
def test_check_says_what_is_wrong_with_advice(node: Node, server: Server, wrong: str, advice: str) -> None:
    server.token = "right"
    options = {
        "spool": ["--spool", "/nowhere/at/all", "--collector", server.url, "--token", "right"],
        "collector": ["--collector", "http://no-such-host.invalid"],
        "token": ["--collector", server.url, "--token", "wrong"],
        "none": [],
        "port": ["--collector", "http://127.0.0.1:1"],
        "https": ["--collector", server.url.replace("http://", "https://")],
    }[wrong]
    told = check(node, *options)
    assert told.returncode == 1
    assert "wrong " in told.stdout
    assert advice in told.stdout
    assert "Traceback" not in told.stderr


def test_metrics_are_served_where_told(node: Node, server: Server) -> None:
    import urllib.request

    port = free_port()
    node.start("--metrics", f"127.0.0.1:{port}")
    node.train(20).wait()
    server.wait_for(lambda made: len(steps_of(made, 0)) == 20)
    page = ""

    def shipped() -> bool:
        nonlocal page
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            page = answer.read().decode()
        return "tachograph_agent_events_shipped_total 2" in page

    until(shipped, "a scrape that sees what was shipped")
