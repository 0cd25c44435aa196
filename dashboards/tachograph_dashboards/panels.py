"""What boards are made of: queries, panels that say what their number means, and rows of them on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attr
from grafanalib.core import (
    BarChart,
    BarGauge,
    GridPos,
    Heatmap,
    Panel,
    PieChartv2,
    RowPanel,
    SqlTarget,
    Stat,
    StateTimeline,
    Table,
    Target,
    Text,
    TimeSeries,
)

METRICS: Final = {"type": "prometheus", "uid": "${metrics}"}
LEDGER: Final = {"type": "grafana-postgresql-datasource", "uid": "${ledger}"}

COLOURS: Final = {"kept": "#009e73", "checkpoint": "#0072b2", "lost": "#d55e00", "restart": "#e6a100"}
"""Of the accounts, the same as in the report and on the page; apart for colour-blind readers."""
COSTS: Final = {name: colour for name, colour in COLOURS.items() if name != "kept"}
SEVERITIES: Final = {"critical": "#d55e00", "warning": "#e6a100", "info": "#0072b2"}
GOOD, FAIR, BAD, PLAIN = "#009e73", "#e6a100", "#d55e00", "#8a929b"

Steps = Sequence[tuple[float | None, str]]
WIDTH: Final = 24


# -- queries --------------------------------------------------------------------------------------------------------


def prom(expr: str, legend: str = "", *, instant: bool = False) -> Target:
    """A question for Prometheus; ``instant`` asks for now alone, as a table."""
    shape = "table" if instant else "time_series"
    return Target(expr=expr, legendFormat=legend or "__auto", format=shape, instant=instant, datasource=METRICS)


def sql(query: str, *, series: bool = False) -> SqlTarget:
    """A question for the ledger; ``series`` where it gives times, and perhaps a name a row, for curves."""
    flat = "\n".join(line.strip() for line in query.strip().splitlines())
    return SqlTarget(rawSql=flat, format="time_series" if series else "table", datasource=LEDGER)


# -- parts of panels ------------------------------------------------------------------------------------------------


def page_link(path: str, title: str = "On Tachograph's page") -> dict[str, Any]:
    """A link to the collector's own page, such as ``runs/${run:percentencode}``."""
    return {"title": title, "url": f"${{page:raw}}/#/{path}", "targetBlank": True}


def board_link(uid: str, title: str, variable: str, column: str) -> dict[str, Any]:
    """From a cell to another board, for what stands in ``column`` (one plain word) of its row."""
    value = f"${{__data.fields.{column}:percentencode}}"
    return {"title": title, "url": f"/d/{uid}?var-{variable}={value}&${{__url_time_range}}"}


def _by_name(name: str, **properties: Any) -> dict[str, Any]:
    """Properties of the field of that name; dots in their names are underscores here."""
    told = [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": told}


def coloured(colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """Fields by name in these colours."""
    return [_by_name(name, color={"mode": "fixed", "fixedColor": colour}) for name, colour in colours.items()]


def words(colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """Values that are words, in these colours."""
    told = {word: {"color": colour, "index": place} for place, (word, colour) in enumerate(colours.items())}
    return [{"type": "value", "options": told}]


def _steps(steps: Steps) -> list[dict[str, Any]]:
    return [{"color": colour, "value": value} for value, colour in steps]


def _defaults(unit: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"fieldConfig": {"defaults": {"unit": unit, **(more or {})}}}


# -- panels ---------------------------------------------------------------------------------------------------------


def curves(
    title: str,
    text: str,
    targets: Sequence[Target],
    unit: str,
    *,
    stacked: bool = False,
    at_least: int | None = None,
    at_most: int | None = None,
    steps: Steps = (),
    overrides: Sequence[dict[str, Any]] = (),
    log: bool = False,
    bars: bool = False,
    points: bool = False,
    links: Sequence[dict[str, Any]] = (),
) -> Panel:
    """Lines over time."""
    style = "points" if points else "bars" if bars else "line"
    return TimeSeries(
        title=title, description=text, targets=list(targets), unit=unit, drawStyle=style, links=list(links),
        stacking={"mode": "normal", "group": "A"} if stacked else {"mode": "none", "group": "A"},
        fillOpacity=70 if stacked or bars else 8, lineWidth=0 if bars else 1,
        showPoints="always" if points else "never",
        valueMin=at_least, valueMax=at_most, thresholds=_steps(steps), overrides=list(overrides),
        thresholdsStyleMode="dashed" if steps else "off", tooltipMode="multi", tooltipSort="desc", maxDataPoints=None,
        scaleDistributionType="log" if log else "linear",
        extraJson={"options": {"legend": {"showLegend": True}}},
    )  # fmt: skip


def number(
    title: str, text: str, target: Target, unit: str, *, steps: Steps = (), decimals: int | None = None,
    mappings: Sequence[Any] = (), links: Sequence[dict[str, Any]] = (), word: bool = False,
) -> Panel:  # fmt: skip
    """One number that stands for now; ``word`` where it is text."""
    return Stat(
        title=title, description=text, targets=[target], format=unit, reduceCalc="lastNotNull", graphMode="none",
        noValue="unknown", decimals=decimals, mappings=list(mappings), maxDataPoints=None, links=list(links),
        color={"mode": "thresholds" if steps else "fixed", "fixedColor": PLAIN}, fields="/.*/" if word else "",
        extraJson={"fieldConfig": {"defaults": {"thresholds": {"mode": "absolute", "steps": _steps(steps)}}}}
        if steps else None,
    )  # fmt: skip


def table(
    title: str, text: str, target: Target, units: Mapping[str, str], *,
    links: Mapping[str, Sequence[dict[str, Any]]] | None = None, severity: str | None = None,
    gauges: Sequence[str] = (), widths: Mapping[str, int] | None = None,
    hidden: Sequence[str] = (), renamed: Mapping[str, str] | None = None, panel_links: Sequence[dict[str, Any]] = (),
) -> Panel:  # fmt: skip
    """Rows. ``units`` by column, ``links`` of cells by column, ``severity`` the column that is coloured by it."""
    overrides = [_by_name(column, unit=unit) for column, unit in units.items()]
    overrides += [_by_name(column, links=list(each)) for column, each in (links or {}).items()]
    overrides += [_by_name(column, custom__width=width) for column, width in (widths or {}).items()]
    overrides += [_by_name(column, custom__cellOptions={"type": "gauge", "mode": "basic"}) for column in gauges]
    if severity:
        cell = {"type": "color-text"}
        overrides.append(_by_name(severity, mappings=words(SEVERITIES), custom__cellOptions=cell))
    made = Table(
        title=title, description=text, targets=[target], overrides=overrides, unit="none", maxDataPoints=None,
        links=list(panel_links), filterable=True,
        extraJson={"options": {"cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "countRows": False}}},
    )  # fmt: skip
    if hidden or renamed:
        options = {"excludeByName": dict.fromkeys(hidden, True), "indexByName": {}, "renameByName": dict(renamed or {})}
        made.transformations = [{"id": "organize", "options": options}]
    return made


def strip(title: str, text: str, target: Target, colours: Mapping[str, str], **more: Any) -> Panel:
    """What held when, as words in colours."""
    return StateTimeline(
        title=title, description=text, targets=[target], mappings=words(colours), colorMode="fixed", maxDataPoints=None,
        showValue="never", fillOpacity=90, extraJson=_defaults("none") | {"options": {"legend": {"showLegend": True}}},
        **more,
    )  # fmt: skip


def heat(title: str, text: str, targets: Sequence[Target], unit: str, buckets: int, **more: Any) -> Panel:
    """How many series have a value in each stretch of time and of values."""
    options = {
        "calculate": True,
        "calculation": {
            "xBuckets": {"mode": "count", "value": "60"},
            "yBuckets": {"mode": "count", "value": str(buckets)},
        },
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 32, "reverse": False, "exponent": 0.5},
        "cellGap": 1,
        "filterValues": {"le": 1e-9},
        "yAxis": {"axisPlacement": "left", "unit": unit, "decimals": 0},
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": True},
        "legend": {"show": True},
        "exemplars": {"color": "#0072b2"},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
    }
    return Heatmap(
        title=title, description=text, targets=list(targets), options=options, maxDataPoints=None,
        extraJson=_defaults(unit), **more,
    )  # fmt: skip


def bars(
    title: str, text: str, target: Target, unit: str, *, x: str, stacked: bool = False, upright: bool = True,
    overrides: Sequence[dict[str, Any]] = (), legend: bool = True, **more: Any,
) -> Panel:  # fmt: skip
    """A bar, or a stack, for each row; ``x`` is the column that names it."""
    return BarChart(
        title=title, description=text, targets=[target], stacking="normal" if stacked else "none",
        orientation="vertical" if upright else "horizontal", showLegend=legend, overrides=list(overrides),
        maxDataPoints=None, thresholdSteps=[], tooltipMode="multi", showValue="never",
        extraJson=_defaults(unit) | {"options": {"xField": x}}, **more,
    )  # fmt: skip


def levels(title: str, text: str, target: Target, unit: str, *, links: Sequence[dict[str, Any]] = ()) -> Panel:
    """A bar for each series or row, with its name, for now."""
    return BarGauge(
        title=title, description=text, targets=[target], format=unit, calc="lastNotNull", displayMode="basic",
        orientation="horizontal", maxDataPoints=None, links=list(links), thresholds=[],
        extraJson={
            "fieldConfig": {"defaults": {"unit": unit, "color": {"mode": "palette-classic"}, "min": 0}},
            "options": {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "valueMode": "color",
                "showUnfilled": True,
                "namePlacement": "auto",
                "sizing": "auto",
            },
        },
    )  # fmt: skip


def shares(title: str, text: str, target: Target, unit: str, overrides: Sequence[dict[str, Any]] = ()) -> Panel:
    """A ring of parts."""
    return PieChartv2(
        title=title, description=text, targets=[target], unit=unit, pieType="donut", overrides=list(overrides),
        reduceOptionsCalcs=["lastNotNull"], legendValues=["value", "percent"], legendPlacement="right",
        maxDataPoints=None, extraJson={"options": {"legend": {"showLegend": True}}},
    )  # fmt: skip


def words_of(text: str) -> Panel:
    """A few sentences."""
    return Text(content=text, title="", maxDataPoints=None)


# -- the grid -------------------------------------------------------------------------------------------------------


class Row:
    """Panels side by side, of one height. Widths are told, or shared equally."""

    def __init__(self, height: int, *panels: Panel, widths: Sequence[int] = ()) -> None:
        self.height = height
        self.panels = panels
        self.widths = list(widths) or [WIDTH // len(panels)] * len(panels)
        if sum(self.widths) > WIDTH or len(self.widths) != len(panels):
            raise ValueError(f"{len(panels)} panels of widths {self.widths}; a row has {WIDTH} columns")


def laid_out(*parts: str | Row) -> list[Panel]:
    """The panels at their places: rows below each other; a string is the heading of what follows."""
    placed, y = [], 0
    for part in parts:
        if isinstance(part, str):
            placed.append(RowPanel(title=part, gridPos=GridPos(h=1, w=WIDTH, x=0, y=y)))
            y += 1
            continue
        x = 0
        for panel, width in zip(part.panels, part.widths, strict=True):
            placed.append(attr.evolve(panel, gridPos=GridPos(h=part.height, w=width, x=x, y=y)))
            x += width
        y += part.height
    return placed
