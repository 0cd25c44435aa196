"""``tachograph rehearse`` plays faults into a real collector over HTTP and says what that found."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from collector_process import CollectorProcess
from tachograph_agent.events import encode
from tachograph_collector.cli.main import cli
from tachograph_collector.client import Client
from tachograph_collector.synthetic import Cluster, Run

QUICK = ("--fault", "hidden-nan@6s:kind=zero", "--fault", "xid@2s:node=n1,code=79", "--step", "0.1")
"""Found within seconds: neither needs a baseline."""
ENDS_WITHIN_S = 60


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    """A collector that goes on after the rehearsal."""
    made = CollectorProcess(f"sqlite:///{tmp_path / 'tachograph.db'}").start()
    yield made
    made.stop()


def rehearse(*words: str) -> Result:
    return CliRunner().invoke(cli, ["rehearse", *words], prog_name="tachograph")


def leftovers(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith("tachograph-rehearsal-")]


def test_faults_are_found_by_a_collector_of_its_own_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = rehearse(*QUICK, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    found = {it["fault"]: (it["verdict"], it["detector"], it["found_subject"]) for it in told["lines"]}
    assert found == {"xid": ("detected", "xid", "node n1"), "hidden-nan": ("detected", "nan", "run")}
    assert told["origins"] == ["rehearsal"]
    assert all(0 <= it["after_s"] <= it["within_s"] for it in told["lines"])
    assert leftovers(tmp_path) == []
    url = re.search(r"at (http\S+)", done.stderr)
    assert url is not None
    assert rehearse(*QUICK, "--url", url[1]).exit_code == 69  # nobody answers there any more


def test_given_collector_has_the_run_as_a_rehearsal_that_is_over_and_counts_in_no_total(
    collector: CollectorProcess,
) -> None:
    url = f"http://127.0.0.1:{collector.port}"
    done = rehearse(*QUICK, "--url", url, "--run", "practice")
    assert done.exit_code == 0, done.output
    assert "2 of 2 faults detected, 0 false alarms" in done.stdout
    assert "page nobody" in done.stdout
    with Client(url, token="") as client:
        run = client.run("practice")
        assert run.place().origin == "rehearsal"
        assert {it.origin for it in run.incidents()} == {"rehearsal"}
        assert client.fleet().runs == 0
        give_up_at = time.monotonic() + ENDS_WITHIN_S
        while run.summary().status == "running" and time.monotonic() < give_up_at:
            time.sleep(0.1)
        assert run.summary().status == "cancelled"
        assert {node.state for node in run.nodes()} <= {"gone"}


def test_recording_is_played_and_what_a_replay_finds_is_found_live(tmp_path: Path) -> None:
    events = Run(Cluster(num_nodes=2, ranks_per_node=2, num_steps=150, run="was")).events()
    log = tmp_path / "was.jsonl"
    log.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    done = rehearse("--log", str(log), "--speed", "60", "--fault", "hidden-nan@6s:kind=missing", "--json")
    assert done.exit_code == 0, done.output
    [line] = json.loads(done.stdout)["lines"]
    assert (line["verdict"], line["detector"]) == ("detected", "nan")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_rehearsal_leaves_no_collector_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    program = "from tachograph_collector.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "rehearse", "--forever"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    url = re.search(r"at (http\S+)", said)
    assert url is not None, said
    assert len(leftovers(tmp_path)) == 1
    process.send_signal(number)
    _, rest = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 130
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert leftovers(tmp_path) == []
    with socket.socket() as door:
        assert door.connect_ex(("127.0.0.1", int(url[1].rpartition(":")[2]))) != 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fault", "node-dath"], "did you mean node-death?"),
        (["--fault", "straggler@5s:rank=99"], "--fault: straggler: there is no rank 99; expected 0 to 7"),
        (["--fault", "all", "--fault", "xid:node=n1"], "--fault all is the whole drill"),
        (["--fault", "collector-pause@5s"], "can't be made to pause from outside"),
        (["--nodes", "1"], "--fault: node-death"),
        (["--speed", "3"], "give --log FILE"),
        (["--keep", "--url", "http://127.0.0.1:1"], "--keep is for the collector that is started here"),
        (["--thresholds", "nowhere.toml"], "--thresholds nowhere.toml: can't be read"),
        (
            ["--thresholds", "x.toml", "--url", "http://127.0.0.1:1"],
            "--thresholds is for the collector that is started",
        ),
        (["--log", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused_before_anything_starts(words: list[str], said: str) -> None:
    done = rehearse(*words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert "started a collector" not in done.stderr


def test_list_of_faults_needs_no_collector() -> None:
    assert "node-death:node" in rehearse("--list").stdout
