"""What hostile logs, broken machines and strange shells do to ``tachograph replay``: a sentence, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tachograph_agent.trainers import nanogpt
from tachograph_collector.cli.main import cli

T0 = 1_800_000_000.0  # 2027-01-15 08:00 UTC


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "step", "t": T0 + number, "run": "r", "attempt": 0, "rank": 0, "step": number, "dur": 1.0, **fields}


def a_run(num_steps: int = 60, **start: Any) -> list[dict[str, Any]]:
    return [
        {"kind": "run.start", "t": T0, "run": "r", "world_size": 8, **start},
        *(step(number, loss=2.0) for number in range(1, num_steps + 1)),
        {"kind": "run.end", "t": T0 + num_steps, "run": "r", "status": "completed"},
    ]


def write(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def replay(*words: str, **more: Any) -> Result:
    return CliRunner().invoke(cli, ["replay", *words], prog_name="tachograph", **more)


def the_run(*words: str) -> dict[str, Any]:
    told = replay("--json", *words)
    assert told.exit_code == 0, told.output
    return dict(json.loads(told.stdout)["runs"][0])


def in_a_shell(redirection: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The program as a shell starts it, with a redirection."""
    code = "from tachograph_collector.cli.main import main; main()"
    script = f'exec "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-c", code, "replay", *words], capture_output=True, check=False
    )


@pytest.fixture
def log(tmp_path: Path) -> str:
    return write(tmp_path / "run.jsonl", a_run())


@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), float("-inf")])
def test_a_price_in_the_log_that_is_none_makes_no_money_and_is_told(price: float, tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", a_run(price_per_gpu_hour=price))
    details = the_run(log)["details"]
    assert details["money"] is None
    assert details["price_per_gpu_hour"] is None
    assert any("GPU-hour" in note and f"{price:g}" in note for note in details["notes"])
    assert the_run("--price", "3", log)["details"]["money"]["held"] == pytest.approx(60 * 8 * 3 / 3600)


def test_money_beyond_all_numbers_is_unknown(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", a_run(world_size=10**15, price_per_gpu_hour=1e300))
    assert the_run(log)["details"]["money"] is None
    assert "inf" not in replay(log).stdout


@pytest.mark.parametrize("last", [253_402_300_799.0, 253_402_300_799.999])
def test_a_run_at_the_end_of_the_year_9999_can_be_shown_in_every_way(last: float, tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", [step(1, t=last - 61), step(2, t=last)])
    for words in ([], ["--json"], ["--html", str(tmp_path / "r.html")], ["--minutes", str(tmp_path / "m.parquet")]):
        told = replay(*words, log)
        assert told.exit_code == 0, told.output


def test_events_after_now_are_not_seen(log: str) -> None:
    run = the_run("--now", str(T0 + 30), log)
    assert (run["wall_s"], run["kept_s"], run["status"], run["steps"]) == (30, 30, "running", 30)


def test_a_time_before_the_log_is_said_to_be_before_it(log: str) -> None:
    told = replay("--now", "2000-01-01", log)
    assert told.exit_code == 2
    assert "2000-01-01T00:00:00Z" in told.stderr
    assert "begins at 2027-01-15T08:00:00Z" in told.stderr


def test_events_that_were_set_aside_are_counted_among_the_notes(tmp_path: Path) -> None:
    lone = {"kind": "heartbeat", "t": T0 + 400 * 86_400, "run": "r"}
    notes = the_run(write(tmp_path / "run.jsonl", [*a_run(), lone]))["details"]["notes"]
    assert any("1 event set aside" in note and "broken clock" in note for note in notes)


def test_findings_are_told_where_there_is_no_run(tmp_path: Path) -> None:
    beats = [{"kind": "heartbeat", "t": T0, "run": "r"}]
    findings = [
        {"kind": "health", "t": T0 + n, "run": "r", "check": "xid", "detail": f"Xid {n}"} for n in range(70, 75)
    ]
    told = replay(write(tmp_path / "run.jsonl", [*beats, *findings]))
    assert told.exit_code == 2
    assert "5 health" in told.stderr
    assert "'Xid 70' at 2027-01-15T08:01:10Z; 'Xid 71' at 2027-01-15T08:01:11Z; 'Xid 72' at" in told.stderr


def test_a_finding_that_lasted_is_told_with_its_beginning_and_length(tmp_path: Path) -> None:
    hang = {"kind": "failure", "t": T0 + 600, "dur": 600, "run": "r", "detail": "collective timed out"}
    told = replay(write(tmp_path / "run.jsonl", [hang]))
    assert "'collective timed out' from 2027-01-15T08:00:00Z for 10 min" in told.stderr


YEARLESS = "[08/30 10:00:{:02d}] d2.utils.events INFO:  eta: 0:00:09  iter: {}  total_loss: 2.0  time: 1.0  lr: 0.1\n"


@pytest.mark.parametrize(("words", "year"), [(["--year", "2025"], "2025"), ([], "1972")])
def test_dates_without_a_year_take_the_one_that_is_given(words: list[str], year: str, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("".join(YEARLESS.format(number, number) for number in range(19, 59)))
    told = replay("--format", "detectron2", *words, str(log))
    assert told.exit_code == 0, told.output
    assert f"{year}-08-30" in told.stdout
    assert ("--year YEAR" in " ".join(told.stdout.split())) == (not words)


def test_a_defect_of_a_reader_is_one_sentence_with_the_line_and_a_traceback_only_if_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, lines: Any, context: Any) -> Any:
        for line in lines:
            if "iter 2" in line:
                raise KeyError("made up")
            yield from ()

    monkeypatch.setattr(nanogpt.NanoGPT, "read", broken)
    log = tmp_path / "train.log"
    log.write_text("".join(f"iter {n}: loss 3.0000, time 250.00ms, mfu 30.00%\n" for n in range(5)))
    monkeypatch.delenv("TACHOGRAPH_DEBUG", raising=False)
    told = replay(str(log))
    assert told.exit_code == 70
    assert told.stderr.count("\n") == 1
    assert "train.log, line 3: the reader of the format nanogpt failed there (KeyError: 'made up')" in told.stderr
    monkeypatch.setenv("TACHOGRAPH_DEBUG", "1")
    assert "Traceback" in replay(str(log)).stderr


def test_a_name_can_not_move_the_cursor_or_break_the_line_of_an_error(tmp_path: Path) -> None:
    told = replay(str(tmp_path / "a\nb\x1b[31m[bold].jsonl"))
    assert told.exit_code == 2
    assert told.stderr.count("\n") == 1
    assert "\x1b" not in told.stderr
    assert r"a\nb\x1b[31m[bold].jsonl: no such file" in told.stderr


@pytest.mark.parametrize("words", [[], ["--json"], ["--minutes", "-"]], ids=["report", "json", "minutes"])
def test_a_closed_standard_output_takes_nothing_and_breaks_nothing(words: list[str], log: str) -> None:
    done = in_a_shell(">&-", *words, log)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_standard_input_is_said_to_be_closed() -> None:
    done = in_a_shell("<&-", "-")
    assert done.returncode == 2
    assert done.stderr.startswith(b"tachograph: standard input is closed")


@pytest.mark.parametrize(
    ("redirection", "words", "said"),
    [
        ("> /dev/full", [], "standard output: no space left on device"),
        ("> /dev/full", ["--json"], "standard output: no space left on device"),
        ("", ["--html", "/dev/full"], "--html /dev/full: can't be written (no space left on device)"),
    ],
)
def test_a_full_disk_is_one_sentence_that_says_where(redirection: str, words: list[str], said: str, log: str) -> None:
    done = in_a_shell(redirection, *words, log)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"tachograph: {said}")
    assert done.stderr.count(b"\n") == 1


def test_a_directory_that_links_to_itself_is_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder / "run.jsonl", a_run())
    (folder / "again").symlink_to(folder)
    assert the_run(str(folder))["kept_s"] == 60


def test_the_gate_says_a_hostile_name_without_obeying_it(tmp_path: Path) -> None:
    name = "\x1b]0;pwn\x07\nrun"
    told = replay("--fail-under", "0.5", write(tmp_path / "run.jsonl", [{**event, "run": name} for event in a_run()]))
    assert told.stderr.count("\n") == 2
    assert "\x1b" not in told.stderr + told.stdout
    assert r"gate: \x1b]0;pwn\x07\nrun: goodput 1.0000 reaches 0.5000" in told.stderr
