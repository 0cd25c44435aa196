"""Stragglers: which ranks make all others wait, at what cost, and whether a node or a stage is behind it."""

from __future__ import annotations

from grafanalib.core import Dashboard

from tachograph_dashboards.boards.common import FROM_US, OF_INCIDENTS, RUN, TO_US, board, run_annotations, run_variable
from tachograph_dashboards.panels import (
    BAD,
    FAIR,
    GOOD,
    Row,
    bars,
    board_link,
    curves,
    heat,
    laid_out,
    number,
    page_link,
    prom,
    sql,
    table,
)

_PAGE = [page_link("runs/${run:percentencode}")]
_FLAGGED = f"""FROM incidents i {OF_INCIDENTS}
WHERE i.detector LIKE 'straggler%' AND i.opened_us <= {TO_US}
AND COALESCE(i.cleared_us, {TO_US}) >= {FROM_US}"""
_SLOWEST = 'tachograph_run_straggler_busy_seconds{run="$run"}'


def stragglers(public_url: str | None = None) -> Dashboard:
    """The board."""
    return board(
        "tachograph-stragglers", "Stragglers", "Ranks that make all others wait: who, since when, at what cost.",
        laid_out(
            Row(
                4,
                number(
                    "Slowest rank",
                    "The rank that works longest in a step, by the median of its newest five. The same one for hours: "
                    "look at its node. Blank: steps don't tell busy_s.",
                    prom('max(tachograph_run_straggler_rank{run="$run", position="1"})'), "none",
                ),
                number(
                    "Its work over the median rank's",
                    "1.10 and more is flagged if it lasts; every rank waits for the difference, each step.",
                    prom(
                        'max(tachograph_run_straggler_busy_seconds{run="$run", position="1"}) / '
                        'max(tachograph_run_rank_busy_seconds{run="$run"})'
                    ),
                    "none", steps=((None, GOOD), (1.1, FAIR), (1.25, BAD)), decimals=2,
                ),
                number(
                    "GPU-hours to stragglers",
                    "What straggler incidents of this range have cost. They overlap where two are slow at once, so "
                    "it is at most that.",
                    sql(f"""{RUN} SELECT SUM((i.cost->>'gpu_hours')::float8) AS hours {_FLAGGED}"""),
                    "none", decimals=1, links=_PAGE,
                ),
                number(
                    "Can they be seen",
                    "Whether the straggler detector is armed. blind: steps carry neither busy_s nor sections; see "
                    "integrations.",
                    prom('max(tachograph_detector_armed{run="$run", detector="straggler"})'), "bool_yes_no",
                    steps=((None, FAIR), (1, GOOD)),
                ),
            ),
            Row(
                10,
                heat(
                    "Ranks among the slowest five, over time",
                    "Each cell: how often a rank of that part was among the five slowest. A row that stays dark is one "
                    "rank or one node; spread evenly it is noise. Every rank's own times are on the page.",
                    [prom('max by (position) (tachograph_run_straggler_rank{run="$run"})', "{{position}}")],
                    "none", 32, links=_PAGE,
                ),
                curves(
                    "Work of the slowest five, and of the median rank",
                    "Seconds of a step that the rank works itself. The gap between the first and the median is what "
                    "every rank waits.",
                    [
                        prom(f"max by (position) ({_SLOWEST})", "place {{position}}"),
                        prom('max(tachograph_run_rank_busy_seconds{run="$run"})', "median rank"),
                    ],
                    "s", at_least=0,
                ),
            ),
            Row(
                9,
                table(
                    "The ten that cost most",
                    "Stragglers as they were flagged, with what they have cost the whole job. Open ones: drain the "
                    "node as the advice says, if the cost is worth a restart.",
                    sql(f"""{RUN} SELECT CASE WHEN i.cleared_us IS NULL THEN 'open' ELSE 'over' END AS is, i.severity,
                        i.subject, i.node, (i.cost->>'gpu_hours')::float8 AS "GPU-hours",
                        (i.evidence->>'value')::float8 / NULLIF((i.evidence->>'baseline')::float8, 0) AS "times group",
                        to_timestamp(i.opened_us / 1e6) AS since,
                        (COALESCE(i.cleared_us, {TO_US}) - i.opened_us) / 1e6 AS lasted, i.summary, i.advice,
                        i.incident_id AS incident
                        {_FLAGGED} ORDER BY 5 DESC NULLS LAST, i.opened_us DESC LIMIT 10"""),
                    {"GPU-hours": "none", "since": "dateTimeAsLocal", "lasted": "s"}, severity="severity",
                    links={
                        "subject": [page_link("incidents/${__data.fields.incident:percentencode}", "Evidence")],
                        "node": [board_link("tachograph-node", "The node's board", "node", "node")],
                    },
                    widths={"is": 60, "severity": 80, "summary": 300, "advice": 260}, panel_links=_PAGE,
                ),
            ),
            Row(
                8,
                bars(
                    "By node",
                    "GPU-hours that stragglers of each node cost in this range. One far ahead: test that node; several "
                    "alike: their switch, or the data they read.",
                    sql(f"""{RUN} SELECT COALESCE(i.node, 'no one node') AS node,
                        SUM((i.cost->>'gpu_hours')::float8) AS "GPU-hours", COUNT(*) AS times
                        {_FLAGGED} GROUP BY 1 ORDER BY 2 DESC NULLS LAST LIMIT 12"""),
                    "none", x="node", upright=False, links=_PAGE,
                ),
                bars(
                    "By pipeline stage",
                    "The same by stage. One stage ahead of all others: it has too many layers, or its part of the "
                    "network is slow.",
                    sql(f"""{RUN} SELECT COALESCE('stage ' || (i.evidence->'more'->>'stage'), 'no stage told') AS stage,
                        SUM((i.cost->>'gpu_hours')::float8) AS "GPU-hours", COUNT(*) AS times
                        {_FLAGGED} GROUP BY 1 ORDER BY 2 DESC NULLS LAST LIMIT 12"""),
                    "none", x="stage", upright=False, links=_PAGE,
                ),
            ),
        ),
        variables=[run_variable()], annotations=run_annotations(), since="now-6h", public_url=public_url,
        page_path="runs/${run:percentencode}",
    )  # fmt: skip
