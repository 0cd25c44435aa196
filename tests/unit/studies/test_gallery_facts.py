"""The gallery's tables and the study of published runs tell the same facts: typed once, never drifting apart."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"
STUDY: dict[str, Any] = tomllib.loads((DOCS / "studies" / "published-runs.toml").read_text())
RUNS = {run["key"]: run for run in STUDY["runs"]}


def rows(name: str) -> list[dict[str, str]]:
    with (DOCS / "gallery" / name).open(newline="") as table:
        return list(csv.DictReader(table))


def plan(name: str) -> dict[str, Any]:
    return tomllib.loads((DOCS / "gallery" / name).read_text())


@pytest.mark.parametrize(
    ("key", "name"), [("llama3", "llama3"), ("opt", "opt175b"), ("bloom", "bloom"), ("glm", "glm130b")]
)
def test_a_plans_cluster_is_the_studys(key: str, name: str) -> None:
    found, run = plan(f"{name}.toml"), RUNS[key]
    cluster = found["cluster"]
    assert cluster["nodes"]["value"] == run["nodes"]
    assert cluster["nodes"]["value"] * cluster["gpus_per_node"]["value"] == run["gpus"]
    assert cluster["run_length"]["value"] == f"{run['days']:g} d"
    mtbf_h = float(found["failures"]["job_mtbf"]["value"].removesuffix(" h"))
    count = run["count"] if "count" in run else sum(run["weekly"]) / 2 * run["days"] / 7
    assert mtbf_h == pytest.approx(24 * run["days"] / count, rel=0.005)


def test_llamas_causes_are_the_studys() -> None:
    found = [
        [row["cause"], row["category"], int(row["count"]), float(row["percent_printed"])]
        for row in rows("llama3-causes.csv")
    ]
    assert found == STUDY["llama3"]["causes"]


def test_glms_restarts_are_the_studys() -> None:
    found = [[row["start"].removesuffix("+08:00"), int(row["step"])] for row in rows("glm130b-restarts.csv")]
    assert found == [[when.isoformat(), step] for when, step in STUDY["glm"]["restarts"]]


def test_opts_and_blooms_facts_are_the_studys() -> None:
    opt = {row["fact"]: row["value"] for row in rows("opt175b-facts.csv")}
    study = STUDY["opt"]
    assert opt["start of experiment 12.00"] == study["started"].isoformat()
    assert opt["training completed"] == study["progress"][-1][0].isoformat()
    ideal_days = study["days_planned"] * study["gpus_planned"] / RUNS["opt"]["gpus"]
    assert float(opt["ideal duration on the 992 GPUs in use"]) == pytest.approx(ideal_days, abs=0.05)
    bloom = {row["fact"]: row["value"] for row in rows("bloom-facts.csv")}
    study = STUDY["bloom"]
    steps = study["steps_at_full_size"] - 45_000
    days = float(bloom[f"ideal duration of the {steps} steps between at 104.7 s"])
    assert days == pytest.approx(steps * study["seconds_per_step"] / 86_400, abs=0.05)
    assert bloom["step 45000 started"] == study["step_45000_on"].isoformat()
    assert bloom["ended at full size"] == study["full_size_until"].isoformat()
    hangs = [float(hours) for hours in bloom["stood still in three hangs that no watchdog noticed"].split(";")]
    assert hangs == study["hang_hours"]
    assert float(bloom["lost to the first crash"]) == study["first_crash_lost_hours"]
