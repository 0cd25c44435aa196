"""The page with names that mean harm, with tokens, on a phone, in the dark, and for who does not see it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from page_world import BROKEN, HOSTILE, RECORDED, World, serving, tab
from playwright.sync_api import Browser, Page, expect
from tachograph_collector.store.database import Database
from tachograph_collector.store.tokens import create_token

HOSTILE_HASH = f"#/runs/{quote(HOSTILE, safe='')}"
VIEWS = {
    "fleet": "",
    "run": f"#/runs/{BROKEN}",
    "compare": f"#/compare?a={RECORDED}&b={BROKEN}",
    "incidents": "#/incidents?open=",
    "plan": f"#/plan?run={RECORDED}",
    "nodes": "#/nodes",
    "node": "#/nodes/n0",
    "incident": "#/incidents/{slow}",
}
DARK = {"fleet", "run", "plan"}
"""Looked at in the dark, too; what they are made of is all that there is."""
MOST_SHIFT = 0.1
"""How far what is shown may jump about while it loads: what browsers' makers call good."""
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => { for (const each of list.getEntries()) window.shifted += each.value; })
  .observe({ type: "layout-shift", buffered: true });
"""


def did_nothing(page: Page) -> None:
    """No name became an element, a title, or a script."""
    assert page.locator("main img, main script, main b, main i").count() == 0
    assert page.title() != "1"


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_hostile_name_is_shown_as_text_wherever_it_appears(browser: Browser, world: World) -> None:
    with tab(browser, world.url) as watched:
        page = watched.open()
        shown = HOSTILE.replace("\u202e", "\\u202e")
        link = page.get_by_role("link").filter(has_text="<img src=x onerror")
        expect(link.first).to_contain_text(shown[:20])
        did_nothing(page)
        link.first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(shown)
        page.locator("main[data-loaded]").wait_for()
        did_nothing(page)
        page.locator("#incidents").get_by_role("link").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(shown)
        did_nothing(page)
        for view in ("#/incidents", f"#/compare?a={quote(HOSTILE)}&b={RECORDED}", f"#/plan?run={quote(HOSTILE)}"):
            did_nothing(watched.open(view))


def test_a_hostile_name_in_the_address_is_a_name_that_there_is_not(browser: Browser, world: World) -> None:
    with tab(browser, world.url) as watched:
        watched.allowed.append("404")
        page = watched.open("#/runs/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%2F..%2F%E0%A4%A")
        expect(page.get_by_role("alert")).to_contain_text("there is no run")
        expect(page.locator("#minutes")).to_be_hidden()
        expect(page.get_by_role("link", name="All runs")).to_be_visible()
        did_nothing(page)


def test_text_that_would_become_html_is_refused_by_the_policy(browser: Browser, world: World) -> None:
    with tab(browser, world.url) as watched:
        watched.allowed.append("TrustedHTML")  # the browser says so on its console
        page = watched.open()
        tried = page.evaluate("""() => {
            try { document.querySelector("main").innerHTML = "<img src=x>"; return "became"; }
            catch (error) { return error.name; }
        }""")
        assert tried == "TypeError"


# -- tokens -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(sqlite_template: Path, tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """A collector that asks for tokens: its address, a token that may read, one that may only ingest."""
    database = Database(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'guarded.sqlite3')}")
    tokens = []
    with database.write() as connection:
        for scope in ("read", "ingest"):
            now_us = database.now_us(connection)
            told = {"now_us": now_us, "tenant_id": 1, "name": scope, "scopes": (scope,), "run_patterns": ()}
            tokens.append(create_token(connection, **told)[1])  # type: ignore[arg-type]  # fields by name
    with serving(database) as url:
        yield url, tokens[0], tokens[1]
    database.close()


def test_who_has_no_token_is_asked_for_one_and_it_is_kept_from_scripts(
    browser: Browser, guarded: tuple[str, str, str]
) -> None:
    url, reads, ingests = guarded
    with tab(browser, url) as watched:
        watched.allowed += ["401", "403"]
        page = watched.page
        page.goto(url)
        field = page.get_by_label("Token")
        expect(field).to_be_visible()
        expect(page.get_by_role("main")).not_to_contain_text("Authorization")  # that is for programs
        field.fill(ingests)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("read is needed")
        field.fill(reads)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
        kept = page.evaluate("JSON.stringify([document.cookie, {...localStorage}, location.href])")
        assert reads not in kept
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()


# -- every eye --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(browser: Browser, world: World, view: str) -> None:
    found = []
    # The policy of the page would keep axe itself out.
    with tab(browser, world.url, color_scheme="light", bypass_csp=True) as watched:
        page = watched.open(VIEWS[view].format(slow=world.slow.incident_id))
        for scheme in ("light", "dark") if view in DARK else ("light",):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] # one of its words
            rules = {} if scheme == "light" else {"runOnly": ["color-contrast"]}  # all that the dark changes
            answer = Axe().run(page, options=rules).response
            found += answer["violations"]
            assert "color-contrast" in {each["id"] for each in answer["passes"]}
    grave = [each for each in found if each["impact"] in {"serious", "critical"}]
    told = [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in grave]
    assert grave == [], json.dumps(told, indent=1)


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_it_without_scrolling_sideways_or_jumping_about(
    browser: Browser, world: World, view: str
) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with tab(browser, world.url, **phone) as watched:
        watched.page.add_init_script(SHIFTS)
        page = watched.open(VIEWS[view].format(slow=world.slow.incident_id))
        assert page.evaluate("window.shifted") < MOST_SHIFT
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for region in page.locator(".scroll:visible").all():
            fits = region.evaluate("(each) => each.scrollWidth <= each.clientWidth")
            assert fits, region.get_attribute("aria-label")


def test_on_a_phone_a_list_is_still_a_table_for_who_hears_it(browser: Browser, world: World) -> None:
    with tab(browser, world.url, viewport={"width": 360, "height": 740}, is_mobile=True) as watched:
        page = watched.open("#/incidents")
        table = page.get_by_role("table", name="Incidents, the gravest first")
        assert table.get_by_role("columnheader").all_inner_texts()[:2] == ["severity", "what"]
        row = table.get_by_role("row").filter(has_text="no rank made a step")
        expect(row.get_by_role("cell").nth(0)).to_have_text("critical")
        title = row.get_by_role("cell").nth(2).evaluate("(each) => getComputedStyle(each, '::before').content")
        assert "run" in title


def test_light_and_dark_follow_the_system_until_somebody_chooses(browser: Browser, world: World) -> None:
    with tab(browser, world.url, color_scheme="dark") as watched:
        page = watched.open()
        paper = "getComputedStyle(document.documentElement).backgroundColor"
        dark = page.evaluate(paper)
        page.get_by_role("button", name="Light or dark").click()
        light = page.evaluate(paper)
        assert dark != light
        page.reload()
        assert page.evaluate(paper) == light
