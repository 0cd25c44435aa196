"""A plan for people and for scripts: the same answer in the terminal, on the page and as JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console
from tachograph_collector.model.plan.inputs import layered, number
from tachograph_collector.model.plan.plan import Plan, make_plan
from tachograph_collector.report.plan_html import render_plan_html
from tachograph_collector.report.plan_json import plan_object, plan_to_json
from tachograph_collector.report.plan_terminal import render_plan
from tachograph_collector.report.plan_words import spares_pay

PAGE = Path(__file__).parents[3] / "docs" / "plan.md"


def plan(name: str = "", **texts: str) -> Plan:
    given = {"nodes": "128", "checkpoint_size": "1.1 TB", "step_time": "6.5 s", "price": "2.5", **texts}
    return make_plan(layered({key: number(key, text) for key, text in given.items()}, name=name), num_runs=0)


def terminal(made: Plan, width: int = 100) -> str:
    out = io.StringIO()
    render_plan(made, Console(file=out, width=width, color_system=None, legacy_windows=False))
    return out.getvalue()


def test_the_terminal_begins_with_the_answer() -> None:
    first, second = terminal(plan(), 200).splitlines()[:2]
    assert "128 nodes of 8 GPUs" in first
    assert second.startswith("Save every 8 min (80 steps), asynchronously: expect 94.7 % goodput, 90.")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, terminal(plan(), width).splitlines())) <= width


def test_every_mark_and_question_is_shown() -> None:
    text = terminal(plan(job_mtbf="264 d"), 400)
    assert "is it a node's?" in text
    assert "guess: " in text
    assert "decided: nodes 128" in text


def test_json_is_one_object_of_finite_numbers() -> None:
    document = json.loads(plan_to_json(plan()), parse_constant=pytest.fail)
    assert document["schema"] == 1
    assert document["plan"]["advice"]["interval_s"] == 480
    assert [step["key"] for step in document["plan"]["ladder"]] == [
        "now", "blocking", "asynchronous", "heartbeats", "spares", "charged",
    ]  # fmt: skip


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for name, each in value.items() if name != "numbers" for key in keys(each)}
    return {key for each in value for key in keys(each)} if isinstance(value, list | tuple) else set()


def test_every_key_of_the_json_is_documented() -> None:
    made = plan_object(plan(job_mtbf="264 d"))
    documented = set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))
    assert keys(made) | keys(made["numbers"]["nodes"]) <= documented


def test_the_page_stands_alone_and_is_small() -> None:
    page = render_plan_html(plan())
    assert len(page.encode()) < 1_000_000
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', page) == []
    assert page.count("<svg ") == 3


def test_a_hostile_name_is_escaped_everywhere() -> None:
    name = "<script>alert(1)</script>\x1b[31m"
    page, text = render_plan_html(plan(name)), terminal(plan(name))
    assert "<script>" not in page
    assert "\x1b" not in page
    assert "\x1b" not in text


def test_the_spares_are_weighed_against_what_they_bring() -> None:
    assert "they pay" in (spares_pay(plan()) or "")
    assert "do not pay" in (spares_pay(plan(spares="8")) or "")
    assert spares_pay(plan(spares="0")) is None


def test_notes_of_a_run_are_shown() -> None:
    made = plan()
    made = replace(made, inputs=replace(made.inputs, notes=("Only 3 failures.",)))
    assert "Only 3 failures." in terminal(made)
    assert "Only 3 failures." in render_plan_html(made)
