"""The wrapper ``exec``: what each ending of a command is told as, and what it puts into the command's environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent.identity import identify
from tachograph_agent.sidecar.exec import Ending, run_name
from tachograph_agent.sidecar.main import main
from tachograph_agent.sidecar.oomkills import OomKills, counters_of

ALONE = """
import json, os, signal, sys
from pathlib import Path
from tachograph_agent.sidecar.exec import run
from tachograph_agent.sidecar.oomkills import OomKills
counter, *words = sys.argv[1:]
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
stops = frozenset({signal.SIGTERM, signal.SIGUSR1})
events = []
status = run(words, os.environ, events.append, stops, OomKills([Path(counter)] if counter else []))
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
print(json.dumps([status, events]))
"""
AGENT = [sys.executable, "-m", "tachograph_agent.sidecar.main"]
WITHIN_S = 60


def told_by(*words: str, counter: str = "") -> tuple[int, list[dict[str, Any]]]:
    """What the wrapper gives and tells of a command, in a process of its own: signals are the whole process's, and a
    thread that the tests have besides would take some.
    """
    command = [sys.executable, "-c", ALONE, counter, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=WITHIN_S, check=True)
    status, events = json.loads(done.stdout.splitlines()[-1])
    return status, events


def ended_as(arguments: list[str]) -> int:
    return subprocess.run([*AGENT, "exec", *arguments], timeout=WITHIN_S, check=False).returncode


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def test_clean_exit_is_no_failure() -> None:
    assert told_by(*python("")) == (0, [])


def test_exit_code_is_ours_and_told() -> None:
    status, (event,) = told_by(*python("raise SystemExit(7)"))
    assert status == 7
    assert (event["kind"], event["exit_code"], event["category"]) == ("failure", 7, "unknown")


@pytest.mark.parametrize(("number", "category"), [(signal.SIGKILL, "unknown"), (signal.SIGSEGV, "software")])
def test_signal_that_nobody_forwarded_is_a_failure_by_name(number: signal.Signals, category: str) -> None:
    status, (event,) = told_by(*python(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert status == 128 + number
    assert (event["kind"], event["signal"], event["category"]) == ("failure", number.name, category)


@pytest.mark.parametrize("ends_by", ["os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_forwarded_stop_is_a_planned_end_whatever_ends_the_command_then(ends_by: str) -> None:
    script = (
        "import os, signal, sys\n"
        f"signal.signal(signal.SIGTERM, lambda *_: {ends_by})\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "while True: signal.pause()"
    )
    _, events = told_by(*python(script))
    assert [event["kind"] for event in events] == ["attempt.end"]
    assert events[0]["planned"] is True
    assert "SIGTERM" in events[0]["reason"]


def test_signal_that_means_no_stop_is_forwarded_and_says_nothing() -> None:
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))\n"
        "os.kill(os.getppid(), signal.SIGUSR2)\n"
        "while True: signal.pause()"
    )
    assert told_by(*python(script)) == (0, [])


def test_command_gets_the_signal_mask_that_we_had() -> None:
    script = "import signal; raise SystemExit(len(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert told_by(*python(script))[0] == len(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_failure_long_after_a_notice_is_a_failure() -> None:
    assert Ending(1, noticed_s=60.0).failure() is None
    assert Ending(1, noticed_s=901.0).failure() is not None


def test_kill_for_memory_is_told_as_the_hosts(tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("low 0\noom 1\noom_kill 3\n")
    script = f"open({str(counter)!r}, 'w').write('low 0\\noom 2\\noom_kill 5\\n'); raise SystemExit(1)"
    _, (event,) = told_by(*python(script), counter=str(counter))
    assert (event["category"], event["oom_kills"]) == ("host", 2)
    assert "out of host memory" in event["detail"]


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/job/step", "job/step/memory.events"),
        ("0::/", "memory.events"),
        ("5:cpu,memory:/slurm/job", "memory/slurm/job/memory.oom_control"),
    ],
)
def test_control_groups_of_both_versions_are_found(tmp_path: Path, line: str, file: str) -> None:
    proc, root = tmp_path / "cgroup", tmp_path / "sys"
    proc.write_text(f"9:cpuset:/other\n{line}\n")
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text("oom_kill 1\n")
    assert counters_of(proc, root) == [root / file]
    assert OomKills.of_this_process(proc, root).since() == 0


def test_control_group_that_cant_be_read_counts_none(tmp_path: Path) -> None:
    assert OomKills.of_this_process(tmp_path / "nothing", tmp_path).since() == 0


def test_command_that_is_not_there_is_said_with_the_shells_status(capfd: pytest.CaptureFixture[str]) -> None:
    status, (event,) = told_by("no-such-command-at-all")
    assert status == 127
    assert event["kind"] == "failure"
    assert "no-such-command-at-all" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["torchrun", "x.py"], "-- torchrun x.py"),
        (["--"], "no command"),
        (["--stop-signals", "TERMM", "--", "x"], "TERMM"),
    ],
)
def test_what_cant_be_meant_is_said_with_status_2(
    arguments: list[str], word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["exec", *arguments])
    except SystemExit as end:  # as argparse ends
        status = int(str(end.code))
    assert status == 2
    assert word in capfd.readouterr().err


def test_run_is_named_as_the_script_would_name_it() -> None:
    assert run_name(["torchrun", "--nproc-per-node", "8", "dir/train.py", "x.py"], {"USER": "ada"}) == "ada/train"
    assert run_name(["./launch", "now"], {"USER": "ada"}) == "ada/launch"
    assert run_name(["torchrun", "train.py"], {"USER": "ada", "SLURM_JOB_NAME": "llama"}) == "ada/llama"


def test_ranks_and_wrapper_agree_on_the_run_and_no_attempt_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in list(os.environ):
        if name.startswith(("TACHOGRAPH", "SLURM")):
            monkeypatch.delenv(name)
    spool = tmp_path / "spool"
    spool.mkdir()
    script = tmp_path / "train.py"
    script.write_text(
        "import json, os\nprint(json.dumps({k: v for k, v in os.environ.items() if k.startswith('TACHOGRAPH')}))\n"
        "raise SystemExit(3)\n"
    )
    assert ended_as(["--spool", str(spool), "--", sys.executable, str(script)]) == 3
    environment = json.loads(capfd.readouterr().out)
    (file,) = spool.glob("u*/agent/rank-*.jsonl")
    event = json.loads(file.read_text())
    assert event["run"] == environment["TACHOGRAPH_RUN"] == identify(environment).run
    assert "TACHOGRAPH_ATTEMPT" not in environment
    assert "attempt" not in event


def test_spool_that_takes_nothing_never_keeps_the_command_from_running(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ended_as(["--spool", str(tmp_path / "none"), "--", *python("raise SystemExit(4)")]) == 4
    assert "not recorded" in capfd.readouterr().err


def test_switched_off_it_runs_the_command_and_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACHOGRAPH", "off")
    assert ended_as(["--spool", str(tmp_path), "--", *python("raise SystemExit(5)")]) == 5
    assert list(tmp_path.iterdir()) == []
