"""The page in a real browser: Chromium over Playwright, at an application that serves from a thread of this process.

``world`` is one database for all tests of the page, with runs of every kind in it; nobody may change its runs. Debian's
package has the browser. Where it is missing the tests are skipped, and fail in CI, which installs it.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import live_runs
import msgspec
import pytest
import stored_incidents
import stored_runs
import uvicorn
from no_keeper import NoKeeper
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Response, expect, sync_playwright
from sqlalchemy import insert
from tachograph_agent.events import AnyEvent, decode
from tachograph_collector.detect import Incident
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_tables import sights
from tachograph_collector.store.keys import RunKey

REPOSITORY = Path(__file__).parents[1]
SECOND = 1_000_000
HOSTILE = '<img src=x onerror="document.title=1">/../é\u202e"\'><script>alert(1)</script>'
RECORDED = "atlas-7b-pretrain"
BROKEN = "broken-now"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_STARTS_WITHIN_S = 60
_LOADS_WITHIN_S = 60
expect.set_options(timeout=_LOADS_WITHIN_S * 1000)


def chromium() -> str:
    """Where the browser is; skips the test where there is none, and fails it in CI."""
    found = next((path for path in map(shutil.which, _CHROMIUM) if path), None)
    if found is None:
        lacking = "needs Chromium (Debian: apt install chromium)"
        assert "CI" not in os.environ, lacking
        pytest.skip(lacking)
    return found


@contextmanager
def serving(database: Database) -> Iterator[str]:
    """The application at a free port of this machine; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(Settings(), database, NoKeeper())
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while not server.started:
        assert thread.is_alive(), "the application ended"
        assert time.monotonic() < deadline, "the application did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(_STARTS_WITHIN_S)
        listener.close()


def events(told: Iterable[dict[str, Any]]) -> list[AnyEvent]:
    """As the collector decodes them."""
    return [decode(msgspec.json.encode(each)) for each in told]


@dataclass
class World:
    """What is served, and some of what is in it."""

    database: Database
    url: str
    slow: Incident
    hung: Incident


@contextmanager
def made(database: Database) -> Iterator[World]:
    """Runs of every kind, and who serves them."""
    lines = (REPOSITORY / "examples" / "recorded_run.jsonl").read_bytes().splitlines()
    stored_runs.store(database, [decode(line) for line in lines], run_id=1, origin="live")
    broken = events(_broken())
    now_us = round((broken[-1].t + 900) * SECOND)
    _restated(database, broken, now_us)
    hostile = events(live_runs.run_with_a_failure(HOSTILE, ago_s=3600, end="completed", labels={"<b>": "<i>x</i>"}))
    hostile = [msgspec.structs.replace(each, node=HOSTILE) if hasattr(each, "node") else each for each in hostile]
    stored_runs.store(database, hostile, run_id=3)
    with database.write() as connection:
        told = {"severity": "critical", "opened_us": now_us - 880 * SECOND, "node": "n0", "rank": 7}
        hung = stored_incidents.incident(BROKEN, "hang", "run", summary="no rank made a step", **told)
        stored_incidents.put(connection, RunKey(1, 2), hung)
        more = {"node": HOSTILE, "summary": HOSTILE, "advice": HOSTILE, "opened_us": round(hostile[5].t) * SECOND}
        stored_incidents.put(connection, RunKey(1, 3), stored_incidents.incident(HOSTILE, "xid", HOSTILE, **more))
        for detector, state, reason in (("hang", "armed", ""), ("dead_node", "blind", "no node sends heartbeats")):
            seen = {"detector": detector, "state": state, "reason": reason, "num_evaluations": 3, "num_verdicts": 1}
            connection.execute(insert(sights).values(tenant_id=1, run_id=2, at_us=now_us, **seen))
        slow = stored_incidents.incident(BROKEN, opened_us=now_us - 3000 * SECOND, summary="rank 7 is slow")
        stored_incidents.put(connection, RunKey(1, 2), slow)
    with serving(database) as url:
        yield World(database, url, slow, hung)


def _broken() -> list[dict[str, Any]]:
    """A run that a GPU took down 15 minutes ago."""
    told = live_runs.run_with_a_failure(BROKEN, ranks=8, ago_s=7200, price_per_gpu_hour=2.0)
    for each in told:
        if each["kind"] == "step":
            each |= {"loss": 2 + 3 / (1 + each["step"] / 50), "grad_norm": 0.5, "tokens": 4096}
    told = [each for each in told if each["t"] <= told[-1]["t"] - 900]
    where = {"rank": 7, "node": "n0", "category": "gpu", "detail": "Xid 79: the GPU has fallen off the bus"}
    return [*told, {"kind": "failure", "t": told[-1]["t"] + 5, "run": BROKEN, "attempt": 1, **where}]


def _restated(database: Database, told: Sequence[AnyEvent], now_us: int) -> None:
    """Booked before its first failure was known, and again now: minutes of lost work were kept at first."""
    place = next(index for index, each in enumerate(told) if each.kind == "failure")
    first = stored_runs.booked(told[:place], round(told[place].t * SECOND))
    [now] = stored_runs.booked(told, now_us)
    with database.write() as connection:
        run = stored_runs.add_run(connection, BROKEN, run_id=2)
        stored_runs.write(connection, run, BROKEN, first[0], version=1)
        stored_runs.write(connection, run, BROKEN, now, version=2)
        stored_runs.heard(connection, run, now_us)
        steps = [each for each in told if each.kind == "step"]
        for begin in range(0, len(steps), 500):
            # the fields come by name, which the checker can't see
            stored_runs.add_steps(connection, run, begin + 500, steps[begin : begin + 500])  # type: ignore[arg-type]


@dataclass
class Watched:
    """A tab, and what went wrong in it or left this machine."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """What goes wrong and has one of these in it is what the test is about."""
    num_bytes: int = 0

    def open(self, view: str = "") -> Page:
        """Go to a view, and wait until it has loaded what it shows."""
        self.page.goto(self.url + view)
        self.page.locator("main[data-loaded]").wait_for()
        return self.page


@contextmanager
def tab(browser: Browser, url: str, **more: Any) -> Iterator[Watched]:
    """A tab of a context of its own; fails if anything went wrong in it that the test did not allow."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | more))
    context.set_default_timeout(_LOADS_WITHIN_S * 1000)
    page = context.new_page()
    watched = Watched(page, url)

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            watched.wrong.append(f"{message.type}: {message.text}")

    def asked(request: Request) -> None:
        if not request.url.startswith(url):
            watched.wrong.append(f"asks {request.url}")

    def answered(response: Response) -> None:
        if response.status >= 400:
            watched.wrong.append(f"{response.status} {response.url}")

    def interrupted(dialog: Dialog) -> None:
        watched.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("console", said)
    page.on("pageerror", lambda error: watched.wrong.append(str(error)))
    page.on("dialog", interrupted)
    page.on("request", asked)
    page.on("response", answered)
    session = context.new_cdp_session(page)
    session.send("Network.enable")

    def loaded(event: dict[str, Any]) -> None:
        watched.num_bytes += int(event["encodedDataLength"])

    session.on("Network.loadingFinished", loaded)
    try:
        yield watched
    finally:
        context.close()
    assert [text for text in watched.wrong if not any(words in text for words in watched.allowed)] == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. One a module: as long as it is there, nothing else in this thread may run an event loop."""
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The database that the page is opened on."""
    path = shutil.copyfile(sqlite_template, tmp_path_factory.mktemp("page") / "page.sqlite3")
    database = Database(f"sqlite:///{path}")
    with made(database) as world:
        yield world
    database.close()
