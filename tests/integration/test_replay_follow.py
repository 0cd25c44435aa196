"""``tachograph replay --follow`` as a process: it shows a growing log, and Ctrl-C ends it with the whole report."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tachograph_collector.cli.main import cli

RUN = "import sys; from tachograph_collector.cli.main import main; sys.exit(main())"
LINE = "iter {n}: loss 3.2100, time 60000.00ms, mfu 31.20%\n"


def follow(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "replay", "--follow", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_whole_report_and_what_else_was_asked_for(number: int, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(LINE.format(n=n) for n in range(5)))
    minutes = tmp_path / "minutes.csv"
    process = follow("--no-detect", "--no-judge", "--minutes", minutes, path)
    assert process.stdout is not None
    first = process.stdout.readline()
    with path.open("a") as file:
        file.write(LINE.format(n=5))
    process.send_signal(number)
    told, complaints = process.communicate(timeout=60)
    assert "running  step 5" in first
    assert process.returncode == 0, complaints
    assert "6 steps" in told  # also what was written just before
    assert "has no clock" in " ".join(told.split())
    assert len(minutes.read_text().splitlines()) >= 5


def test_a_gate_is_held_against_the_last_report(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(LINE.format(n=n) for n in range(5)))
    process = follow("--no-detect", "--no-judge", "--fail-under", "100%", path)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "gate: train: goodput" in said
    assert process.returncode in {0, 1}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-"], "only a single file can be followed"),
        (["a.log", "b.log"], "only a single file can be followed"),
        (["--json", "a.log"], "--follow shows the report on standard output"),
        (["--minutes", "-", "a.log"], "--follow shows the report on standard output"),
        (["--now", "2030-01-01", "a.log"], "--now is for a log that is read as a whole"),
        (["--into", "http://127.0.0.1:1", "a.log"], "tachograph-agent"),
        (["--pattern", "none.toml", "a.log"], "none.toml: the pattern file can't be read"),
    ],
)
def test_what_has_no_meaning_for_a_growing_log_is_refused(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(cli, ["replay", "--follow", *arguments])
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_a_pattern_file_is_told_of_before_the_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text("[lines]\nstep = '(?P<step>'\n")
    result = CliRunner().invoke(cli, ["replay", "--pattern", str(tmp_path / "ours.toml"), "none.log"])
    assert result.exit_code == 2
    assert "lines.step: the regex can't be read" in result.stderr
