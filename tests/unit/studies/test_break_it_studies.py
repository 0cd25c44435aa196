"""The "break it" studies, made anew at small size, show what their pages say."""

from __future__ import annotations

import re
from typing import Any

import pytest
import study_clustered_failures
import study_flat_top
import study_overwritten_checkpoint
import study_undivided_mtbf
import studykit
from tachograph_collector.model.theory import goodput

FEW_RUNS = 64
FROM_SIMULATION = re.compile(
    r"simulated|interval\.\d|\.(low|high|kept|raw|grouped|down|misled|from_scratch|tau|best_by_grouped|told_by_\w+)\b"
)
"""Numbers that are drawn, or follow from drawn ones: they agree within what so few runs can tell."""
STUDIES = [study_clustered_failures, study_flat_top, study_overwritten_checkpoint, study_undivided_mtbf]


@pytest.fixture(scope="module")
def small() -> dict[str, studykit.Numbers]:
    return {study.NAME: studykit.rounded(study.numbers(FEW_RUNS)) for study in STUDIES}


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every number by its place."""
    if isinstance(value, dict):
        return {k: v for key, each in value.items() for k, v in leaves(each, f"{path}.{key}").items()}
    if isinstance(value, list | tuple):
        return {k: v for index, each in enumerate(value) for k, v in leaves(each, f"{path}.{index}").items()}
    return {path: value}


@pytest.mark.parametrize("name", [study.NAME for study in STUDIES])
def test_the_committed_numbers_are_those_of_the_program(name: str, small: dict[str, studykit.Numbers]) -> None:
    committed, made = leaves(studykit.kept_numbers(name)), leaves(small[name])
    assert committed.keys() == made.keys()
    assert committed[".num_runs"] == studykit.NUM_RUNS
    for path, value in committed.items():
        if path == ".num_runs" or isinstance(value, str):
            continue
        if FROM_SIMULATION.search(path):
            assert made[path] == pytest.approx(value, rel=0.15, abs=0.08 if value < 1.05 else 1.5), path
        else:
            assert made[path] == pytest.approx(value, rel=1e-5), path


def test_simulated_intervals_lie_on_the_closed_form(small: dict[str, studykit.Numbers]) -> None:
    for point in small["flat-top"]["points"]:
        assert abs(point["simulated"] - point["closed"]) < 4.5 * (point["high"] - point["low"]) / 4 + 1e-3
    for row in small["undivided-mtbf"]["rows"]:
        for way in ("wrong", "right"):
            low, high = row[f"{way}_interval"]
            assert abs(row[f"{way}_simulated"] - row[way]) < 4.5 * (high - low) / 4 + 1e-3


def test_an_undivided_mtbf_leaves_half() -> None:
    kept = studykit.kept_numbers("undivided-mtbf")
    assert kept["chosen"]["wrong"] == pytest.approx(float(goodput(870, 1, 30, 720)), abs=1e-4)
    assert kept["chosen"]["wrong"] == pytest.approx(0.4927, abs=1e-3)
    assert kept["chosen"]["right"] > 0.9


def test_a_raw_mean_gap_misleads_and_incidents_do_not() -> None:
    kept = studykit.kept_numbers("clustered-failures")
    assert kept["raw"] == pytest.approx(507, abs=5)
    assert kept["at_best"]["kept"] == pytest.approx(0.923, abs=2e-3)
    assert kept["told_by_raw"] == pytest.approx(0.911, abs=2e-3)
    assert kept["at_best"]["kept"] - kept["told_by_raw"] > 0.01
    assert abs(kept["at_best"]["kept"] - kept["told_by_grouped"]) < 0.003
    assert max(kept["points"], key=lambda point: point["kept"])["tau"] == kept["best"]


def test_keeping_only_the_latest_loses_the_run_and_a_ladder_does_not() -> None:
    kept = studykit.kept_numbers("overwritten-checkpoint")
    half_hour, six_hours = kept["half_hour"], kept["six_hours"]
    assert half_hour["ladder"]["kept"] == pytest.approx(0.978, abs=5e-3)
    assert six_hours["ladder"]["kept"] == pytest.approx(0.932, abs=5e-3)
    assert half_hour["latest"]["kept"] == pytest.approx(0.25, abs=0.05)
    assert six_hours["latest"]["kept"] == pytest.approx(0.22, abs=0.04)
    assert all(row["ladder"]["from_scratch"] == 0 for row in kept["rows"])


def test_the_flat_top_is_flat() -> None:
    kept = studykit.kept_numbers("flat-top")
    by_factor = {point["factor"]: point["closed"] for point in kept["points"]}
    assert by_factor[1] == pytest.approx(0.9287, abs=1e-4)
    assert min(by_factor[0.5], by_factor[2]) > by_factor[1] - 0.013
