"""The boards' JSON: as the code says, as today's Grafana has it, and as a good board is (dashboard-linter's rules)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from grafanalib.core import Graph, SingleStat
from tachograph_dashboards.__main__ import main
from tachograph_dashboards.boards.common import board
from tachograph_dashboards.generate import ALERTS, BOARDS, FOLDER, boards, write, write_rules
from tachograph_dashboards.modern import PANEL_TYPES, SCHEMA_VERSION, BoardError, data_sources, modern, panels
from tachograph_dashboards.panels import LEDGER

REPOSITORY = Path(__file__).parents[3]
MADE = boards()
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, made in MADE.items()
    for panel in panels(made)
    if panel["type"] != "text"
]
DOCUMENTED = set(
    re.findall(r"tachograph_\w+", (REPOSITORY / "docs/metrics.md").read_text())
) | {
    f"tachograph_agent_{name}"
    for name in re.findall(r"`(\w+?)(?:\{[^`]*\})?`", (REPOSITORY / "docs/agent.md").read_text())
}  # fmt: skip
NO_UNIT = {"none"}


def questions(kind: str) -> list[str]:
    return [target[kind] for made in MADE.values() for panel in panels(made) for target in panel.get("targets", [])
            if kind in target]  # fmt: skip


def test_the_committed_boards_and_rules_are_what_the_code_says() -> None:
    stale = write(FOLDER, check=True) + write_rules(ALERTS, check=True)
    assert stale == [], "make boards"
    assert {path.stem for path in FOLDER.glob("*.json")} == set(BOARDS)


def test_what_is_stale_is_named_and_written_anew(tmp_path: Path) -> None:
    assert write(tmp_path) == [f"{name}.json" for name in BOARDS]
    (tmp_path / "run.json").write_text("{}")
    assert write(tmp_path, check=True) == ["run.json"]
    assert write(tmp_path) == ["run.json"]
    assert write(tmp_path, check=True) == []


def test_the_command_writes_boards_and_rules_where_it_is_told_and_says_what_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--into", str(tmp_path / "boards"), "--rules-into", str(tmp_path / "rules")]
    assert main(where) == 0
    assert main([*where, "--check"]) == 0
    assert {path.name for path in (tmp_path / "rules").iterdir()} == {"recording.yml", "runs.yml", "tachograph.yml"}
    assert main([*where, "--check", "--without-ledger"]) == 1
    assert "stale: fleet.json, run.json" in capsys.readouterr().err


def _nulls(told: Any, path: str = "") -> list[str]:
    if isinstance(told, dict):
        return [each for key, value in told.items() for each in _nulls(value, f"{path}.{key}")]
    if isinstance(told, list):
        return [each for place, value in enumerate(told) for each in _nulls(value, f"{path}[{place}]")]
    return [path] if told is None else []


@pytest.mark.parametrize("name", MADE)
def test_a_board_is_modern(name: str) -> None:
    made = MADE[name]
    assert made["schemaVersion"] == SCHEMA_VERSION
    assert _nulls(made) == []
    assert {panel["type"] for panel in made["panels"]} <= PANEL_TYPES
    known = {"${metrics}", "${ledger}"}
    assert {ref["uid"] for ref in data_sources(made)} <= known
    assert not {"rows", "style", "gnetId", "hideControls", "sharedCrosshair", "__inputs", "id"} & made.keys()


@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")  # which files can't be yet
@pytest.mark.parametrize("name", MADE)
def test_grafanas_own_types_take_a_board_and_lose_nothing_of_it(name: str) -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    taken = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(MADE[name])))
    assert _lost(MADE[name], taken) == []


def _lost(told: Any, taken: Any, path: str = "") -> list[str]:
    """What is in the first and not, or not the same, in the second."""
    if isinstance(told, dict):
        if not isinstance(taken, dict):
            return [path]
        return [each for key, value in told.items() for each in _lost(value, taken.get(key), f"{path}.{key}")]
    if isinstance(told, list):
        if not isinstance(taken, list) or len(told) != len(taken):
            return [path]
        pairs = enumerate(zip(told, taken, strict=True))
        return [each for place, (one, other) in pairs for each in _lost(one, other, f"{path}[{place}]")]
    return [] if told == taken else [f"{path}: {told!r} became {taken!r}"]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_has_a_title_and_says_what_it_means_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert len(panel["description"]) > 20
    assert panel["description"].rstrip().endswith((".", ")"))
    assert panel["fieldConfig"]["defaults"].get("unit")
    assert panel["targets"]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_asks_one_source_and_names_its_series(panel: dict[str, Any]) -> None:
    sources = {target["datasource"]["uid"] for target in panel["targets"]}
    assert sources == {panel["datasource"]["uid"]}
    for target in panel["targets"]:
        if panel["type"] == "timeseries" and "expr" in target:
            assert target["legendFormat"] != "__auto", target["expr"]


@pytest.mark.parametrize("name", MADE)
def test_panels_fit_on_the_grid_without_lying_on_each_other(name: str) -> None:
    taken = set()
    for panel in MADE[name]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))
        assert panel["type"] == "row" or place["w"] >= 4, "too narrow at 1280 pixels"


@pytest.mark.parametrize("expr", questions("expr"))
def test_a_question_for_prometheus_is_of_documented_series_and_sound(expr: str) -> None:
    for name in re.findall(r"tachograph_\w+", expr):
        assert re.sub("_bucket$", "", name) in DOCUMENTED, name
    for counter in re.findall(r"(?<!\w)(\w+_total)\b", expr):
        assert re.search(rf"(rate|increase)\({counter}", expr), f"{counter} is a counter"
    for function, inside in re.findall(r"\b(rate|increase)\([^\[]*\[([^\]]+)\]", expr):
        assert inside == "$__rate_interval" if function == "rate" else inside in {"1d", "1h"}


@pytest.mark.parametrize("query", questions("rawSql"))
def test_a_question_for_the_ledger_is_bounded_and_quotes_what_people_choose(query: str) -> None:
    for name, style in re.findall(r"\$\{(\w+):?(\w*)\}", query):
        assert style == "sqlstring", name
    assert not re.search(r"\$(run|node|origin)\b", query)
    assert re.search(r"\bLIMIT \d+|\b(SUM|COUNT|MAX)\(|\$__unixEpoch|FROM run$", query), (
        "it may give any number of rows"
    )


def test_boards_have_uids_of_their_own_and_link_to_each_other_and_to_the_page() -> None:
    assert len({made["uid"] for made in MADE.values()}) == len(MADE)
    text = json.dumps(MADE)
    uids = {made["uid"] for made in MADE.values()}
    assert set(re.findall(r"/d/([\w-]+)\?", text)) <= uids
    for made in MADE.values():
        kinds = {link["type"]: link for link in made["links"]}
        assert kinds["dashboards"]["tags"] == made["tags"]
        assert kinds["link"]["url"].startswith("${page:raw}/#/")


def test_names_in_links_are_percent_encoded() -> None:
    links = re.findall(r'"url": "([^"]+)"', json.dumps(MADE))
    used = {use for link in links for use in re.findall(r"\$\{([^}]+)\}", link)}
    assert {use for use in used if not use.endswith(":percentencode")} == {"page:raw", "__url_time_range"}


def test_ids_of_panels_are_their_own() -> None:
    for made in MADE.values():
        ids = [panel["id"] for panel in made["panels"]]
        assert len(ids) == len(set(ids))


def test_a_public_url_that_is_told_is_written_into_the_boards() -> None:
    for made in boards("https://tachograph.example").values():
        [page] = [each for each in made["templating"]["list"] if each["name"] == "page"]
        assert (page["type"], page["query"]) == ("constant", "https://tachograph.example")


@pytest.mark.parametrize("name", BOARDS)
def test_without_a_ledger_its_panels_are_links_to_the_page_and_nothing_asks_it(name: str) -> None:
    made, whole = boards(with_ledger=False)[name], MADE[name]
    assert LEDGER["uid"] not in json.dumps(made)
    assert "origin}" not in json.dumps(made)
    assert "$origin" not in json.dumps(made)
    for note in made["annotations"]["list"]:
        assert note["target"]["tags"] == ["tachograph", "run:$run"], "those of the collector's own sink"
    assert len(made["annotations"]["list"]) == bool(whole["annotations"]["list"])
    was = {panel["id"] for panel in panels(whole) if panel.get("datasource") == LEDGER}
    told = {panel["id"]: panel for panel in panels(made)}
    assert len(told) == len(list(panels(whole)))
    for which in was:
        assert told[which]["type"] == "text"
        assert "](${page:raw}/#/" in told[which]["options"]["content"]


@pytest.mark.parametrize("old", [Graph(title="old"), SingleStat(title="old")])
def test_a_panel_of_angulars_time_is_refused_by_name(old: Any) -> None:
    with pytest.raises(BoardError, match=r"panel 'old' is a '(graph|singlestat)'"):
        modern(board("x", "x", "x", [old]))
