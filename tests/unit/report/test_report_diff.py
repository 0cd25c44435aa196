"""Two runs side by side: shares and rates decide, since runs differ in length."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from tachograph_collector.report.diff import Row, compare, render_diff, verdict
from unit.report import made_up


def rows() -> dict[tuple[str, str], Row]:
    return {(row.section, row.name): row for row in compare(made_up.three_attempts(), made_up.month(num_losses=10))}


def test_goodput_differs_in_points_and_the_sentence_names_what_moved_most() -> None:
    a, b = made_up.three_attempts(), made_up.month(num_losses=10)
    change = rows()["shares", "goodput"].change
    assert change == pytest.approx((b.books.goodput or 0) - (a.books.goodput or 0))
    assert verdict(a, b) == "B kept 5.3 points more than A (78.1 % to 83.4 %); mostly: restart −4.5 points."
    assert verdict(b, a).startswith("B kept 5.3 points less than A")
    assert verdict(a, a) == "B kept as much of its time as A: 78.1 %."


def test_rates_means_and_intervals_are_those_of_the_records() -> None:
    found = rows()
    assert found["interruptions", "failures a day"].b == pytest.approx(200 / 30)
    assert found["interruptions", "interruptions a day"].a == pytest.approx(3 / (11.0117361 / 24), rel=1e-6)
    assert found["interruptions", "mean restart"].a == (1437 + 1500.25) / 2 * 1e6
    assert found["checkpoints", "interval"].b == (40 * 60 + 50) * 1e6
    assert found["checkpoints", "mean cost"].b == 50e6


def test_what_either_run_does_not_know_stays_unknown() -> None:
    found = {(row.section, row.name): row for row in compare(made_up.three_attempts(), made_up.clean())}
    for key in (("shares", "GPU goodput"), ("shares", "goodput, at risk lost"), ("totals", "money")):
        assert found[key].a is not None
        assert found[key].b is None
        assert found[key].change is None
    assert found["interruptions", "mean restart"].b is None


@pytest.mark.parametrize("width", [60, 100])
def test_it_fits_the_terminal_and_takes_names_as_words(width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, no_color=True)
    render_diff(made_up.three_attempts(made_up.HOSTILE), made_up.month(num_losses=10), console)
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "+5.3 points" in text
    assert "[bold" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "…" not in text.replace("\\nline2 …", "")


def test_better_is_green_and_worse_is_red() -> None:
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, color_system="standard")
    render_diff(made_up.three_attempts(), made_up.month(num_losses=10), console)
    lines = {line.split()[0]: line for line in file.getvalue().splitlines() if line.split()}
    assert "\x1b[32m" in lines["goodput"]
    assert "\x1b[31m" in lines["failures"]


def test_incidents_are_counted_by_severity_without_what_was_withdrawn() -> None:
    one = made_up.three_attempts()
    found = [
        SimpleNamespace(severity=severity, is_withdrawn=is_withdrawn)
        for severity, is_withdrawn in (("critical", False), ("critical", True), ("warning", False), ("warning", False))
    ]
    a, b = replace(one, incidents=[]), replace(one, incidents=found)
    told = {row.name: (row.a, row.b) for row in compare(a, b) if row.section == "incidents"}
    assert told == {"critical": (0, 1), "warning": (0, 2), "info": (0, 0)}
    assert not [row for row in compare(one, one) if row.section == "incidents"]  # nobody looked for any
