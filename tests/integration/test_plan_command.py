"""``tachograph plan`` as a user types it: files, options, logs, and what hopeless input gets instead of a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tachograph_collector.cli.main import cli

DOCUMENTED = Path(__file__).parents[2] / "docs" / "plan.md"
RECORDED = str(Path(__file__).parents[2] / "examples" / "recorded_run.jsonl")


def plan(*words: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *words], prog_name="tachograph")


def the_plan(*words: str) -> dict[str, Any]:
    told = plan("--runs", "0", "--json", *words)
    assert told.exit_code == 0, told.output
    return dict(json.loads(told.stdout)["plan"])


def refused(told: Result, *words: str) -> None:
    """One clear sentence on standard error with all of ``words``, exit code 2, and nothing on standard output."""
    assert told.exit_code == 2, told.output
    assert "Traceback" not in told.output
    assert told.stdout == ""
    sentence = told.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in sentence


def printed(command: str) -> list[str]:
    told = CliRunner(env={"COLUMNS": "96"}).invoke(cli, command.split()[1:], prog_name="tachograph")
    return [line.rstrip() for line in told.stdout.splitlines()]


# What comes out


def test_the_number_of_nodes_is_enough_for_a_plan_of_guesses() -> None:
    told = plan("--nodes", "128", "--runs", "0")
    assert told.exit_code == 0, told.output
    assert "Save every 8 min, asynchronously: expect 94.7 % goodput" in " ".join(told.stdout.split())
    assert told.stderr == ""


def test_options_go_before_the_file_and_the_file_before_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('nodes = 64\n[restart]\ndetect = { value = "4 min", mark = "measured" }\nreload = "9 min"\n')
    numbers = the_plan(str(file), "--reload", "8min")["numbers"]
    assert (numbers["nodes"]["value"], numbers["nodes"]["source"]) == (64, "file")
    assert (numbers["detect"]["value"], numbers["detect"]["mark"]) == (240, "measured")
    assert (numbers["reload"]["value"], numbers["reload"]["source"]) == (480, "flag")
    assert (numbers["replace"]["value"], numbers["replace"]["source"]) == (720, "default")


def test_numbers_are_guesses_until_they_are_marked() -> None:
    words = ["--nodes", "128", "--node-mtbf", "264d", "--detect", "4min", "--storage", "20GB/s"]
    words += ["--checkpoint-size", "1.1TB", "--measured", "node-mtbf,detect", "--spec-sheet", "storage"]
    numbers = the_plan(*words)["numbers"]
    marks = {name: numbers[name]["mark"] for name in ("node_mtbf", "detect", "storage", "checkpoint_size")}
    assert marks == {
        "node_mtbf": "measured", "detect": "measured", "storage": "spec sheet", "checkpoint_size": "guess",
    }  # fmt: skip


def test_init_writes_a_file_that_makes_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    told = plan("--init", str(file))
    assert (told.exit_code, told.stdout) == (0, "")
    assert the_plan(str(file))["job_mtbf_s"]["expected"] == pytest.approx(49.5 * 3600)


def test_init_never_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text("mine")
    refused(plan("--init", str(file)), "is there already")
    assert file.read_text() == "mine"


def test_a_run_tells_its_own_numbers_and_the_rest_stays_guessed() -> None:
    made = the_plan("--from-run", RECORDED)
    numbers = made["numbers"]
    assert made["name"] == "atlas-7b-pretrain"
    assert (numbers["snapshot"]["mark"], numbers["snapshot"]["source"]) == ("measured", "run")
    assert numbers["snapshot"]["samples"] > 10
    assert 1 < numbers["job_mtbf"]["samples"] <= 4  # four failures, of which one may have joined another
    assert (numbers["peer_share"]["mark"], numbers["peer_share"]["source"]) == ("guess", "default")
    assert made["ladder"][0]["title"] == "asynchronous, as now"
    assert any("failures stand behind the MTBF" in note for note in made["notes"])


def test_what_an_option_says_goes_before_what_the_run_measured() -> None:
    numbers = the_plan("--from-run", RECORDED, "--job-mtbf", "20h")["numbers"]
    assert (numbers["job_mtbf"]["value"], numbers["job_mtbf"]["source"]) == (72_000, "flag")


def test_a_page_is_written_beside_the_terminal_output(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    told = plan("--nodes", "128", "--runs", "0", "--html", str(page))
    assert told.exit_code == 0
    assert "Save every" in told.stdout
    assert page.read_text().startswith("<!doctype html>")


def test_the_same_seed_gives_the_same_plan_and_is_shown() -> None:
    words = ("--nodes", "128", "--runs", "20", "--seed", "7")
    one, other = plan(*words, "--json"), plan(*words, "--json")
    assert one.exit_code == 0, one.output
    assert one.stdout == other.stdout
    made = json.loads(one.stdout)["plan"]
    assert (made["seed"], made["simulated_runs"]) == (7, 20)
    assert {cell["seed"] for step in made["ladder"] for cell in step["cells"]} == {7}
    assert "20 simulated runs a number, seed 7" in " ".join(plan(*words).stdout.split())


def test_the_page_about_plans_shows_what_is_really_printed() -> None:
    blocks = re.findall(r"^```(?:sh|text)\n(.*?)\n```", DOCUMENTED.read_text(), re.MULTILINE | re.DOTALL)
    (command, shown), (of_a_run, beginning) = blocks[:2], blocks[-2:]
    assert printed(command) == shown.splitlines()
    answer = beginning.partition("\n\n…")[0].splitlines()
    assert printed(of_a_run.replace("examples/recorded_run.jsonl", RECORDED))[: len(answer)] == answer


# What is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ["--nodes 128"]),
        (["--nodes", "128", "--node-mtbf", "264"], ["--node-mtbf: '264' has no unit", "12 h"]),
        (["--nodes", "128", "--node-mtbf", "264d", "--job-mtbf", "12h"], ["both given", "give one"]),
        (
            ["--nodes", "128", "--mtbf", "12h"],
            ["--mtbf 12h", "one node's or the whole job's?", "--node-mtbf or --job-mtbf"],
        ),
        (["--nodes", "128", "--runs", "1"], ["runs is 1; expected at least 2"]),
        (["--nodes", "0"], ["--nodes: '0' is zero", "1 to 1,000,000"]),
        (["--nodes", "1.5"], ["--nodes: '1.5' is no whole number"]),
        (["--nodes", "nan"], ["--nodes: 'nan' is not finite"]),
        (["--nodes", "128", "--detect", "-3min"], ["--detect: '-3min' is negative"]),
        (["--nodes", "128", "--storage", "20"], ["--storage: '20' has no unit", "GB/s"]),
        (["--nodes", "128", "--price", "1e9"], ["--price: '1e9' is beyond belief"]),
        (["--nodes", "128", "--measured", "detct"], ["--measured detct: there is no such number", "detect"]),
        (["--nodes", "128", "--measured", "detect"], ["no value is given for it", "--detect"]),
        (["--nodes", "2", "--checkpoint-size", "1EB"], ["checkpoint_size over host_copy", "beyond belief"]),
        (["gone.toml"], ["gone.toml: there is no such file", "--init gone.toml"]),
        (["--from-run", "gone.jsonl"], ["gone.jsonl"]),
        (["--nodes", "128", "--html", "gone/plan.html"], ["there is no directory gone"]),
    ],
)
def test_a_slip_is_named_with_its_value_and_what_to_do(words: list[str], said: list[str]) -> None:
    refused(plan(*words), *said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"nodes = ", ["plan.toml: this is no TOML"]),
        (b"\xff\xfe", ["plan.toml: byte 0 is no UTF-8"]),
        (b"nodse = 1", ["plan.toml: unknown key 'nodse'; did you mean 'nodes'?"]),
        (b"nodes = 8\n[restart]\ndetect = 10", ["plan.toml: [restart] detect: 10 has no unit"]),
        (b"# " + b"x" * 1_000_001, ["plan.toml: larger than"]),
    ],
)
def test_a_file_with_a_slip_is_refused_by_name(tmp_path: Path, text: bytes, said: list[str]) -> None:
    file = tmp_path / "plan.toml"
    file.write_bytes(text)
    refused(plan(str(file)), *said)


def test_a_directory_is_no_plan(tmp_path: Path) -> None:
    refused(plan(str(tmp_path)), "that is a directory")


def test_of_several_runs_one_must_be_named(tmp_path: Path) -> None:
    log = tmp_path / "two.jsonl"
    events = [
        {"kind": kind, "t": 1_800_000_000.0 + at, "run": run, **more}
        for run in ("one", "other")
        for at, kind, more in (
            (0, "run.start", {"world_size": 8}), (60, "step", {"step": 1, "dur": 60.0}), (61, "run.end", {}),
        )
    ]  # fmt: skip
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    refused(plan("--from-run", str(log)), "holds 2 runs", "one, other", "--run")
    refused(plan("--from-run", str(log), "--run", "third"), "holds no run 'third'")
    assert the_plan("--from-run", str(log), "--run", "other")["name"] == "other"
