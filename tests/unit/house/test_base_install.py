"""Without any extra, the commands start and replay a log; what needs an extra says which line to type.

The libraries of the extras are installed where tests run, so each command runs in a process of its own that refuses to
import them, as if they were not there.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tree
from base_install import absent_modules, tachograph
from tachograph_collector.cli.main import COMMANDS

ELSEWHERE = {"replay", "plan", "doc", "ls", "watch", "formats", "completion", "doctor"}
"""Commands that other tests here run."""
RECORDED = str(tree.REPOSITORY / "examples" / "recorded_run.jsonl")


def test_the_extras_are_what_is_taken_away() -> None:
    absent = set(absent_modules())
    assert {"numpy", "pandas", "scipy", "matplotlib", "pyarrow", "jinja2", "zstandard"} <= absent
    assert absent & {"msgspec", "click", "rich", "urllib3", "prometheus_client", "tachograph_agent"} == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        *([each, "--help"] for each in ("replay", "plan", "doc", "ls", "watch")),
        ["formats"],
        ["completion", "zsh"],
    ],
)
def test_commands_that_need_no_extra_run_without(arguments: list[str], tmp_path: Path) -> None:
    done = tachograph(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_the_doctor_needs_no_extra_and_none_of_its_checks_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACHOGRAPH_SPOL", "a slip")
    done = tachograph("doctor", "--spool", str(tmp_path), cwd=tmp_path)
    assert "did you mean TACHOGRAPH_SPOOL?" in done.stdout
    assert "the check itself failed" not in done.stdout


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - ELSEWHERE))
def test_a_command_runs_without_any_extra_or_names_the_line_to_type(name: str, tmp_path: Path) -> None:
    done = tachograph(name, "--help", cwd=tmp_path)
    if done.returncode:
        told = (
            f"tachograph: tachograph {name} needs an extra that is not installed: pip install 'tachograph[collector]'\n"
        )
        assert (done.returncode, done.stderr) == (3, told)
    else:
        assert done.stdout.startswith(f"Usage: tachograph {name}")


def test_the_recorded_run_is_replayed_without_any_extra(tmp_path: Path) -> None:
    done = tachograph("replay", RECORDED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "atlas-7b-pretrain" in done.stdout
    assert " ".join(done.stdout.split()).count("numpy and scipy; type: pip install 'tachograph[collector]'") == 1


def test_the_recorded_run_is_booked_to_the_second_without_any_extra(tmp_path: Path) -> None:
    done = tachograph("replay", RECORDED, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    events = [json.loads(line) for line in Path(RECORDED).read_text().splitlines()]
    told_at = {event["kind"]: event["t"] for event in events}
    wall_s = told_at["run.end"] - told_at["run.start"]
    assert (run["status"], run["steps"], run["attempts"], run["failures"]) == ("completed", 12_400, 6, 4)
    assert run["planned_stops"] == 1
    accounts = [run["kept_s"], run["checkpoint_s"], run["lost_s"], run["restart_s"]]
    assert sum(accounts) == pytest.approx(wall_s, abs=1e-5)
    assert min(accounts) > 0


@pytest.mark.parametrize(
    "option", [["--html", "report.html"], ["--minutes", "minutes.parquet"], ["--judge"], ["--incidents", "i.jsonl"]]
)
def test_a_flag_whose_extra_is_missing_names_the_line_to_type(option: list[str], tmp_path: Path) -> None:
    done = tachograph("replay", RECORDED, *option, cwd=tmp_path)
    assert done.returncode != 0
    assert "pip install 'tachograph[collector]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_design_document_needs_an_extra_and_says_which(tmp_path: Path) -> None:
    done = tachograph("doc", "--nodes", "8", "--job-mtbf", "12h", "-o", "design.md", cwd=tmp_path)
    assert done.returncode == 3
    assert "pip install 'tachograph[collector]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_plan_needs_an_extra_and_its_file_to_begin_with_does_not(tmp_path: Path) -> None:
    done = tachograph("plan", "--init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[failures]" in (tmp_path / "plan.toml").read_text()
    done = tachograph("plan", "plan.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip install 'tachograph[collector]'" in done.stderr
