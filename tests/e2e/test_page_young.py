"""The page of a run that has just begun: its seconds are shown, and that it hangs is what it does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import stored_incidents
import stored_runs
from page_world import SECOND, Watched, serving, tab
from playwright.sync_api import Browser, expect
from tachograph_agent.events import AnyEvent, AttemptStart, Failure, RunStart, Step
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey

START = 1_772_323_200.0


def _steps(attempt: int, begins_s: int, first: int, last: int) -> list[AnyEvent]:
    names = range(first, last + 1)
    return [
        Step(t=START + begins_s + place, run="young", attempt=attempt, node="n1", rank=0, step=step, dur=1.0)
        for place, step in enumerate(names, start=1)
    ]


@pytest.fixture
def young(browser: Browser, sqlite_template: Path, tmp_path: Path) -> Iterator[Watched]:
    """A minute and a half of a run: it fails after 20 s, loses them, trains again from 30 s, and hangs since 70 s."""
    database = Database(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'young.sqlite3')}")
    told: list[AnyEvent] = [
        RunStart(t=START, run="young", world_size=8),
        AttemptStart(t=START, run="young", attempt=0, resume_step=0),
        *_steps(0, 0, 1, 20),
        Failure(t=START + 20, run="young", attempt=0, node="n1", rank=0, category="gpu"),
        AttemptStart(t=START + 29, run="young", attempt=1, resume_step=0),
        *_steps(1, 30, 1, 40),
    ]
    [books] = stored_runs.booked(told, round((START + 71) * SECOND))
    with database.write() as connection:
        run = stored_runs.add_run(connection, "young", run_id=7)
        stored_runs.write(connection, run, "young", books, version=1)
        more = {"severity": "critical", "opened_us": round((START + 70) * SECOND), "summary": "no rank made a step"}
        hung = stored_incidents.incident("young", "hang", "run", advice=None, node=None, rank=None, **more)
        stored_incidents.put(connection, RunKey(1, 7), hung)
    with serving(database) as url, tab(browser, url) as watched:
        yield watched
    database.close()


def test_a_run_whose_steps_hang_is_not_said_to_train(young: Watched) -> None:
    page = young.open("#/runs/young")
    expect(page.locator(".state")).to_contain_text("Stalled: no step ends")
    expect(page.locator(".head")).to_contain_text("Look at the ranks that have not ended the step")


def test_a_run_of_a_minute_is_shown_by_the_second(young: Watched) -> None:
    page = young.open("#/runs/young")
    minutes = page.locator("#minutes")
    expect(minutes).to_contain_text(re.compile(r"7\d stretches of 1 s"))
    chart = minutes.locator("figure").first
    chart.get_by_text("As a table").click()
    rows = chart.get_by_role("row")
    expect(rows.filter(has_text="00:00:05")).to_contain_text("100.0 %")
    cells = rows.filter(has_text="00:00:25").get_by_role("cell").all_inner_texts()
    assert cells[-4:] == ["100.0 %", "0.0 %", "0.0 %", "0.0 %"], "restart comes first"
    cells = rows.filter(has_text="00:00:40").get_by_role("cell").all_inner_texts()
    assert cells[-4:] == ["0.0 %", "0.0 %", "0.0 %", "100.0 %"], "and kept last"
