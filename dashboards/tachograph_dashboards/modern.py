"""Makes what grafanalib emits what today's Grafana writes itself: the one place that knows what has changed since.

grafanalib 0.7.1 speaks the schema of Grafana 8: data sources by name, keys that nothing reads any more, nulls for all
that isn't said, panels that were Angular's. ``modern`` gives a board as schema version 42 has it, and refuses what it
can't make so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from grafanalib._gen import DashboardEncoder
from grafanalib.core import Dashboard

SCHEMA_VERSION: Final = 42
Json = dict[str, Any]

PANEL_TYPES: Final = frozenset(
    {"timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge", "barchart", "piechart", "text", "row"}
)
"""What boards may be made of: panels that Grafana itself brings, none of them Angular's."""

_DEAD_OF_BOARD: Final = {"__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style", "id", "version"}
_DEAD_OF_VARIABLE: Final = {"useTags", "tagsQuery", "tagValuesQuery", "auto", "auto_min", "auto_count"}
_DEAD_OF_TARGET: Final = {"intervalFactor", "metric", "step", "target", "query", "hide"}
_DEAD_OF_PANEL: Final = {
    *("cacheTimeout", "editable", "error", "height", "hideTimeOverride", "maxPerRow", "minSpan", "span"),
    *("columns", "fontSize", "color", "mappings"),  # of the table before Grafana 7
    *("cards", "dataFormat", "heatmap", "hideZeroBuckets", "highlightCards", "legend", "reverseYBuckets", "tooltip"),
    *("xAxis", "xBucketNumber", "xBucketSize", "yAxis", "yBucketBound", "yBucketNumber", "yBucketSize"),
}

_DEAD_OPTIONS: Final = ("fieldOptions", "showThresholdLabels", "showThresholdMarkers")
"""Of the bar gauge before Grafana 7."""


class BoardError(ValueError):
    """A board that can't be made modern, with what is wrong."""


def modern(board: Dashboard) -> Json:
    """The board as Grafana's JSON, keys in an order that is always the same."""
    told: Json = json.loads(json.dumps(board.auto_panel_ids().to_json_data(), cls=DashboardEncoder))
    told = {key: value for key, value in told.items() if key not in _DEAD_OF_BOARD}
    told["schemaVersion"] = SCHEMA_VERSION
    told["panels"] = [_panel(panel) for panel in told["panels"]]
    told["timepicker"] = {"refresh_intervals": told["timepicker"]["refresh_intervals"]}
    told["templating"] = {"list": [_variable(each) for each in told["templating"]["list"]]}
    cleaned: Json = _without_nulls(told)
    for ref in data_sources(cleaned):
        if not (isinstance(ref, dict) and ref.get("uid") and ref.get("type")):
            raise BoardError(f"board {board.title!r} names a data source {ref!r}; expected its type and uid")
    return cleaned


def _panel(panel: Json) -> Json:
    if panel["type"] not in PANEL_TYPES:
        raise BoardError(
            f"panel {panel['title']!r} is a {panel['type']!r}; expected one of {', '.join(sorted(PANEL_TYPES))}"
        )
    kept = {key: value for key, value in panel.items() if key not in _DEAD_OF_PANEL}
    if kept["type"] == "row":
        inside = [_panel(each) for each in kept.get("panels", [])]
        return {key: kept[key] for key in ("type", "title", "id", "gridPos", "collapsed")} | {"panels": inside}
    for key in ("transparent", "transformations", "links"):
        if not kept.get(key):
            kept.pop(key, None)
    if not kept.get("repeat"):
        kept.pop("repeatDirection", None)
    kept["targets"] = [_target(each, place) for place, each in enumerate(kept["targets"])]
    if kept["type"] == "text":
        for key in ("targets", "datasource", "maxDataPoints", "fieldConfig"):
            kept.pop(key, None)
        return kept
    if kept["type"] == "table":
        custom = kept["fieldConfig"]["defaults"]["custom"]
        custom["cellOptions"] = {"type": custom.pop("displayMode")}
    for key in _DEAD_OPTIONS:
        kept["options"].pop(key, None)
    steps = kept["fieldConfig"]["defaults"]["thresholds"]["steps"]
    if not steps:
        del kept["fieldConfig"]["defaults"]["thresholds"]
    kept["datasource"] = kept["targets"][0]["datasource"]
    kept["pluginVersion"] = ""
    return {key: value for key, value in kept.items() if value != ""}


def _target(target: Json, place: int) -> Json:
    kept = {key: value for key, value in target.items() if key not in _DEAD_OF_TARGET and value != ""}
    kept["refId"] = chr(ord("A") + place)
    kept["editorMode"] = "code"
    if "rawSql" in kept:
        kept.pop("instant", None)
    else:
        kept["range"] = not kept.get("instant")
    return kept


def _variable(variable: Json) -> Json:
    dead = _DEAD_OF_VARIABLE
    if variable["type"] in {"constant", "textbox", "datasource"}:
        dead = dead | {"sort", "allValue"}
    kept = {key: value for key, value in variable.items() if key not in dead}
    kept["current"].pop("tags", None)
    if kept["type"] == "query" and kept.get("datasource", {}).get("type") == "prometheus":
        kept["query"] = {"query": kept["query"], "refId": "Variable"}
    if kept["type"] != "query":
        kept.pop("datasource", None)
        kept.pop("refresh", None)
    if kept["current"].get("text") is None:
        kept["current"] = {}
    return kept


def _without_nulls(told: Any) -> Any:
    """The same without keys that say nothing. A first threshold needs no value: it holds from below all."""
    if isinstance(told, dict):
        return {name: _without_nulls(value) for name, value in told.items() if value is not None}
    if isinstance(told, list):
        return [_without_nulls(each) for each in told]
    return told


def data_sources(told: Any) -> Iterator[Any]:
    """Every reference to a data source in a board, however deep."""
    if isinstance(told, dict):
        for key, value in told.items():
            if key == "datasource":
                yield value
            else:
                yield from data_sources(value)
    elif isinstance(told, list):
        for each in told:
            yield from data_sources(each)


def panels(board: Json) -> Iterator[Json]:
    """Every panel of a modern board but rows, those in collapsed rows included."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel
