"""``tachograph doc`` as a user types it: a document, a record, and what a run makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tachograph_collector.cli.main import cli
from tachograph_collector.model.simulate import Design, Failures
from tachograph_collector.model.simulate.trace import simulate_log
from tachograph_collector.report.design import block

T0 = 1_800_000_000.0
STEP_S, SAVE_S, STEPS_A_SAVE = 30.0, 60.0, 40
WAY_BACK = (("detect", 300.0), ("replace", 420.0), ("reload", 120.0), ("warmup", 180.0))
PLAN = ("--nodes", "8", "--job-mtbf", "12h", "--blocking-save", "60s", "--saves", "blocking", "--runs", "0")


def doc(*words: str) -> Result:
    return CliRunner().invoke(cli, ["doc", *words], prog_name="tachograph")


def refused(told: Result, *words: str, code: int = 2) -> None:
    """One clear sentence on standard error with all of ``words``, and nothing on standard output."""
    assert told.exit_code == code, told.output
    assert told.stdout == ""
    (sentence,) = told.stderr.strip().splitlines()
    assert sentence.startswith("tachograph: ")
    for word in words:
        assert word in sentence


def no_longer(told: Result) -> list[str]:
    """The names in the table's rows that say so."""
    rows = [line.rstrip() for line in told.stdout.splitlines()]
    return [row.split("  ")[0] for row in rows if row.endswith("  no longer holds")]


def a_run(num_failures: int, *, slower: float = 1.0) -> Iterator[dict[str, Any]]:
    """A blocking run that fails at work, again and again, at uneven gaps; ``slower`` lengthens the way back."""
    at, done = T0, 0
    yield {"kind": "run.start", "t": at, "run": "r", "world_size": 64, "gpus": 64}
    for attempt in range(num_failures + 1):
        yield {"kind": "attempt.start", "t": at, "run": "r", "attempt": attempt, "resume_step": done}
        here = done
        for _ in range(20 + 173 * (attempt * attempt % 7) % 500):
            at, here = at + STEP_S, here + 1
            yield {"kind": "step", "t": at, "run": "r", "attempt": attempt, "rank": 0, "step": here, "dur": STEP_S}
            if here % STEPS_A_SAVE == 0:
                at, done = at + SAVE_S, here
                saved = {"kind": "checkpoint.saved", "mode": "sync", "dur": SAVE_S, "step": here}
                yield {**saved, "t": at, "run": "r", "attempt": attempt, "rank": 0}
        if attempt < num_failures:
            yield {"kind": "failure", "t": at + 1, "run": "r", "attempt": attempt, "category": "gpu"}
            for name, lasts_s in WAY_BACK:
                at += lasts_s * slower * (0.9 + 0.05 * (attempt % 5))
                yield {"kind": "phase", "t": at, "run": "r", "attempt": attempt, "name": name, "dur": lasts_s}
    yield {"kind": "run.end", "t": at, "run": "r", "status": "completed"}


@pytest.fixture
def log(tmp_path: Path) -> str:
    return written(tmp_path / "run.jsonl", a_run(30))


def written(path: Path, events: Iterator[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = str(tmp_path / "design.md")
    assert doc(*PLAN, "-o", path).exit_code == 0
    return path


def test_a_document_goes_to_standard_output_or_to_a_file(document: str) -> None:
    told = doc(*PLAN)
    assert told.exit_code == 0
    assert told.stdout == Path(document).read_text(encoding="utf-8")
    assert told.stdout.startswith("# Fault tolerance of the run: design")


def test_the_same_numbers_come_from_a_file(tmp_path: Path) -> None:
    init = str(tmp_path / "plan.toml")
    assert CliRunner().invoke(cli, ["plan", "--init", init]).exit_code == 0
    told = doc(init, "--nodes", "8", "--job-mtbf", "12h", "--runs", "0")
    assert told.exit_code == 0, told.output
    assert "## Open questions" in told.stdout


def test_a_record_has_its_number_and_date() -> None:
    told = doc(*PLAN, "--adr", "12", "--date", "2026-03-01")
    assert told.exit_code == 0
    assert told.stdout.startswith("# 12. Save every ")
    assert "Proposed, 2026-03-01." in told.stdout
    assert "## Revisit if" in told.stdout


@pytest.mark.parametrize("more", [(), ("--adr", "3")])
def test_a_document_of_a_run_s_own_numbers_holds_in_that_run(more: tuple[str, ...], log: str, tmp_path: Path) -> None:
    path = str(tmp_path / "own.md")
    told = doc("--from-run", log, "--nodes", "8", "--runs", "0", *more, "-o", path)
    assert told.exit_code == 0, told.output
    checked = doc("--check", path, log)
    gone = no_longer(checked)
    assert gone == ["interval"], checked.stdout  # the document recommends another one than the run used
    assert checked.exit_code == 1


def test_a_document_holds_in_a_simulated_run_of_its_own_design(tmp_path: Path) -> None:
    path, log = tmp_path / "design.md", tmp_path / "simulated.jsonl"
    numbers = ("--nodes", "128", "--job-mtbf", "12h", "--snapshot", "3s", "--persist", "57s", "--blocking-save", "60s")
    assert doc(*numbers, "--runs", "0", "-o", str(path)).exit_code == 0
    claims = block.read(path.read_text(encoding="utf-8"), "design.md").numbers
    value = {name: claim.value for name, claim in claims.items()}
    parts = {f"{name}_s": value[name] for name in ("detect", "replace", "reload", "warmup")}
    design = Design(
        interval_s=value["interval"], blocking_s=value["cost"], persist_s=value["persist"], step_s=30.0, **parts
    )
    events, _ = simulate_log(design, Failures(value["job_mtbf"]), duration_s=14 * 86_400, seed=5)
    log.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    told = doc("--check", str(path), str(log))
    assert told.exit_code == 0, told.stdout
    judged = " ".join(told.stdout.split())
    assert "Nothing contradicts the document: 11 of 12 numbers hold" in judged  # a simulated log tells no world size
    # The same document, for a cluster that is thought to fail a third as often.
    assert doc(*numbers[:3], "36h", *numbers[4:], "--runs", "0", "-o", str(path)).exit_code == 0
    told = doc("--check", str(path), str(log))
    assert told.exit_code == 1
    (line,) = (line for line in told.stdout.splitlines() if line.startswith("job MTBF "))
    assert "no longer holds" in line


def test_what_no_longer_holds_is_listed_and_exits_with_1(document: str, tmp_path: Path) -> None:
    slow = written(tmp_path / "slow.jsonl", a_run(30, slower=3.0))
    told = doc("--check", document, slow)
    assert told.exit_code == 1, told.output
    assert "".join(told.stdout.splitlines()).startswith(document)  # a long path is wrapped
    gone = no_longer(told)
    assert {"restart", "detect", "interval", "job MTBF"} <= set(gone)
    assert "a save stops training" not in gone


def test_an_edited_text_checks_as_before(document: str, log: str) -> None:
    before = doc("--check", document, log).stdout
    path = Path(document)
    path.write_text(path.read_text().replace("## Context", "## Why we are here\n\nBecause.\n\n## Context"))
    assert doc("--check", document, log).stdout == before


def test_a_run_without_a_failure_leaves_most_open_and_contradicts_nothing_of_it(document: str, tmp_path: Path) -> None:
    told = doc("--check", document, written(tmp_path / "calm.jsonl", a_run(0)))
    lines = told.stdout.splitlines()
    for name in ("job MTBF", "restart", "goodput", "detect"):
        (line,) = (line for line in lines if line.startswith(name + " "))
        assert "can't be judged" in line or "nothing has failed yet" in line


def test_a_document_without_its_numbers_is_refused(document: str, log: str) -> None:
    path = Path(document)
    path.write_text(path.read_text().partition("<!--")[0])
    refused(doc("--check", document, log), document, "no block of numbers", "tachograph doc")


def test_a_document_whose_numbers_were_edited_is_refused(document: str, log: str) -> None:
    path = Path(document)
    path.write_text(path.read_text().replace('"cost": {"value": 60.0', '"cost": {"value": 30.0'))
    refused(doc("--check", document, log), document, "was edited")


def test_what_can_t_be_used_is_refused_in_a_sentence(document: str, log: str, tmp_path: Path) -> None:
    refused(doc("--check", document), "no log is named")
    refused(doc("--check", str(tmp_path / "gone.md"), log), "gone.md", "no such file")
    refused(doc("--check", str(tmp_path), log), "directory")
    refused(doc("--check", document, str(tmp_path / "gone.jsonl")), "gone.jsonl")
    refused(doc("--check", document, log, "--adr", "3"), "--adr 3")
    refused(doc("--check", document, log, "--from-run", log), "--from-run")
    refused(doc("--check", document, log, "--run", "other"), "'other'", "r")
    refused(doc(*PLAN, "-o", str(tmp_path / "no" / "x.md")), "no directory")
    refused(doc("a.toml", "b.toml"), "2 files")
    binary = tmp_path / "binary.md"
    binary.write_bytes(b"\xff\xfe\x00")
    refused(doc("--check", str(binary), log), "no UTF-8")


def test_a_failed_plan_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "design.md"
    path.write_text("mine")
    assert doc("--nodes", "8", "--job-mtbf", "twelve", "-o", str(path)).exit_code == 2
    assert path.read_text() == "mine"
