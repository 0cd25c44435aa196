"""The judge's view of a run, in the terminal, on the page and in JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console
from tachograph_collector.report import judge_view as judging
from tachograph_collector.report.html import render_html
from tachograph_collector.report.json_report import to_json
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.terminal import render_terminal
from unit.report import made_up


def shown(run: RunReport, width: int = 100, **options: Any) -> str:
    file = io.StringIO()
    render_terminal([run], Console(file=file, width=width, no_color=True), with_model=True, **options)
    return file.getvalue()


def model(run: RunReport) -> dict[str, Any] | None:
    document = json.loads(to_json([run], with_model=True), parse_constant=pytest.fail)
    told: dict[str, Any] | None = document["runs"][0]["model"]
    return told


def test_all_three_say_the_same_sentence_and_numbers() -> None:
    run = made_up.month(num_losses=10)
    told = model(run)
    assert told is not None
    terminal, page = " ".join(shown(run, 1_000).split()), render_html([run], with_model=True)
    assert told["sentence"] in terminal
    assert told["sentence"].replace("'", "&#39;") in page
    gain = f"(+{told['best']['gain_points']:.1f} points)"
    for words in (gain, f"{100 * told['goodput']['predicted']:.1f} %", f"{100 * told['goodput']['observed']:.1f} %"):
        assert words in terminal
        assert words in page
    for finding in told["findings"]:
        assert finding["sentence"] in terminal


def test_predicted_stands_against_observed_and_the_best_interval_against_the_one_in_use() -> None:
    lines = shown(made_up.month(num_losses=10))
    for row in ("interval", "save", "restart", "MTBF", "observed", "explained", "predicted", "by chance", "best"):
        assert f"\n  {row} " in lines, row


def test_waste_is_told_by_cause_and_is_all_that_was_not_kept() -> None:
    run = made_up.month(num_losses=10)
    told = model(run)
    assert told is not None
    books = run.books
    wasted = sum(one["lost_s"] + one["other_s"] for one in told["waste"])
    assert wasted == pytest.approx((books.wall_us - books.accounts_us["kept"]) / 1e6)
    assert {"gpu", "network", "saving"} <= {one["cause"] for one in told["waste"]}


def test_a_run_with_hostile_names_says_nothing_unescaped() -> None:
    page = render_html([made_up.three_attempts(made_up.HOSTILE)], with_model=True)
    assert "<script" not in page
    assert "\x1b" not in shown(made_up.three_attempts(made_up.HOSTILE))


def test_sixty_columns_and_ascii_are_enough() -> None:
    lines = shown(made_up.month(num_losses=10), 60).splitlines()
    assert max(len(line) for line in lines) <= 60
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    render_terminal([made_up.month(num_losses=10)], Console(file=file, width=80), with_model=True)
    file.flush()


def test_too_little_data_is_said_and_the_numbers_are_null() -> None:
    told = model(made_up.clean())
    assert told is not None
    assert told["level"] == "too_little"
    assert told["best"] is None
    assert told["rate"] is None
    assert told["goodput"].pop("observed") == pytest.approx(119 / 120)
    assert set(told["goodput"].values()) == {None}
    assert told["measured"]["mtbf_s"] is None
    assert told["measured"]["mtbf_high_s"] is None
    assert "Too little data" in shown(made_up.clean())


def test_unasked_there_is_no_model() -> None:
    run = made_up.month(num_losses=10)
    assert json.loads(to_json([run]))["runs"][0]["model"] is None
    assert "Against the model" not in render_html([run])


def test_without_numpy_and_scipy_one_line_names_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "find_spec", lambda name: None)
    run = made_up.month(num_losses=10)
    document = json.loads(to_json([run], with_model=True))["runs"][0]
    assert document["model"] is None
    assert any("pip install 'tachograph[collector]'" in note for note in document["details"]["notes"])
    assert not judging.is_available()
