"""``tachograph replay`` holds the recorded run against the model: in the terminal, on the page, in JSON if asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tachograph_collector.cli.main import cli

RECORDED = str(Path(__file__).parents[2] / "examples" / "recorded_run.jsonl")


def replay(*words: str) -> str:
    done = CliRunner().invoke(cli, ["replay", RECORDED, *words], prog_name="tachograph")
    assert done.exit_code == 0, done.output
    return done.stdout


def model(*words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(replay("--json", "--judge", *words))["runs"][0]["model"]
    return told


def test_the_recorded_run_threw_away_more_than_its_failures_explain() -> None:
    told = model()
    assert (told["level"], told["findings"][0]["kind"]) == ("alarm", "hidden_loss")
    assert told["goodput"]["observed"] < told["goodput"]["explained"] - 3 * told["goodput"]["explained_deviation"]
    assert "work thrown away without a failure" in told["sentence"]  # the loss spike
    assert "threw away more than one interval" in told["sentence"]  # the save that storage never took
    finding = told["findings"][0]
    assert finding["gpu_hours_per_day"] == pytest.approx(finding["points"] / 100 * 24 * 64, rel=0.01)
    assert finding["money_per_day"] == pytest.approx(finding["gpu_hours_per_day"] * 2.4)


def test_its_numbers_are_measured() -> None:
    measured = model()["measured"]
    assert measured["interval_s"] == pytest.approx(1_303, abs=1)
    assert measured["num_intervals"] == 63
    assert measured["cost_s"] == pytest.approx(3.4, abs=0.1)
    assert measured["persist_s"] == pytest.approx(62, abs=1)
    assert (measured["num_failures"], measured["num_incidents"]) == (4, 3)
    assert measured["mtbf_has_plan"]


def test_the_terminal_and_the_page_say_the_sentence(tmp_path: Path) -> None:
    sentence = model()["sentence"]
    assert sentence in " ".join(replay().split())
    replay("--html", str(tmp_path / "page.html"))
    assert sentence in (tmp_path / "page.html").read_text(encoding="utf-8").replace("&#39;", "'")


def test_it_can_be_left_out_and_json_has_it_only_if_asked() -> None:
    assert "Against the model" in replay()
    assert "Against the model" not in replay("--no-judge")
    assert json.loads(replay("--json"))["runs"][0]["model"] is None


def test_a_price_on_the_command_line_goes_before_the_logs() -> None:
    cheap, dear = (model("--price", price)["findings"][0] for price in ("1", "10"))
    assert dear["money_per_day"] == pytest.approx(10 * cheap["money_per_day"])


def test_a_window_is_judged_by_itself() -> None:
    told = model("--since", "2026-03-02T20:00:00Z", "--until", "2026-03-03T02:00:00Z")
    assert told["measured"]["num_failures"] == 0
    assert told["measured"]["exposure_s"] == pytest.approx(6 * 3_600)
