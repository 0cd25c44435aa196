"""The page with a month of minutes, and with a thousand runs: little is asked for, sent and drawn.

How long that takes is a figure of ``bench/figure_page.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import stored_runs
from page_month import END_S, store_month
from page_world import events, serving, tab
from playwright.sync_api import Browser, Response, expect
from tachograph_collector.store.database import Database

MOST_BYTES = 1_000_000
MOST_REQUESTS = 60
NUM_STOPS = 600
"""More than the page asks for at once."""
MOST_POINTS = 2_000
"""A list longer than that has more points than a screen has columns."""
NUM_RUNS = 1_000


@pytest.fixture(scope="module")
def large(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A collector with a month-long run that goes on, and a thousand short ones."""
    path = shutil.copyfile(sqlite_template, tmp_path_factory.mktemp("large") / "large.sqlite3")
    database = Database(f"sqlite:///{path}")
    store_month(database)
    short = events(
        [
            {"kind": "run.start", "t": END_S - 9000, "run": "r", "world_size": 8},
            {"kind": "attempt.start", "t": END_S - 8990, "run": "r", "attempt": 0, "resume_step": 0},
            {"kind": "step", "t": END_S - 8900, "run": "r", "attempt": 0, "step": 1, "dur": 60.0, "rank": 0},
            {"kind": "run.end", "t": END_S - 8800, "run": "r", "status": "completed"},
        ]
    )
    [booked] = stored_runs.booked(short)
    stored_runs.store(database, events(_stopped_often()), run_id=2)
    with database.write() as connection:
        for number in range(NUM_RUNS):
            name = f"short-{number:04}"
            run = stored_runs.add_run(connection, name, run_id=10 + number)
            one = replace(booked, books=msgspec.structs.replace(booked.books, run=name))
            stored_runs.write(connection, run, name, one)
    with serving(database) as url:
        yield url
    database.close()


def _stopped_often() -> Iterator[dict[str, Any]]:
    """A run that fails each minute, and at last completes."""
    begins = END_S - 60 * (NUM_STOPS + 1)
    yield {"kind": "run.start", "t": begins, "run": "often", "world_size": 8}
    for attempt in range(NUM_STOPS + 1):
        t = begins + 60 * attempt
        more = {"run": "often", "attempt": attempt}
        yield {"kind": "attempt.start", "t": t, "resume_step": attempt, **more}
        yield {"kind": "step", "t": t + 30, "step": attempt + 1, "dur": 20.0, "rank": 0, **more}
        yield {
            "kind": "checkpoint.saved",
            "t": t + 35,
            "step": attempt + 1,
            "mode": "sync",
            "dur": 5.0,
            "rank": 0,
            **more,
        }
        if attempt < NUM_STOPS:
            yield {"kind": "failure", "t": t + 50, "category": "gpu", "detail": f"stop {attempt}", **more}
    yield {"kind": "run.end", "t": END_S - 10, "run": "often", "status": "completed"}


def longest(told: Any) -> int:
    """The number of members of the longest list in this JSON."""
    within = told.values() if isinstance(told, dict) else told if isinstance(told, list) else ()
    return max([len(told) if isinstance(told, list) else 0, *map(longest, within)])


def test_of_a_month_less_than_a_megabyte_is_sent_and_no_more_points_than_a_screen_has(
    browser: Browser, large: str
) -> None:
    with tab(browser, large) as watched:
        answers: list[Response] = []
        watched.page.on("response", lambda answer: answers.append(answer))  # a built-in itself it can't call
        page = watched.open("#/runs/month")
        expect(page.locator("#minutes")).to_contain_text("721 stretches of 1 h")
        expect(page.locator(".uplot canvas")).not_to_have_count(0)
        assert watched.num_bytes < MOST_BYTES
        assert len(answers) < MOST_REQUESTS
        told = [answer.json() for answer in answers if "/v1/" in answer.url]
        assert 721 <= max(map(longest, told)) <= MOST_POINTS


def test_from_a_month_to_an_hour_and_back(browser: Browser, large: str) -> None:
    with tab(browser, large) as watched:
        page = watched.open("#/runs/month")
        page.get_by_role("button", name="The last 1 h").click()
        expect(page.locator("#minutes")).to_contain_text("stretches of 1 min")
        page.get_by_role("button", name="Earlier").click()
        expect(page.locator(".range")).to_contain_text(", 1 h")
        for _ in range(3):
            page.get_by_role("button", name="Zoom out").click()
            page.locator("main[data-loaded]").wait_for()
        page.get_by_role("button", name="All of the run").click()
        expect(page.locator("#minutes")).to_contain_text("stretches of 1 h")
        assert watched.num_bytes < 4 * MOST_BYTES


def test_of_a_run_that_stopped_more_often_than_is_shown_the_latest_are_shown(browser: Browser, large: str) -> None:
    with tab(browser, large) as watched:
        page = watched.open("#/runs/often")
        rows = page.get_by_role("table", name="Restarts, the latest first").locator("tbody tr")
        expect(rows.first).to_contain_text(f"stop {NUM_STOPS - 1}")
        expect(page.locator("#restarts")).to_contain_text("The latest 12 of more than 500")
        page.get_by_text(f"The latest 50 attempts of {NUM_STOPS + 1}").click()
        first = page.get_by_role("table", name="Attempts").locator("tbody tr").first.get_by_role("cell").first
        expect(first).to_have_text(str(NUM_STOPS))
        page.get_by_text("The latest 300 saves").click()
        saved = page.get_by_role("table", name="Saves, the latest first").locator("tbody tr").first
        expect(saved).to_contain_text(str(NUM_STOPS + 1))


def test_a_thousand_runs_come_in_pages_and_are_found_by_name(browser: Browser, large: str) -> None:
    with tab(browser, large) as watched:
        page = watched.open()
        rows = page.get_by_role("table", name="Runs", exact=True).locator("tbody tr")
        expect(rows).to_have_count(100)
        assert watched.num_bytes < MOST_BYTES
        page.get_by_role("button", name="Show more").click()
        expect(rows).to_have_count(500)
        page.get_by_label("Name").fill("short-0777")
        expect(rows).to_have_count(1)
        rows.first.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("short-0777")
        page.locator("main[data-loaded]").wait_for()
