"""Notices: a file's new content ends the runs of the node, once; the command puts one checked event into the spool."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.main import main
from tachograph_agent.sidecar.notices import Notice, NoticeFiles, notice_of
from tachograph_agent.sidecar.own_events import OwnEvents

NOW = 1_760_000_000.0


def lines(spool: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(spool.glob("u*/agent/*")) for line in path.read_text().splitlines()]


class Node:
    def __init__(self, folder: Path) -> None:
        self.spool, self.state, self.file = folder / "spool", folder / "state", folder / "notice"
        self.spool.mkdir()
        self.state.mkdir()
        self.live = [LiveRun("lab/a", "1", [0]), LiveRun("lab/b", "7", [4])]
        self.start()

    def start(self) -> None:
        """An agent is started (again)."""
        own = OwnEvents(self.spool, "n1")
        self.notices = NoticeFiles([self.file], self.state, own, lambda: self.live, lambda: NOW)
        self.now_s = 0.0

    def write(self, text: str, t: float = NOW - 10.0) -> None:
        self.file.write_text(text)
        os.utime(self.file, (t, t))

    def look(self) -> list[dict[str, Any]]:
        """Look at the file, a while later; all that was ever told."""
        self.now_s += 2.0
        self.notices.watch(self.now_s)
        return lines(self.spool)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_notice_ends_every_live_run_as_planned_when_the_file_was_written(node: Node) -> None:
    assert node.look() == []
    node.write("maintenance at noon\n")
    told = node.look()
    assert [(event["run"], event["attempt"], event["planned"], event["t"]) for event in told] == [
        ("lab/a", "1", True, NOW - 10.0),
        ("lab/b", "7", True, NOW - 10.0),
    ]
    assert {event["reason"] for event in told} == {"maintenance at noon"}


def test_notice_is_told_once_also_by_an_agent_that_was_started_again(node: Node) -> None:
    node.write("maintenance")
    assert len(node.look()) == 2
    assert len(node.look()) == 2
    node.start()
    node.live = [LiveRun("lab/a", "2", [0])]
    assert len(node.look()) == 2
    node.write("maintenance", NOW - 5.0)
    assert len(node.look()) == 3


@pytest.mark.parametrize("is_read_first", [True, False])
def test_notice_that_is_written_while_the_file_is_read_is_told_once_with_its_own_time(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, is_read_first: bool
) -> None:
    node.write("maintenance at noon\n", NOW - 60.0)
    assert len(node.look()) == 2
    read = os.pread

    def slowly(descriptor: int, size: int, offset: int) -> bytes:
        before = read(descriptor, size, offset)
        node.write("maintenance now\n", NOW - 1.0)
        return before if is_read_first else read(descriptor, size, offset)

    node.write("maintenance at noon \n", NOW - 30.0)  # so that it is looked at
    monkeypatch.setattr(os, "pread", slowly)
    node.look()
    monkeypatch.undo()
    for _ in range(3):
        told = node.look()
    assert [(event["reason"], event["t"]) for event in told[2:]] == [("maintenance now", NOW - 1.0)] * 2


def test_notice_for_one_run_ends_only_that(node: Node) -> None:
    node.write('{"run": "lab/b", "reason": "preempted"}')
    assert [(event["run"], event["reason"]) for event in node.look()] == [("lab/b", "preempted")]


def test_file_left_over_from_another_job_says_nothing(node: Node) -> None:
    node.write("time limit", NOW - 3600.0)
    assert node.look() == []


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ("", None),
        (" \n\n", None),
        ("USR1 from the scheduler\nmore", Notice("USR1 from the scheduler")),
        ('{"reason": "x\\ny"}', Notice("x?y")),
        ('{"half": ', None),
        ("{}", Notice("a notice")),
        ('app="train"\nteam="lab"', None),
        ('app="train"\ntachograph/disruption="PreemptionByScheduler"', Notice("disruption: PreemptionByScheduler")),
        ('example.com/DisruptionTarget="false"', None),
        ('example.com/DisruptionTarget="True"', Notice("disruption: True")),
    ],
)
def test_what_a_file_says(text: str, notice: Notice | None) -> None:
    assert notice_of(text) == notice


def test_directory_pipe_or_missing_file_is_no_notice(node: Node) -> None:
    os.mkfifo(node.file)
    assert node.look() == []
    node.file.unlink()
    node.file.mkdir()
    assert node.look() == []


# -- the command --


def put(spool: Path, *words: str) -> int:
    try:
        return main(["notice", *words, "--spool", str(spool)])
    except SystemExit as end:  # as argparse ends
        return int(str(end.code))


def test_command_writes_one_event_for_the_agent_to_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACHOGRAPH_ATTEMPT", raising=False)
    assert (
        put(tmp_path, "allocation.start", "--run", "lab/a", "--node", "n3", "--gpus", "8", "--t", "1760000000.5") == 0
    )
    assert lines(tmp_path) == [
        {"kind": "allocation.start", "run": "lab/a", "node": "n3", "t": 1760000000.5, "gpus": 8},
    ]


def test_each_notice_stands_beside_the_others(tmp_path: Path) -> None:
    assert put(tmp_path, "allocation.start", "--run", "a") == 0
    assert put(tmp_path, "attempt.end", "--run", "a", "--reason", "preempted") == 0
    assert put(tmp_path, "attempt.end", "--run", "a", "--unplanned", "--field", "exit=3") == 0
    assert [(event["kind"], event.get("planned")) for event in lines(tmp_path)] == [
        ("allocation.start", None),
        ("attempt.end", None),
        ("attempt.end", False),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["alocation.start"], "allocation.start"),
        (["allocation.start", "--gpus", "-1"], "gpus"),
        (["run.end", "--field", "status=over"], "status"),
        (["run.end", "--field", "status"], "NAME=VALUE"),
        (["run.end", "--field", "run=x"], "option of its own"),
        (["run.end", "--t", "nan"], "nan"),
    ],
)
def test_what_is_no_event_is_refused_with_field_and_value(
    tmp_path: Path, words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert put(tmp_path, *words, "--run", "lab/a") == 2
    assert said in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_spool_that_is_not_there_is_said_with_status_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert put(tmp_path / "none", "allocation.end", "--run", "lab/a") == 1
    assert "not recorded" in capfd.readouterr().err
