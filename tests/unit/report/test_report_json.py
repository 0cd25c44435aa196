"""The JSON report holds what its page of documentation says, exactly, and unknown is null."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tachograph_collector.report.json_report import to_json
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.windows import clip
from unit.report import made_up

DOCUMENT = Path(__file__).parents[3] / "docs" / "replay-json.md"


def documented() -> dict[str, set[str]]:
    """Keys by the object that they belong to, as the page's tables have them."""
    found: dict[str, set[str]] = {}
    section = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("## `"):
            section = line.split("`")[1]
            found[section] = set()
        elif section and line.startswith("| `"):
            found[section] |= set(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return found


def first_run(*runs: RunReport, with_model: bool = False) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(to_json(runs, with_model=with_model))["runs"][0]
    return run


def test_every_key_is_documented_and_every_documented_key_is_there() -> None:
    run = first_run(replace(made_up.three_attempts(), incidents=()), with_model=True)
    there: dict[str, set[str]] = {"runs[]": set(run), "runs[].details": set(run["details"])}
    model = first_run(made_up.month(num_losses=10, planned_mtbf_s=20_000.0), with_model=True)["model"]
    there |= {"runs[].model": set(model)}
    there |= {f"runs[].model.{name}": set(model[name]) for name in ("measured", "goodput", "best", "rate")}
    there |= {"runs[].model.memorylessness": set(model["memorylessness"])}
    there |= {f"runs[].model.{name}[]": set(model[name][0]) for name in ("findings", "waste")}
    for name in ("spans", "attempts_detail", "interruptions", "checkpoints_detail", "anomalies", "skips"):
        there[f"runs[].details.{name}[]"] = set(run["details"][name][0])
    assert there == documented()


def test_the_accounts_sum_to_the_wall_clock_to_the_microsecond() -> None:
    report = made_up.three_attempts()
    run = first_run(report)
    accounts = [run[f"{name}_s"] for name in ("kept", "checkpoint", "lost", "restart")]
    assert sum(round(value * 1e6) for value in accounts) == round(run["wall_s"] * 1e6) == report.books.wall_us
    assert run["restart_s"] == report.books.accounts_us["restart"] / 1e6
    assert run["restart_s"] % 1 == pytest.approx(0.25)


def test_counts_are_numbers_and_the_version_is_there() -> None:
    document = json.loads(to_json([made_up.three_attempts()]))
    (run,) = document["runs"]
    assert document["schema"] == 1
    assert (run["attempts"], run["failures"], run["planned_stops"], run["unexplained_stops"]) == (3, 1, 1, 0)
    assert run["minutes"] == {"kept": 516, "checkpoint": 7, "lost": 76, "restart": 62}
    assert run["skipped_lines"] == 2


def test_unknown_is_null_and_never_zero() -> None:
    run = first_run(made_up.clean())
    assert (run["at_risk_s"], run["goodput_low"]) == (None, None)
    details = run["details"]
    assert (details["gpu_hours"], details["gpu_goodput"], details["money"]) == (None, None, None)
    assert (details["price_per_gpu_hour"], details["world_size"], details["format"]) == (None, None, None)
    assert run["goodput"] == pytest.approx(119 / 120)


def test_a_price_that_was_given_goes_before_the_one_in_the_log() -> None:
    report = made_up.three_attempts()
    dear = RunReport(books=report.books, details=report.details, price_per_gpu_hour=10.0)
    cheap, costly = first_run(report)["details"], first_run(dear)["details"]
    assert cheap["money"]["held"] == pytest.approx(cheap["gpu_hours"]["held"] * 2.5)
    assert costly["money"]["held"] == pytest.approx(costly["gpu_hours"]["held"] * 10)
    assert costly["price_per_gpu_hour"] == 10


def test_gpu_hours_by_account_and_idle_sum_to_what_was_held() -> None:
    hours = first_run(made_up.three_attempts())["details"]["gpu_hours"]
    assert sum(value for name, value in hours.items() if name != "held") == pytest.approx(hours["held"])
    assert hours["idle"] > 0


def test_names_that_no_encoding_takes_do_not_break_the_document() -> None:
    report = made_up.three_attempts()
    broken = RunReport(books=msgspec.structs.replace(report.books, run="lone \ud800"), details=report.details)
    assert first_run(broken)["run"] == "lone \\ud800"
    attempt = first_run(report)["details"]["attempts_detail"][1]
    assert attempt["name"] == made_up.HOSTILE


def test_a_window_that_ends_before_the_run_does_not_know_the_steps() -> None:
    report = made_up.three_attempts()
    window = Window(made_up.START + made_up.HOUR, made_up.START + 2 * made_up.HOUR)
    clipped = clip(report, window)
    assert clipped is not None
    run = first_run(clipped)
    assert run["steps"] is None
    # both are there, which the checker can't see
    assert run["details"]["window"] == {"since": window.since_us / 1e6, "until": window.until_us / 1e6}  # type: ignore[operator]


def test_a_log_without_a_run_is_an_empty_list() -> None:
    assert json.loads(to_json([])) == {"schema": 1, "runs": []}


def test_minutes_are_counted_and_not_listed() -> None:
    assert len(to_json([made_up.month(num_losses=10)])) < 400_000
