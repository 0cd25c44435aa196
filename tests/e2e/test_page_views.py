"""The page in a browser: what somebody sees who opens it, goes through it, zooms, compares, plans and acknowledges."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from page_world import BROKEN, RECORDED, Watched, World, made, serving, tab
from playwright.sync_api import Browser, Route, expect
from tachograph_collector.report.text import duration
from tachograph_collector.store.database import Database


@pytest.fixture
def tab_(browser: Browser, world: World) -> Iterator[Watched]:
    """A tab on the shared world; whatever goes wrong in it fails the test."""
    with tab(browser, world.url) as watched:
        yield watched


def run(name: str) -> str:
    return f"#/runs/{quote(name, safe='')}"


# -- opening and going ------------------------------------------------------------------------------------------------


def test_the_fleet_lists_every_run_with_where_its_time_went(tab_: Watched) -> None:
    page = tab_.open()
    rows = page.get_by_role("table", name="Runs", exact=True).get_by_role("row")
    expect(rows).to_have_count(4)
    recorded = rows.filter(has_text=RECORDED)
    expect(recorded).to_contain_text("86.2 %")
    expect(recorded.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"kept 86\.2 %.*lost 6\.8 %"))
    expect(rows.filter(has_text=BROKEN)).to_contain_text("running, stalled")


def test_before_there_is_a_run_each_view_says_so(browser: Browser, sqlite_template: Path, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'empty.sqlite3')}")
    said = {
        "#/fleet": "No such run yet",
        "#/compare": "There is no run yet.",
        "#/incidents": "No such incident.",
        "#/nodes": "No agent told of any such node.",
        "#/plan": "Saving every",
    }
    with serving(database) as url, tab(browser, url) as watched:
        for view, text in said.items():
            page = watched.open(view)
            expect(page.get_by_role("main")).to_contain_text(text)
            if view != "#/plan":
                expect(page.locator("figure")).not_to_be_visible()
    database.close()


def test_a_name_narrows_the_fleet_and_stays_in_the_address(tab_: Watched) -> None:
    page = tab_.open()
    page.get_by_label("Name").fill("atlas")
    rows = page.get_by_role("table", name="Runs", exact=True).get_by_role("row")
    expect(rows).to_have_count(2)
    assert "name=atlas" in page.url
    page.reload()
    expect(rows).to_have_count(2)


def test_somebody_who_is_paged_sees_at_once_what_broke_since_when_at_what_cost_and_what_to_do(tab_: Watched) -> None:
    page = tab_.open(run(BROKEN))
    expect(page.locator(".state")).to_contain_text("Down: waiting for nodes for 15 min, since")
    head = page.locator(".head")
    expect(head).to_contain_text("failure: gpu, node n0, rank 7")
    expect(head.locator(".tile").filter(has_text="Status")).to_contain_text("running, down")
    expect(head).to_contain_text("Xid 79: the GPU has fallen off the bus")
    expect(head).to_contain_text(re.compile(r"of work lost, 15 min down = [\d.]+ GPU-h, [\d.]+ in money"))
    expect(head).to_contain_text("no rank made a step")
    expect(head).to_contain_text("Look at the scheduler for free nodes")


def test_runs_are_switched_by_links_and_by_the_browsers_way_back(tab_: Watched) -> None:
    page = tab_.open()
    page.get_by_role("link", name=RECORDED).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(RECORDED)
    expect(page.locator(".state")).to_contain_text("Completed")
    page.go_back()
    page.get_by_role("link", name=BROKEN, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(BROKEN)
    expect(page.locator(".state")).to_contain_text("Down")


def test_the_numbers_of_a_run_are_those_of_the_api(tab_: Watched, world: World) -> None:
    page = tab_.open(run(RECORDED))
    told = page.evaluate("fetch('v1/runs/atlas-7b-pretrain?records=false').then((answer) => answer.json())")
    fall = page.get_by_role("table", name="Where the time went")
    row = fall.get_by_role("row").filter(has_text="lost: rollback")
    hours = told["details"]["gpu_hours"]["lost"] * told["details"]["sub_accounts"]["lost/rollback"] / told["lost_s"]
    expect(row).to_contain_text(f"{hours:,.0f}" if hours >= 100 else f"{hours:,.1f}")
    expect(page.locator("#model")).to_contain_text(told_model(page))
    attempts = page.locator("#attempts")
    expect(attempts).to_contain_text(f"{told['attempts']} attempts")


def test_durations_are_told_as_in_the_report(tab_: Watched) -> None:
    seconds = (0, 0.25, 1.5, 5, 12.34, 59.94, 59.96, 60, 100, 599.6, 3599.4, 3599.6, 3660, 86_399, 86_400, 93_600, 1e7)
    page = tab_.open()
    told = page.evaluate("async (all) => all.map((await import('./web/js/format.js')).duration)", list(seconds))
    assert told == [duration(round(each * 1e6)) for each in seconds]


def told_model(page: object) -> str:
    asked = "fetch('v1/runs/atlas-7b-pretrain/model').then((answer) => answer.json())"
    return str(page.evaluate(asked)["model"]["sentence"])  # type: ignore[attr-defined]  # put there by its maker


# -- the strip --------------------------------------------------------------------------------------------------------


def test_dragging_on_the_strip_zooms_to_minutes_and_the_address_keeps_it(tab_: Watched) -> None:
    page = tab_.open(run(RECORDED))
    strip = page.get_by_role("slider", name="Strip of minutes")
    box = strip.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.40, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.44, box["y"] + 20, steps=4)
    page.mouse.up()
    page.mouse.move(5, 5)
    expect(page.locator("#minutes")).to_contain_text("stretches of 1 min")
    assert re.search(r"since=\d+&until=\d+", page.url)
    page.reload()
    expect(page.locator("#minutes")).to_contain_text("stretches of 1 min")
    page.get_by_role("button", name="All of the run").click()
    expect(page.locator("#minutes")).to_contain_text("stretches of 5 min")
    assert "since" not in page.url


def test_the_strip_is_read_and_zoomed_with_keys(tab_: Watched) -> None:
    page = tab_.open(run(RECORDED))
    strip = page.get_by_role("slider", name="Strip of minutes")
    strip.focus()
    page.keyboard.press("Home")
    expect(strip).to_have_attribute("aria-valuetext", re.compile(r"^2026-03-02 08:0\d \(5 min\): .*restart"))
    page.keyboard.press("ArrowRight")
    expect(strip).to_have_attribute("aria-valuenow", "1")
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="All of the run")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="All of the run")).to_have_attribute("aria-pressed", "true")


def test_minutes_that_were_booked_differently_at_first_say_so(tab_: Watched) -> None:
    page = tab_.open(run(BROKEN))
    expect(page.locator("#minutes")).to_contain_text("were booked differently at first")
    strip = page.get_by_role("slider", name="Strip of minutes")
    strip.focus()
    page.keyboard.press("Home")
    texts = []
    for _ in range(75):
        page.keyboard.press("ArrowRight")
        texts.append(strip.get_attribute("aria-valuetext") or "")
    assert any(re.search(r"lost .*restated 1 time, at first kept", text) for text in texts)


def test_a_chart_has_its_numbers_as_a_table(tab_: Watched) -> None:
    page = tab_.open(run(BROKEN))
    chart = page.locator("figure").filter(has_text="Loss").first
    chart.get_by_text("As a table").click()
    rows = chart.get_by_role("row")
    expect(rows.nth(10)).to_be_visible()
    expect(rows.nth(1).get_by_role("cell").nth(1)).to_have_text(re.compile(r"^[2-5]\.\d+$"))


def test_a_stop_in_the_list_zooms_to_itself(tab_: Watched) -> None:
    page = tab_.open(run(RECORDED))
    page.get_by_role("button", name="2026-03-02 16:39:24").click()
    expect(page.locator(".range")).to_contain_text("2026-03-02 16:09 to 2026-03-02 17:15")


def test_a_target_is_remembered_and_missed_in_colour(tab_: Watched) -> None:
    page = tab_.open(run(RECORDED))
    page.get_by_label("Target, %").fill("90")
    page.get_by_label("Target, %").press("Enter")
    missed = page.locator(".tile.bad")
    expect(missed).to_contain_text("target 90.0 %")
    page.reload()
    expect(missed).to_contain_text("target 90.0 %")


# -- compare, plan ----------------------------------------------------------------------------------------------------


def test_two_runs_are_compared_and_exchanged(tab_: Watched) -> None:
    page = tab_.open(f"#/compare?a={RECORDED}&b={BROKEN}")
    side = page.get_by_role("table", name="Side by side")
    cells = side.get_by_role("row").filter(has_text=re.compile("^goodput")).get_by_role("cell")
    expect(cells.nth(1)).to_have_text("86.2 %")
    before = cells.nth(3).inner_text()
    assert re.fullmatch(r"[+−][\d.]+ points", before)
    page.get_by_role("button", name="Exchange").click()
    expect(cells.nth(2)).to_have_text("86.2 %")
    expect(cells.nth(3)).to_have_text(before.translate(str.maketrans("+−", "−+")))


def test_the_planner_takes_a_runs_numbers_and_shows_it_on_the_curve(tab_: Watched) -> None:
    page = tab_.open(f"#/plan?run={RECORDED}")
    expect(page.locator(".state")).to_contain_text(
        re.compile(r"Saving every \d+ min \d+ s keeps \d+\.\d %; the best, every")
    )
    expect(page.get_by_text(f"Run {RECORDED} saves every")).to_contain_text("keeps 86.2 %")
    chart = page.locator("figure").filter(has_text="Goodput over the interval")
    chart.get_by_text("As a table").click()
    expect(chart.get_by_role("row").filter(has_text="86.2 %")).to_have_count(1)


def test_moving_the_slider_moves_what_is_kept(tab_: Watched) -> None:
    page = tab_.open("#/plan?interval=10800&checkpoint=60&restart=1800&mtbf=43200")
    state = page.locator(".state")
    expect(state).to_contain_text("Saving every 3 h keeps 83.9 %")  # the model's own example: goodput(180, 1, 30, 720)
    slider = page.get_by_label("Interval between saves", exact=True)
    slider.focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    expect(state).not_to_contain_text("Saving every 3 h")
    kept = float(re.search(r"keeps (\d+\.\d) %", state.inner_text())[1])  # type: ignore[index]  # it is there
    assert kept > 83.9
    year = page.get_by_role("table", name="Where a year goes")
    expect(year.get_by_role("row").nth(1)).to_contain_text("kept")


def test_an_answer_that_a_later_one_overtook_is_not_shown(tab_: Watched) -> None:
    page = tab_.open("#/plan?interval=10800&checkpoint=60&restart=1800&mtbf=43200")
    early = re.compile(r"/v1/plan\?interval_s=3600&")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(early, hold)
    field = page.get_by_label("Interval between saves, in the unit beside")
    field.fill("1")
    with page.expect_request(early):
        field.press("Enter")
    field.fill("120")  # minutes now
    field.press("Enter")
    state = page.locator(".state")
    expect(state).to_contain_text("Saving every 2 h")
    for route in held:
        route.continue_()
    # What was held comes before what is asked now.
    page.evaluate(
        "fetch('v1/plan?interval_s=60&checkpoint_s=60&restart_s=1800&mtbf_s=43200').then((told) => told.json())"
    )
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(state).to_contain_text("Saving every 2 h")
    assert held


def test_a_number_that_cannot_be_is_refused_in_words(tab_: Watched) -> None:
    tab_.allowed.append("422")
    page = tab_.open("#/plan?mtbf=99999999999")
    expect(page.get_by_role("alert")).to_contain_text("mtbf_s")


# -- incidents --------------------------------------------------------------------------------------------------------


def test_an_incident_is_seen_with_its_evidence_and_acknowledged(tab_: Watched, world: World) -> None:
    page = tab_.open("#/incidents")
    table = page.get_by_role("table", name="Incidents, the gravest first")
    expect(table.get_by_role("row").nth(1)).to_contain_text("critical")
    table.get_by_role("link", name="rank 7 is slow").click()
    main = page.get_by_role("main")
    expect(main).to_contain_text("drain node n3")
    expect(main).to_contain_text("2 min, 0.5 GPU-h, 1.25 in money (steps slower by 20 %)")
    evidence = page.get_by_role("table", name="Evidence")
    expect(evidence.get_by_role("row").filter(has_text="threshold")).to_contain_text("1.10 s")
    expect(evidence.get_by_role("row").filter(has_text="num samples").get_by_role("cell").last).to_have_text("50")
    page.get_by_label("Your name").fill("night shift")
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(main).to_contain_text(re.compile(r"night shift, (now|[\d.]+ (s|min) ago)"))
    page.get_by_label("A note for others").fill("draining n3 <b>now</b>")
    page.get_by_role("button", name="Add the note").click()
    expect(main).to_contain_text("draining n3 <b>now</b>")
    page.get_by_role("button", name="Take back that it was seen").click()
    expect(page.get_by_role("button", name="Acknowledge")).to_be_visible()


def test_of_an_incident_that_there_is_not_no_note_is_asked_for(tab_: Watched) -> None:
    tab_.allowed.append("404")
    page = tab_.open("#/incidents/none")
    expect(page.get_by_role("alert").first).to_contain_text("No such incident")
    expect(page.get_by_label("A note for others")).to_be_hidden()


def test_an_incident_is_acknowledged_from_its_run(browser: Browser, sqlite_template: Path, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'own.sqlite3')}")
    with made(database) as own, tab(browser, own.url) as watched:
        page = watched.open(run(BROKEN))
        row = page.locator("#incidents tbody tr").filter(has_text="no rank made a step")
        row.get_by_role("button", name="Acknowledge").click()
        expect(row).to_contain_text("unknown")  # who it was was not told: nobody needs a token here
        expect(row.get_by_role("button")).to_have_count(0)
    database.close()


def test_an_incident_leads_to_its_run_at_its_time(tab_: Watched, world: World) -> None:
    page = tab_.open(f"#/incidents/{world.hung.incident_id}")
    page.locator(".facts").get_by_role("link", name=BROKEN).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(BROKEN)
    expect(page.get_by_role("button", name="All of the run")).to_have_attribute("aria-pressed", "false")


def test_a_detector_that_sees_nothing_says_why(tab_: Watched) -> None:
    page = tab_.open(run(BROKEN))
    page.get_by_text("2 detectors look, 1 of them blind").click()
    rows = page.get_by_role("table", name="What the detectors see").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("no node sends heartbeats")


# -- keys -------------------------------------------------------------------------------------------------------------


def test_everything_is_reached_with_the_keyboard(tab_: Watched) -> None:
    page = tab_.open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("in a chart: zoom in")
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("[data-row]").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator(".state")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", level=1)).to_have_text("Planner")


# -- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_says_what_is_held_against_it_and_in_which_run(tab_: Watched) -> None:
    page = tab_.open("#/nodes")
    page.get_by_role("link", name="n0", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node n0")
    marks = page.get_by_role("table", name="What is held against it, the latest first")
    expect(marks.get_by_role("row").filter(has_text="Xid 79")).to_contain_text(BROKEN)
    expect(page.locator("#incidents")).to_contain_text("no rank made a step")
    marks.get_by_role("link", name=BROKEN).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(BROKEN)
