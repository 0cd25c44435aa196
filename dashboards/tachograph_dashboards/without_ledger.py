"""Boards for a collector on SQLite, which Grafana can't read: what comes from the ledger becomes a link to the page."""

from __future__ import annotations

from typing import Any, Final

from tachograph_dashboards.modern import Json
from tachograph_dashboards.panels import LEDGER, METRICS

_VARIABLES: Final = {
    "run": "label_values(tachograph_run_info, run)",
    "node": "label_values(tachograph_agent_ranks_alive, node)",
}
"""Where the choices come from instead."""

_OF_LEDGER: Final = {"ledger", "origin"}
"""Choices that only questions for the ledger need; without one, live panels are of live runs."""

_PUSHED: Final[Json] = {
    "name": "Incidents",
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": False,
    "iconColor": "#d55e00",
    "target": {"type": "tags", "tags": ["tachograph", "run:$run"], "matchAny": False, "limit": 500},
}
"""The incidents of the chosen run that the collector's sink put into Grafana, by its tags."""


def without_ledger(board: Json) -> Json:
    """The same board without a question for PostgreSQL."""
    page = next(link["url"] for link in board["links"] if link["type"] == "link")
    variables = [_variable(each) for each in board["templating"]["list"] if each["name"] not in _OF_LEDGER]
    asked = any(each["datasource"] == LEDGER for each in board["annotations"]["list"])
    notes = [each for each in board["annotations"]["list"] if each["datasource"] != LEDGER]
    notes += [_PUSHED] if asked else []
    changed = {
        "panels": [_panel(each, page) for each in board["panels"]],
        "templating": {"list": variables},
        "annotations": {"list": notes},
    }
    return board | changed


def _panel(panel: Json, page: str) -> Json:
    if panel.get("datasource") != LEDGER:
        targets = [_of_live_runs(each) for each in panel.get("targets", [])]
        return panel | ({"targets": targets} if targets else {})
    url = panel["links"][0]["url"] if panel.get("links") else page
    kept = {key: panel[key] for key in ("id", "gridPos", "title", "description")}
    said = f"[{panel['title']}]({url}) is on Tachograph's page: Grafana can't read the collector's SQLite."
    return kept | {"type": "text", "options": {"mode": "markdown", "content": said}}


def _of_live_runs(target: Json) -> Json:
    return target | {"expr": target["expr"].replace('origin=~"|$origin"', 'origin=""')} if "expr" in target else target


def _variable(variable: Json) -> dict[str, Any]:
    if variable.get("datasource") != LEDGER:
        return variable
    query = {"query": _VARIABLES[variable["name"]], "refId": "Variable"}
    return variable | {"datasource": METRICS, "query": query}
