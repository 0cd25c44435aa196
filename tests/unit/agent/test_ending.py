"""How a process ends is told as it ends: what fails is no planned stop, what is done is no failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent import ending
from tachograph_agent.events import AnyEvent, UnknownEvent, decode

TRAIN = """
import builtins, multiprocessing, os, sys, threading
from tachograph_agent import Recorder

def train():
    recorder = Recorder()
    recorder.step_done(1)
    return recorder
"""


def ended(spool: Path, script: str, rank: int = 0) -> tuple[int, list[AnyEvent]]:
    """The exit status of a training script, and what it said after its step."""
    path = spool / "train.py"
    path.write_text(TRAIN + script, encoding="utf-8")
    told = {**os.environ, "TACHOGRAPH_SPOOL": str(spool), "TACHOGRAPH_RUN": "lab/run", "RANK": str(rank)}
    done = subprocess.run([sys.executable, str(path)], env=told, check=False, capture_output=True, timeout=60)
    lines = [line for file in sorted(spool.glob("u*/*/rank-*")) for line in file.read_bytes().splitlines()]
    events = [decode(line) for line in lines]
    assert [event.kind for event in events[:2]] == ["attempt.start", "step"]
    return done.returncode, events[2:]


def brief(events: list[AnyEvent]) -> list[tuple[Any, ...]]:
    """Kind, and what says how."""
    told = []
    for event in events:
        assert event.kind in ("failure", "attempt.end", "recorder.end")
        raw = event.data if isinstance(event, UnknownEvent) else {}
        told.append((event.kind, getattr(event, "detail", None) or getattr(event, "reason", None) or raw.get("reason")))
    return told


@pytest.mark.parametrize(
    ("script", "status", "detail"),
    [
        ("train(); sys.exit(3)", 3, "the script ended with exit code 3"),
        ("train(); sys.exit('no such config')", 1, "the script ended with exit code 1: no such config"),
        ("train(); sys.exit(True)", 1, "the script ended with exit code 1"),
        ("train(); exit(2)", 2, "the script ended with exit code 2"),
        ("train(); raise ValueError('bad batch')", 1, "ValueError: bad batch"),
        (
            "train()\ntry:\n    raise ValueError('bad batch')\nexcept ValueError:\n    sys.exit(4)",
            4,
            "the script ended with exit code 4 after ValueError: bad batch",
        ),
        ("with train():\n    raise SystemExit(5)", 5, "the script ended with exit code 5"),
        ("with train():\n    raise ValueError('bad batch')", 1, "ValueError: bad batch"),
    ],
)
def test_script_that_ends_with_an_error_is_told_as_a_failure_and_no_planned_end(
    tmp_path: Path, script: str, status: int, detail: str
) -> None:
    exited, events = ended(tmp_path, script)
    assert exited == status
    assert brief(events)[0] == ("failure", detail)
    assert [event.kind for event in events[1:]] == ["recorder.end"]


@pytest.mark.parametrize(
    "script",
    [
        "train()",
        "train(); sys.exit()",
        "train(); sys.exit(0)",
        "train(); sys.exit(256)",
        "with train():\n    pass",
        "with train():\n    sys.exit(0)",
        "train().close()",
        # Caught, and training went on.
        "r = train()\ntry:\n    sys.exit(1)\nexcept SystemExit:\n    r.step_done(2)",
        "train(); t = threading.Thread(target=sys.exit, args=(1,)); t.start(); t.join()",
    ],
)
def test_script_that_ends_without_an_error_is_told_as_a_planned_end(tmp_path: Path, script: str) -> None:
    status, events = ended(tmp_path, script)
    assert status == 0
    assert brief([event for event in events if event.kind != "step"]) == [
        ("attempt.end", "exit"),
        ("recorder.end", "exit"),
    ]


def test_interrupt_from_the_keyboard_is_an_order_to_stop_and_no_failure(tmp_path: Path) -> None:
    _, events = ended(tmp_path, "train(); raise KeyboardInterrupt")
    assert brief(events)[0] == ("attempt.end", ending.INTERRUPTED)


def test_what_fails_after_the_run_was_said_to_be_over_is_no_failure_of_it(tmp_path: Path) -> None:
    _, events = ended(tmp_path, "r = train(); r.run_end('completed'); raise RuntimeError('while clearing away')")
    assert [event.kind for event in events] == ["run.end", "recorder.end"]


def test_any_rank_tells_its_failure_and_only_the_first_tells_the_end(tmp_path: Path) -> None:
    for name, script, kinds in [
        ("fails", "train(); sys.exit(1)", ["failure", "recorder.end"]),
        ("ends", "train()", ["recorder.end"]),
    ]:
        (tmp_path / name).mkdir()
        _, events = ended(tmp_path / name, script, rank=3)
        assert [event.kind for event in events] == kinds


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("pass", ("attempt.end", "exit")),
        ("raise ValueError('bad batch')", ("failure", "ValueError: bad batch")),
        ("sys.exit(3)", ("failure", "the script ended with exit code 3")),
    ],
)
def test_rank_that_multiprocessing_started_tells_its_end(
    tmp_path: Path, method: str, end: str, expected: tuple[str, str]
) -> None:
    script = f"""
def rank():
    train()
    {end}

if __name__ == "__main__":
    process = multiprocessing.get_context("{method}").Process(target=rank)
    process.start()
    process.join()
"""
    _, events = ended(tmp_path, script)
    assert brief(events)[0] == expected
    assert [event.kind for event in events[1:]] == ["recorder.end"]


def test_script_whose_recorder_is_off_finds_sys_exit_as_it_was(tmp_path: Path) -> None:
    script = (
        "import sys; before = sys.exit; from tachograph_agent import Recorder; Recorder(); assert sys.exit is before"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TACHOGRAPH")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)


def test_error_that_can_not_be_put_into_words_is_told_by_its_name() -> None:
    class Odd(Exception):  # noqa: N818 - it is what it is called
        def __str__(self) -> str:
            raise RuntimeError

    failure = ending.of_error(Odd()).failure
    assert failure is not None
    assert failure["detail"] == "Odd: Odd"
