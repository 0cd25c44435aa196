"""Trainers' logs as they grow: each event once, over restarts, rotations and cuts; dated, and read by one node only.

Every test writes its log between the looks of the follower: the follower's waiting is the script's next line.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent.sidecar.agent import Agent
from tachograph_agent.sidecar.config import Config, ConfigError, LogOptions, parse
from tachograph_agent.sidecar.logowner import file_system, reason_not_to_read
from tachograph_agent.sidecar.logs import LogFollower
from tachograph_agent.sidecar.main import parser
from tachograph_agent.trainers.logtail import MAX_LINE_BYTES, LogTail

Act = Callable[[], object]
WRITTEN = 1_760_000_000.0


def megatron(number: int, second: int | None = None) -> str:
    """One record of a made-up log with a clock."""
    at = number if second is None else second
    return (
        f" [2025-10-09 08:{at // 60:02d}:{at % 60:02d}.000000] iteration {number:8d}/    5000 | consumed samples: "
        f"{number * 128:12d} | elapsed time per iteration (ms): 1000.0 | learning rate: 3.000000E-04 | "
        "global batch size:   128 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 |\n"
    )


def nanogpt(number: int) -> str:
    """One record of a made-up log without a clock."""
    return f"iter {number}: loss 3.{number:04d}, time 1000.00ms, mfu 31.20%\n"


class Node:
    """A node with a log, and agents that come and go."""

    def __init__(self, folder: Path, form: str | None = "megatron") -> None:
        self.log, self.state = folder / "train.log", folder / "state"
        self.state.mkdir()
        self.form = form
        self.pattern: Path | None = None
        self.told: list[dict[str, Any]] = []
        self.takes = True

    def append(self, text: str) -> Act:
        return lambda: self._write(text, "a")

    def cut(self, text: str) -> Act:
        return lambda: self._write(text, "w")

    def rotate(self, text: str) -> Act:
        def act() -> None:
            self.log.rename(self.log.with_suffix(f".{len(list(self.log.parent.iterdir()))}"))
            self._write(text, "w")

        return act

    def _write(self, text: str, mode: str) -> None:
        with self.log.open(mode) as file:
            file.write(text)

    def _keep(self, lines: bytes) -> bool:
        if self.takes:
            self.told += [json.loads(line) for line in lines.splitlines()]
        return self.takes

    def follow(self, *acts: Act) -> None:
        """An agent lives while the acts happen, one at each look that finds nothing new, and is then told to stop."""
        script = list(acts)

        def wait(_: float) -> bool:
            if script:
                script.pop(0)()
                return False
            follower.stop()
            return True

        options = LogOptions(self.log, "lab/run", "pattern" if self.pattern else self.form, self.pattern)
        follower = LogFollower(options, self.state, self._keep, wait=wait)
        follower.run()

    def steps(self) -> list[int]:
        return [event["step"] for event in self.told if event["kind"] == "step"]

    def attempts(self) -> list[tuple[int, int]]:
        """Attempt and step of each step."""
        return [(event["attempt"], event["step"]) for event in self.told if event["kind"] == "step"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def lines(*numbers: int) -> str:
    return "".join(map(megatron, numbers))


def test_steps_are_told_as_the_log_grows(node: Node) -> None:
    node.follow(node.append(lines(1, 2)), node.append(lines(3)), lambda: node.told.append({"kind": "look"}))
    assert node.steps() == [1, 2, 3]
    assert node.told[-1]["kind"] == "look", "step 3 was told before the next look"
    assert {event["run"] for event in node.told[:-1]} == {"lab/run"}
    assert all("node" not in event for event in node.told)


def test_a_pattern_file_says_what_a_log_means_that_no_adapter_knows(node: Node, tmp_path: Path) -> None:
    node.pattern = tmp_path / "ours.toml"
    node.pattern.write_text("[lines]\nstep = '(?P<time>.*) upd (?P<step>[0-9]+) nll (?P<loss>.*)'\n")
    first, second = "2025-10-09 08:00:10 upd 1 nll 2.5\n", "2025-10-09 08:00:20 upd 2 nll 2.4\n"
    node.follow(node.append(first), node.append(second))
    node.follow(node.append("2025-10-09 08:00:30 upd 3 nll 2.3\n"))
    assert node.steps() == [1, 2, 3]
    assert [event["dur"] for event in node.told if event["kind"] == "step"] == [10.0, 10.0, 10.0]


def test_half_a_line_waits_for_its_end(node: Node) -> None:
    whole = megatron(2)
    node.follow(node.append(lines(1) + whole[:50]), node.append(whole[50:]), node.append(lines(3)))
    assert node.steps() == [1, 2, 3]


def test_every_restart_of_the_agent_goes_on_where_the_last_one_was(node: Node) -> None:
    for number in range(1, 8):
        node.follow(node.append(megatron(number)))
    reference = Node(node.state)
    reference.follow(reference.append(lines(*range(1, 8))))
    assert node.told == reference.told
    assert node.steps() == list(range(1, 8))


def test_what_was_written_while_no_agent_ran_is_told_by_the_next(node: Node) -> None:
    node.follow(node.append(lines(1, 2)))
    node.append(lines(3, 4))()
    node.follow()
    assert node.steps() == [1, 2, 3, 4]


def test_agent_that_dies_between_telling_and_noting_tells_the_same_events_again(node: Node) -> None:
    node.follow(node.append(lines(1, 2)))
    (state,) = (node.state / "logs").iterdir()
    noted, told = state.read_bytes(), len(node.told)
    node.follow(node.append(lines(3, 4)))
    first = node.told[told:]
    state.write_bytes(noted)
    node.follow()
    assert node.told[told + len(first) :] == first


def test_renamed_log_is_read_to_its_end_and_the_new_one_goes_on_in_the_same_attempt(node: Node) -> None:
    rename = node.rotate(lines(4, 5))
    node.follow(node.append(lines(1, 2)), lambda: (node.append(lines(3))(), rename()))
    assert node.attempts() == [(0, number) for number in range(1, 6)]
    node.follow(node.append(lines(6, 7)))
    assert node.attempts() == [(0, number) for number in range(1, 8)]


def test_log_renamed_while_no_agent_ran_is_read_to_its_end_all_the_same(node: Node) -> None:
    node.follow(node.append(lines(1, 2)))
    node.append(lines(3))()
    node.rotate(lines(4, 5))()
    node.follow()
    assert node.attempts() == [(0, number) for number in range(1, 6)]


def test_log_that_is_written_anew_by_the_next_start_is_the_next_attempt(node: Node) -> None:
    again = "".join(megatron(number, second=number + 60) for number in (3, 4))
    node.follow(node.append(lines(1, 2, 3, 4, 5)), node.cut(again))
    assert node.attempts() == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 3), (1, 4)]


def test_log_lost_while_no_agent_ran_is_said_and_attempts_count_on(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.follow(node.append(lines(1, 2, 3)))
    node.log.unlink()
    node.append("".join(megatron(number, second=number + 60) for number in (3, 4)))()
    with caplog.at_level(logging.WARNING, "tachograph.agent"):
        node.follow()
    assert node.attempts() == [(0, 1), (0, 2), (0, 3), (1, 3), (1, 4)]
    assert "was replaced or cut while no agent looked" in caplog.text
    node.follow(node.append(megatron(5, second=65)))
    assert node.attempts()[-1] == (1, 5)


def test_log_that_comes_later_is_waited_for(node: Node) -> None:
    node.follow(lambda: None, lambda: None, node.append(lines(1, 2)))
    assert node.steps() == [1, 2]


def test_nothing_is_lost_while_the_spool_takes_nothing(node: Node) -> None:
    def full() -> None:
        node.takes = False
        node.append(lines(3))()

    def free() -> None:
        node.takes = True

    node.follow(node.append(lines(1, 2)), full, lambda: None, free, node.append(lines(4)))
    assert node.steps() == [1, 2, 3, 4]


def test_agent_stopped_while_the_spool_takes_nothing_leaves_it_to_the_next(node: Node) -> None:
    node.follow(node.append(lines(1, 2)))
    node.takes = False
    node.follow(node.append(lines(3)))
    node.takes = True
    node.follow()
    assert node.steps() == [1, 2, 3]


def test_log_without_a_clock_is_dated_by_its_writing(tmp_path: Path) -> None:
    node = Node(tmp_path, "nanogpt")

    def written(text: str, t: float) -> Act:
        def act() -> None:
            node.append(text)()
            os.utime(node.log, (t, t))

        return act

    node.follow(
        written("".join(nanogpt(number) for number in range(600)), WRITTEN),
        written(nanogpt(600), WRITTEN + 30.0),
    )
    node.follow(written(nanogpt(601), WRITTEN + 100.0))
    at = {event["step"]: event["t"] for event in node.told if event["kind"] == "step"}
    assert len(at) == 602
    assert (at[600], at[601], at[602]) == (WRITTEN, WRITTEN + 30.0, WRITTEN + 100.0)
    assert at[1] == pytest.approx(WRITTEN - 599.0), "what was there already is dated back by its durations"


def test_format_is_recognised_when_there_is_enough_to_judge(tmp_path: Path) -> None:
    node = Node(tmp_path, form=None)
    node.follow(node.append("starting\n"), node.append(lines(1, 2)), node.append(lines(3)))
    assert node.steps() == [1, 2, 3]


def test_unknown_format_is_said_once_with_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path, form=None)
    with caplog.at_level(logging.WARNING, "tachograph.agent"):
        node.follow(node.append("words and more words\n" * 5000), *[lambda: None] * 5)
    assert caplog.text.count("--log-adapter") == 1
    assert node.told == []


@pytest.mark.parametrize(
    "content",
    [
        '{"kind":"step","run":"x","t":1.0,"step":1,"dur":1.0}\n' * 20,
        '{"global_step": 2, "log_history": [], "epoch": 1.0}',
    ],
)
def test_file_that_cant_be_followed_is_said_and_left(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path, form="hf-state" if content.startswith('{"glob') else None)
    with caplog.at_level(logging.WARNING, "tachograph.agent"):
        node.follow(node.append(content))
    assert "is not followed" in caplog.text
    assert node.told == []


def test_defect_of_a_reader_ends_its_log_and_nothing_else(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tachograph_agent.trainers import registry

    def broken(*_: object) -> None:
        raise RuntimeError("made up")

    monkeypatch.setattr(type(registry.adapters()["megatron"]), "read", broken)
    node.follow(node.append(lines(1)))
    assert "is not followed any more" in caplog.text
    assert "made up" in caplog.text


def test_times_ahead_of_the_nodes_clock_are_said_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    ahead = megatron(1).replace("2025-", "2999-"), megatron(2).replace("2025-", "2999-")
    node.follow(node.append(ahead[0]), node.append(ahead[1]))
    assert caplog.text.count("time zone") == 1


# -- the tail --


def read_all(tail: LogTail) -> list[str]:
    found: list[str] = []
    for _ in range(50):
        found += tail.next_lines()
    return found


def test_endless_line_is_passed_over_and_counted_and_what_follows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b"x" * (3 * MAX_LINE_BYTES) + b"\ntwo\n")
    tail = LogTail(path)
    assert read_all(tail) == ["one", "two"]
    assert tail.num_too_long == 1
    tail.close()


def test_progress_bars_and_foreign_bytes_are_lines_like_any(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbf10%\r20%\r\nbad \xff\n")
    tail = LogTail(path)
    assert read_all(tail) == ["10%", "20%", "bad ÿ"]
    tail.close()


@pytest.mark.parametrize("made", ["directory", "pipe", "nothing"])
def test_what_is_no_plain_file_is_no_log(tmp_path: Path, made: str) -> None:
    path = tmp_path / "log"
    if made == "directory":
        path.mkdir()
    elif made == "pipe":
        os.mkfifo(path)
    tail = LogTail(path)
    assert read_all(tail) == []
    assert not tail.is_open


@pytest.mark.parametrize(
    ("made", "said"),
    [("directory", "is a directory; name the log in it"), ("pipe", "is no plain file"), ("nothing", "yet")],
)
def test_log_that_can_not_be_opened_is_said_once_with_why(
    tmp_path: Path, made: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path)
    if made == "directory":
        node.log.mkdir()
    elif made == "pipe":
        os.mkfifo(node.log)
    with caplog.at_level(logging.WARNING, "tachograph.agent"):
        node.follow(*[lambda: None] * 5)
    assert caplog.text.count(str(node.log)) == 1
    assert said in caplog.text


# -- who reads --


def mounts(folder: Path) -> Path:
    table = folder / "mountinfo"
    table.write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "22 21 0:44 / /shared rw shared:1 - nfs4 server:/x rw\n"
        "23 22 0:45 / /shared/fast\\040disk rw - xfs /dev/sdb rw\n"
        "24 21 0:46 / /fuse rw - fuse.objects obj rw\n"
        "a line of another kind\n"
    )
    return table


@pytest.mark.parametrize(
    ("path", "kind", "is_read"),
    [
        ("/data/x.log", "ext4", True),
        ("/shared/x.log", "nfs4", False),
        ("/sharedness/x.log", "ext4", True),
        ("/shared/fast disk/x.log", "xfs", True),
        ("/fuse/x.log", "fuse.objects", False),
    ],
)
def test_log_on_a_shared_file_system_needs_an_owner(tmp_path: Path, path: str, kind: str, is_read: bool) -> None:
    table = mounts(tmp_path)
    assert file_system(Path(path), table) == kind
    reason = reason_not_to_read(Path(path), "n1", None, table)
    assert (reason is None) == is_read
    assert is_read or "--log-owner" in str(reason)
    assert reason_not_to_read(Path(path), "n1", "n1", table) is None
    assert "n2" in str(reason_not_to_read(Path(path), "n1", "n2", table))


def test_agent_of_another_node_leaves_the_log_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = (LogOptions(tmp_path / "train.log", "lab/run"),)
    config = Config(tmp_path, tmp_path / "state", "n1", "http://collector.example", logs=options, log_owner="n2")
    with caplog.at_level(logging.WARNING, "tachograph.agent"):
        Agent(config)
    assert "is not followed here" in caplog.text


# -- options --


def told(*words: str, **env: str) -> tuple[LogOptions, ...]:
    return parse(words, parser("run"), env).logs


def test_formats_and_runs_are_told_once_for_all_logs_or_once_for_each() -> None:
    both = ["--log", "/a", "--log", "/b"]
    assert [(log.run, log.format) for log in told(*both, "--log-run", "x")] == [("x", None), ("x", None)]
    assert [log.run for log in told(*both, "--log-run", "x", "--log-run", "y")] == ["x", "y"]
    assert [log.run for log in told(*both, TACHOGRAPH_RUN="z")] == ["z", "z"]
    assert [log.format for log in told(*both, "--log-run", "x", "--log-adapter", "megatron")] == ["megatron"] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--log", "/a"], "--log-run"),
        (["--log", "/a", "--log-run", "x", "--log-adapter", "megatrn"], "megatrn"),
        (["--log", "/a", "--log-run", "x", "--log-adapter", "pattern"], "give --log-pattern FILE.toml"),
        (
            ["--log", "/a", "--log-run", "x", "--log-pattern", "/none.toml"],
            "/none.toml: the pattern file can't be read",
        ),
        (["--log", "/a", "--log-run", "x", "--log-run", "y"], "2 times for 1 logs"),
    ],
)
def test_logs_that_cant_be_meant_so_are_said(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        told(*words)
