"""What all boards share: their variables, annotations, links, and pieces of SQL over the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grafanalib.core import Annotations, Dashboard, Panel, Template, Templating, Time, TimePicker

from tachograph_dashboards.panels import LEDGER, METRICS

PUBLIC_URL: Final = "http://localhost:8420"
"""Where the page is taken to be until the collector's own word is read."""
TAG: Final = "tachograph"

FROM_US: Final = "$__unixEpochFrom()::bigint * 1000000"
TO_US: Final = "$__unixEpochTo()::bigint * 1000000"

NAMED: Final = "b.name || CASE WHEN b.generation > 1 THEN '#' || b.generation ELSE '' END"
"""The run's name as metrics and the page have it: the second run of a name is ``name#2``."""
RUN: Final = f"""WITH run AS (
SELECT * FROM books b WHERE {NAMED} = ${{run:sqlstring}} ORDER BY b.generation LIMIT 1
)"""
"""The chosen run, to be joined by ``OF_RUN``, or by ``OF_INCIDENTS``, which are of all runs of a name."""
OF_INCIDENTS: Final = "JOIN run USING (tenant_id, run_id)"
OF_RUN: Final = "JOIN run USING (tenant_id, run_id, generation)"
CUT: Final = f"""WITH cut AS (
SELECT {NAMED} AS run, b.run_id, b.generation, s.account, s.sub, s.cause,
a.world_size * (s.sub <> 'queued')::int AS world_size,
LEAST(s.end_us, {TO_US}) - GREATEST(s.start_us, {FROM_US}) AS us
FROM segments s
JOIN books b ON b.tenant_id = s.tenant_id AND b.run_id = s.run_id AND b.generation = s.generation
LEFT JOIN attempts a ON a.tenant_id = s.tenant_id AND a.run_id = s.run_id AND a.generation = s.generation
AND a.attempt_index = s.attempt
WHERE s.start_us < {TO_US} AND s.end_us > {FROM_US} AND b.origin IN (${{origin:sqlstring}})
)"""
"""Every stretch of the chosen time: its run, account, cause, ranks (null: unknown; none
while it queues, for it holds no GPU then), and how much of it lies inside."""


def within(column: str) -> str:
    """A condition: this time in µs lies in the range of the board."""
    return f"{column} BETWEEN {FROM_US} AND {TO_US}"


def bucket(column: str) -> str:
    """The board's interval in which this time in µs lies, as a time."""
    return f"to_timestamp($__unixEpochGroup({column}/1000000, '$__interval'))"


# -- variables ------------------------------------------------------------------------------------------------------


def _source(name: str, label: str, kind: str, title: str, uid: str) -> Template:
    made = Template(name=name, label=label, query=kind, type="datasource", hide=2)
    made._current = {"selected": True, "text": title, "value": uid}  # noqa: SLF001 # grafanalib has no other way
    return made


def _page(public_url: str | None) -> Template:
    if public_url is not None:
        return Template(name="page", label="Page", query=public_url, default=public_url, type="constant", hide=2)
    return Template(
        name="page", label="Page", query="label_values(tachograph_collector_info, public_url)", default=PUBLIC_URL,
        dataSource=METRICS, hide=2, refresh=1, sort=0,
    )  # fmt: skip


def run_variable() -> Template:
    """Which run, the one heard of last first."""
    query = f"SELECT {NAMED} AS name FROM books b ORDER BY b.end_us DESC LIMIT 2000"
    return Template(name="run", label="Run", query=query, dataSource=LEDGER, refresh=2, sort=0)


def node_variable() -> Template:
    """Which node."""
    query = "SELECT node FROM nodes GROUP BY node ORDER BY MAX(last_heard_us) DESC LIMIT 5000"
    return Template(name="node", label="Node", query=query, dataSource=LEDGER, refresh=2, sort=0)


def origin_variable() -> Template:
    """Which runs count: live ones, unless others are asked for or there are no live ones; none are mixed in a total.

    Grafana takes the first that there is. So a fleet's board shows its live runs, and that of a collector which was set
    up for a look at a rehearsal shows the rehearsal, not nothing.
    """
    query = (
        "SELECT b.origin FROM books b GROUP BY b.origin "
        "ORDER BY array_position(ARRAY['live', 'rehearsal', 'replay'], b.origin::text) LIMIT 10"
    )
    return Template(name="origin", label="Runs", query=query, dataSource=LEDGER, refresh=1, sort=0)


def target_variable() -> Template:
    """The goodput that was promised."""
    return Template(name="target", label="Target", query="0.9", default="0.9", type="textbox")


# -- annotations ----------------------------------------------------------------------------------------------------


def _annotation(name: str, colour: str, query: str, *, enable: bool = True) -> dict[str, Any]:
    flat = "\n".join(line.strip() for line in query.strip().splitlines())
    return {
        "name": name,
        "datasource": LEDGER,
        "enable": enable,
        "hide": False,
        "iconColor": colour,
        "target": {"refId": name, "rawSql": flat, "rawQuery": True, "format": "table", "editorMode": "code"},
    }


def run_annotations() -> list[dict[str, Any]]:
    """What happened to the chosen run, as regions: incidents, restarts, rollbacks, saves (hidden until asked for)."""
    return [
        _annotation(
            "Incidents", "#d55e00",
            f"""{RUN}
            SELECT i.opened_us/1000 AS time, COALESCE(i.cleared_us, {TO_US})/1000 AS timeend, i.summary AS text,
            concat_ws(',', i.detector, i.severity, i.node) AS tags
            FROM incidents i {OF_INCIDENTS}
            WHERE i.opened_us < {TO_US} AND COALESCE(i.cleared_us, {TO_US}) >= {FROM_US}
            AND COALESCE(i.outcome, '') NOT LIKE 'withdrawn%'
            ORDER BY i.opened_us LIMIT 500""",
        ),
        _annotation(
            "Restarts", "#e6a100",
            f"""{RUN}
            SELECT x.at_us/1000 AS time, COALESCE(x.resumed_at_us, {TO_US})/1000 AS timeend,
            concat_ws(': ', x.how, COALESCE(x.category, 'cause unknown'), x.detail) AS text,
            concat_ws(',', 'restart', x.category, x.node) AS tags
            FROM restarts x {OF_RUN}
            WHERE x.how <> 'rollback' AND x.at_us < {TO_US} AND COALESCE(x.resumed_at_us, {TO_US}) >= {FROM_US}
            ORDER BY x.at_us LIMIT 500""",
        ),
        _annotation(
            "Rollbacks", "#cc79a7",
            f"""{RUN}
            SELECT x.at_us/1000 AS time, COALESCE(x.resumed_at_us, x.at_us)/1000 AS timeend,
            'back to step ' || COALESCE(x.resume_step::text, 'unknown') || ' from ' || COALESCE(x.last_step::text,
            'unknown') AS text, 'rollback' AS tags
            FROM restarts x {OF_RUN} WHERE x.how = 'rollback' AND {within("x.at_us")} ORDER BY x.at_us LIMIT 500""",
        ),
        _annotation(
            "Checkpoints", "#0072b2",
            f"""{RUN}
            SELECT COALESCE(c.start_us, c.end_us)/1000 AS time, COALESCE(c.landed_us, c.end_us)/1000 AS timeend,
            'step ' || c.step || ' ' || c.state AS text, concat_ws(',', 'checkpoint', c.mode) AS tags
            FROM checkpoints c {OF_RUN} WHERE {within("COALESCE(c.start_us, c.end_us)")}
            ORDER BY COALESCE(c.start_us, c.end_us) DESC LIMIT 500""",
            enable=False,
        ),
    ]  # fmt: skip


# -- a board --------------------------------------------------------------------------------------------------------


def board(
    uid: str, title: str, text: str, placed: Sequence[Panel], *, variables: Sequence[Template] = (),
    annotations: Sequence[dict[str, Any]] = (), since: str = "now-24h", public_url: str | None = None,
    page_path: str = "",
) -> Dashboard:  # fmt: skip
    """A board with what all of them have: data sources, links to the other boards and to the page."""
    sources = [
        _source("metrics", "Metrics", "prometheus", "Tachograph metrics", "tachograph-prometheus"),
        _source("ledger", "Ledger", "grafana-postgresql-datasource", "Tachograph ledger", "tachograph-postgresql"),
    ]
    more = {"asDropdown": False, "icon": "external link", "includeVars": True, "keepTime": True, "tooltip": ""}
    links = [
        {"type": "dashboards", "title": "Boards", "tags": [TAG], "targetBlank": False, "url": ""} | more,
        {"type": "link", "title": "Tachograph's page", "url": f"${{page:raw}}/#/{page_path}", "tags": []}
        | more
        | {"includeVars": False, "keepTime": False, "targetBlank": True},
    ]
    return Dashboard(
        title=f"Tachograph / {title}", uid=uid, description=text, tags=[TAG], timezone="browser", editable=False,
        graphTooltip=1, refresh="30s", time=Time(since, "now"), panels=list(placed), links=links,
        timePicker=TimePicker(refreshIntervals=["10s", "30s", "1m", "5m", "30m"], timeOptions=[]),
        templating=Templating(list=[*sources, _page(public_url), *variables]),
        annotations=Annotations(list=list(annotations)),
    )  # fmt: skip
