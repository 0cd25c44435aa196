"""The page with a month-long run, in Chromium: until it is painted, until it is drawn, and what is sent."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from figure import Figure, Row, Setting
from measure import timed

sys.path.append(str(Path(__file__).parent.parent / "tests"))

import page_month
from databases import migrate, sqlite_url
from page_world import chromium, serving, tab
from playwright.sync_api import Browser, sync_playwright
from tachograph_collector.store.database import Database

MOST_S = 1.0
MOST_BYTES = 1_000_000
MARKS = {"painted": "first-contentful-paint", "drawn": "run drawn"}


def measure(setting: Setting) -> Figure:
    """Open it again and again, each time with nothing kept by the browser."""
    database = Database(sqlite_url(setting.scratch / "page.sqlite3"))
    migrate(database)
    page_month.store_month(database)
    rounds = 2 * setting.rounds
    with serving(database) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        started_s = [timed(lambda: browser.new_context().new_page().goto("about:blank")) for _ in range(rounds)]
        loads = [_load(browser, url) for _ in range(rounds + 1)][1:]
        browser.close()
    database.close()

    def row(what: str, mark: str, most_s: float | None = MOST_S) -> Row:
        took_s = [load[mark] for load in loads]
        measured = f"{min(took_s):.2f} s (median {median(took_s):.2f} s, worst {max(took_s):.2f} s)"
        return Row(what, measured) if most_s is None else Row(what, measured, f"< {most_s:g} s", min(took_s) < most_s)

    most_bytes = max(load["bytes"] for load in loads)
    return Figure(
        "The page",
        f"A run of 30 days with a step a minute, 60 failures and a save each half an hour, in SQLite, opened {rounds} "
        "times in headless Chromium at 1280 by 900, after once to warm up the collector, which serves from a thread of "
        "the measuring process. Each time is a fresh profile: everything is fetched, nothing comes from a cache. Times "
        "are the browser's own, from the beginning of the navigation: to the first contentful paint, to when the "
        "sentence, the numbers, the strip and the accounts were drawn, and to when everything below them was, until it "
        "was noticed. Bytes are what came over the wire, compressed, with headers. An empty tab of a fresh profile "
        f"takes {min(started_s):.2f} s, which is not counted.",
        [
            row("a month-long run: first paint", "painted"),
            row("the same: sentence, numbers, strip and accounts drawn", "drawn"),
            row("the same: everything drawn", "loaded", None),
            Row("the same: sent", f"{most_bytes / 1e6:.2f} MB", f"< {MOST_BYTES / 1e6:g} MB", most_bytes < MOST_BYTES),
        ],
        "Browser and collector share the cores: with another program beside them both wait.",
    )


def _load(browser: Browser, url: str) -> dict[str, float]:
    """Seconds to each mark, and bytes sent."""
    with tab(browser, url) as watched:
        page = watched.open(f"#/runs/{page_month.RUN}")
        told = {
            what: page.evaluate("(name) => performance.getEntriesByName(name)[0].startTime", name) / 1000
            for what, name in MARKS.items()
        }
        return {**told, "loaded": page.evaluate("performance.now()") / 1000, "bytes": watched.num_bytes}
