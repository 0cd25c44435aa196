"""``tachograph fleet``: what all runs came to, as the collector's totals have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from collector_process import Starts
from tachograph_collector.cli.main import cli

RECORDED = str(Path(__file__).parents[2] / "examples" / "recorded_run.jsonl")


def typed(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_month_is_told_in_gpu_hours_and_money_by_account_and_cause(
    sqlite_url: str, start_collector: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = start_collector(sqlite_url)
    monkeypatch.setenv("TACHOGRAPH_URL", collector.url)
    assert "has no run of origin live in that time; recorded runs count with --origin replay" in typed("fleet")
    typed("replay", RECORDED, "--into", collector.url)
    month = ("fleet", "--origin", "replay", "--since", "2026-03-01", "--until", "2026-04-01")
    page, told = typed(*month), json.loads(typed(*month, "--json"))
    assert page.startswith(
        "1 run, 2026-03-01 00:00 to 2026-04-01 00:00 (UTC)\n1,680.4 GPU-hours held, 86.6 % of them kept"
    )
    rows = {
        line.split()[0]: line.split() for line in page.splitlines() if line and line.split()[0] in told["gpu_hours"]
    }
    assert {name: row[1] for name, row in rows.items()} == {
        name: f"{hours:,.1f}" for name, hours in told["gpu_hours"].items()
    }
    assert {name: row[4] for name, row in rows.items()} == {
        name: f"{sum_:,.2f}" for name, sum_ in told["money"].items()
    }
    assert "lost/rollback" in page
    assert "has no run" in typed("fleet", "--origin", "replay", "--since", "2027-01-01")


def test_runs_that_are_in_no_sum_are_named(
    sqlite_url: str, start_collector: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = start_collector(sqlite_url)
    monkeypatch.setenv("TACHOGRAPH_URL", collector.url)
    log = tmp_path / "run.jsonl"
    lines = [
        {"kind": "step", "t": 1_772_400_000 + 10 * i, "run": "nobody-knows", "step": i, "dur": 10} for i in range(1, 9)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    typed("replay", str(log), "--into", collector.url)
    page = " ".join(typed("fleet", "--origin", "replay").split())
    assert "not counted: 1 run of which nobody says how many GPUs (nobody-knows)" in page
