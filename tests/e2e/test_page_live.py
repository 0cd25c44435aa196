"""The page while a run goes on: it follows without being asked, and says when nothing answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import live_runs
import stored_runs
from page_world import SECOND, events, serving, tab
from playwright.sync_api import Browser, expect
from tachograph_collector.store.database import Database


def test_a_failure_appears_on_an_open_page_and_the_keyboard_stays_where_it_was(
    browser: Browser, sqlite_template: Path, tmp_path: Path
) -> None:
    database = Database(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'live.sqlite3')}")
    told = events(live_runs.run_with_a_failure("llama", ago_s=3600))
    place = next(index for index, each in enumerate(told) if each.kind == "failure")
    [before] = stored_runs.booked(told[:place], round(told[place - 1].t * SECOND))
    [after] = stored_runs.booked(told[: place + 1], round((told[place].t + 300) * SECOND))
    with database.write() as connection:
        run = stored_runs.add_run(connection, "llama", run_id=7)
        stored_runs.write(connection, run, "llama", before, version=1)
    with serving(database) as url, tab(browser, url) as watched:
        watched.page.clock.install()
        page = watched.open("#/runs/llama")
        expect(page.locator(".state")).to_contain_text("Training")
        plan = page.locator(".range").get_by_role("link", name="Plan")
        plan.focus()
        with database.write() as connection:
            stored_runs.write(connection, run, "llama", after, version=2)
        page.clock.run_for(6_000)
        expect(page.locator(".state")).to_contain_text("Down")
        expect(page.locator(".head")).to_contain_text("failure: hardware, node n0, rank 0")
        expect(page.locator("#minutes")).to_contain_text("were booked differently at first")
        expect(plan).to_be_focused()

        watched.allowed.append("ERR_INTERNET_DISCONNECTED")
        page.context.set_offline(True)
        page.clock.run_for(6_000)
        expect(page.get_by_text("The collector does not answer")).to_be_visible()
        page.context.set_offline(False)
        page.clock.run_for(30_000)
        expect(page.get_by_text("The collector does not answer")).to_be_hidden()
    database.close()
