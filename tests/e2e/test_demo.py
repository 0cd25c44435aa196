"""`make demo`, whole: it trains, is disturbed, finds what was done to it, ends by itself, and leaves a report only."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ENDS_WITHIN_S = 400
UP_WITHIN_S = 60


@dataclass
class Demo:
    """The demo as a process, with a folder of its own for what is thrown away."""

    process: subprocess.Popen[str]
    folder: Path
    said: str = ""

    def until(self, words: str) -> str:
        """Read on until it has said this; what it has said so far."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if words in line:
                return self.said
        raise AssertionError(f"it ended without {words!r}:\n{self.said}")

    def end(self) -> int:
        """Read to its end, and give the exit code."""
        rest, _ = self.process.communicate(timeout=ENDS_WITHIN_S)
        self.said += rest
        return self.process.returncode

    def pid(self) -> int:
        """Of the demo itself, which runs under ``timeout``."""
        (pid,) = self.pids_of_demo()
        return pid

    def pids_of_demo(self) -> list[int]:
        """None while ``timeout`` has not started it; an ``OSError`` once both are gone."""
        timeout = self.process.pid
        return [int(pid) for pid in Path(f"/proc/{timeout}/task/{timeout}/children").read_text().split()]

    def has_processes(self, expected: bool) -> bool:
        """Wait until some run, or none does; whether it came to that."""
        until_s = time.monotonic() + UP_WITHIN_S
        while bool(self.processes()) is not expected:
            if time.monotonic() > until_s:
                return False
            time.sleep(0.05)
        return True

    def processes(self) -> list[str]:
        """The command lines of what it started and still runs.

        Known by where they throw things away: what is just being started has the command line of the demo itself.
        """
        mark, own = f"TMPDIR={self.folder}\0".encode(), {self.process.pid}
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            demo = self.pids_of_demo()
            if not demo:
                return []  # it has not begun
            own.update(demo)
        lines = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if int(entry.name) not in own and mark in (entry / "environ").read_bytes():
                    lines.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:  # it has just ended
                continue
        return lines


@pytest.fixture
def start_demo(tmp_path: Path) -> Iterator[type[Demo]]:
    """``start_demo("--keep")``; with a limit of time for all of it, and killed when the test is over."""
    started: list[Demo] = []
    (tmp_path / "thrown away").mkdir()

    def start(*words: str) -> Demo:
        command = ["timeout", "--kill-after=10", str(ENDS_WITHIN_S), sys.executable, "-u", "examples/run_demo.py"]
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "out"), *words],
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": str(tmp_path / "thrown away")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(Demo(process, tmp_path / "thrown away"))
        return started[-1]

    yield start  # type: ignore[misc]  # its kind is known
    for demo in started:
        demo.process.terminate()  # timeout hands it on
        demo.process.communicate()


def test_the_demo_finds_each_fault_and_leaves_a_report_and_nothing_else(start_demo, tmp_path: Path) -> None:
    demo = start_demo()
    page = re.search(r"http://127\.0\.0\.1:\d+/", demo.until("The page:"))
    assert page is not None
    with urllib.request.urlopen(page[0]) as answer:
        assert "Tachograph" in answer.read().decode()

    assert demo.end() == 0, demo.said
    table = demo.said[demo.said.rindex("\nfault ") :]
    for what, found in (
        ("rank 5 killed", "failure, rank 5"),
        ("rank 3 held back", "straggler, rank 3"),
        ("rank 6 reads garbage", "loss_spike, run"),
        ("node n2 silent", "dead_node, node n2"),
    ):
        assert re.search(rf"^{what} +{found} +\d+ s$", table, re.MULTILINE), demo.said
    assert "3 attempts" in demo.said
    assert "2 failures" in demo.said

    report = (tmp_path / "out" / "report.html").read_text()
    assert "node n2 is dead" in report
    assert "the loss jumped" in report
    assert demo.processes() == []
    assert list(demo.folder.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_demo_that_is_interrupted_or_killed_leaves_no_process_behind(start_demo, how: signal.Signals) -> None:
    demo = start_demo()
    demo.until("ranks train")
    assert demo.processes(), "the collector at least"
    os.kill(demo.pid(), how)
    code = demo.end()
    if how != signal.SIGKILL:
        assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[how]
        assert list(demo.folder.iterdir()) == []
    assert demo.has_processes(False), demo.processes()


def test_a_demo_that_is_interrupted_while_it_starts_and_again_while_it_ends_leaves_no_process_behind(
    start_demo,
) -> None:
    demo = start_demo()
    assert demo.has_processes(True)
    for how in (signal.SIGINT, signal.SIGTERM):
        os.kill(demo.pid(), how)
    # Which of two signals at once is heard first is for the kernel to say.
    assert demo.end() in (130, 143)
    assert list(demo.folder.iterdir()) == []
    assert demo.has_processes(False), demo.processes()
