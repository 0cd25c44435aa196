"""Node: whether one machine is heard of, how it is, what its kernel said, and which runs it hurt."""

from __future__ import annotations

from grafanalib.core import Dashboard

from tachograph_dashboards.boards.common import FROM_US, NAMED, TO_US, board, node_variable, within
from tachograph_dashboards.panels import (
    BAD,
    FAIR,
    GOOD,
    Row,
    board_link,
    curves,
    laid_out,
    number,
    page_link,
    prom,
    sql,
    table,
)

_PAGE = [page_link("nodes/${node:percentencode}")]
_MINE = 'node="$node"'
_HERE = "${node:sqlstring}"


def node(public_url: str | None = None) -> Dashboard:
    """The board."""
    return board(
        "tachograph-node", "Node", "One node: heartbeats, health, Xids, and the runs that it hurt.",
        laid_out(
            Row(
                4,
                number(
                    "Last heard of",
                    "When anything last came from its agent, for any run. Minutes ago while a run uses it: the node, "
                    "its agent or its network is down.",
                    sql(f"SELECT MAX(last_heard_us) / 1000 AS heard FROM nodes WHERE node = {_HERE}"),
                    "dateTimeFromNow", links=_PAGE,
                ),
                number(
                    "State",
                    "As the collector has it, of its newest run: alive, suspect, dead (silent for too long), lost "
                    "(only the agent: ranks go on), gone (it said good-bye).",
                    sql(f"SELECT state FROM nodes WHERE node = {_HERE} ORDER BY last_heard_us DESC LIMIT 1"),
                    "none", word=True, links=_PAGE,
                ),
                number(
                    "Failures it began",
                    "How often it was the first node to fail, in this range. Two in different runs: test it.",
                    sql(f"SELECT COUNT(*) AS n FROM restarts WHERE node = {_HERE} AND how = 'failure' "
                        f"AND {within('at_us')}"),
                    "none", steps=((None, GOOD), (1, FAIR), (2, BAD)), links=_PAGE,
                ),
                number(
                    "Open incidents", "What is flagged of it now. Any critical one: drain it.",
                    sql(f"SELECT COUNT(*) AS n FROM incidents WHERE node = {_HERE} AND cleared_us IS NULL"),
                    "none", steps=((None, GOOD), (1, BAD)), links=_PAGE,
                ),
                number(
                    "Clock off by",
                    "The collector's clock less the node's. Beyond 2 s its events are booked at wrong times: mend NTP.",
                    prom(f"max(tachograph_agent_clock_offset_seconds{{{_MINE}}})"), "s", decimals=3,
                ),
            ),
            Row(
                8,
                table(
                    "Health and Xids",
                    "What agents found wrong with it, in this range. The advice says whether to drain it at once.",
                    sql(f"""SELECT CASE WHEN i.cleared_us IS NULL THEN 'open' ELSE 'over' END AS is, i.severity,
                        i.detector, i.summary, i.advice, to_timestamp(i.opened_us / 1e6) AS since,
                        (COALESCE(i.cleared_us, {TO_US}) - i.opened_us) / 1e6 AS lasted, r.name AS run,
                        i.incident_id AS incident
                        FROM incidents i JOIN runs r USING (tenant_id, run_id)
                        WHERE i.node = {_HERE} AND i.opened_us <= {TO_US}
                        AND COALESCE(i.cleared_us, {TO_US}) >= {FROM_US}
                        ORDER BY i.cleared_us IS NOT NULL, i.opened_us DESC LIMIT 100"""),
                    {"since": "dateTimeAsLocal", "lasted": "s"}, severity="severity",
                    links={
                        "summary": [page_link("incidents/${__data.fields.incident:percentencode}", "Evidence")],
                        "run": [board_link("tachograph-run", "The run's board", "run", "run")],
                    },
                    widths={"is": 60, "severity": 80, "summary": 320, "advice": 280}, panel_links=_PAGE,
                ),
            ),
            Row(
                8,
                table(
                    "Runs that it hurt",
                    "Stops of runs that this node was the first to have, with what they cost the whole run.",
                    sql(f"""SELECT to_timestamp(x.at_us / 1e6) AS time, {NAMED} AS run, x.how, x.category AS cause,
                        x.rank, (x.lost_us + x.restart_us) / 1e6 AS cost, x.detail
                        FROM restarts x JOIN books b USING (tenant_id, run_id, generation)
                        WHERE x.node = {_HERE} AND {within("x.at_us")} ORDER BY x.at_us DESC LIMIT 100"""),
                    {"time": "dateTimeAsLocal", "cost": "s"},
                    links={"run": [board_link("tachograph-run", "The run's board", "run", "run")]},
                    widths={"detail": 260}, panel_links=_PAGE,
                ),
                table(
                    "Runs that it is in",
                    "Each run that heard of it, and how. dropped: events that its agent gave up, which are missing "
                    "from the books. clock: the collector's less the node's.",
                    sql(f"""SELECT r.name AS run, n.state, to_timestamp(n.state_since_us / 1e6) AS since,
                        to_timestamp(n.last_heard_us / 1e6) AS heard, n.step, n.ranks_alive AS ranks,
                        n.queue_bytes AS queue, n.dropped, n.clock_offset_s AS clock, n.agent_version AS agent
                        FROM nodes n JOIN runs r USING (tenant_id, run_id)
                        WHERE n.node = {_HERE} ORDER BY n.last_heard_us DESC LIMIT 50"""),
                    {"since": "dateTimeFromNow", "heard": "dateTimeFromNow", "queue": "bytes", "clock": "s"},
                    links={"run": [board_link("tachograph-run", "The run's board", "run", "run")]},
                    panel_links=_PAGE,
                ),
            ),
            "Its agent",
            Row(
                8,
                curves(
                    "Heartbeats",
                    "Heartbeats a second that its agent sent, and those it couldn't. None: the agent, or Prometheus' "
                    "way to it, is down. Needs agents that are scraped (--metrics).",
                    [
                        prom(f"sum(rate(tachograph_agent_heartbeats_sent_total{{{_MINE}}}[$__rate_interval]))", "sent"),
                        prom(
                            f"sum(rate(tachograph_agent_heartbeats_dropped_total{{{_MINE}}}[$__rate_interval]))",
                            "dropped",
                        ),
                    ],
                    "cps", at_least=0,
                ),
                curves(
                    "Checks of health",
                    "Checks of this node by their state. ok and absent (nothing here to look at) are as they should "
                    "be; blind, failed or hung ones can't look: the agent's log says why. What they find is above.",
                    [
                        prom(
                            f"count by (state) (max by (check, state) (tachograph_agent_health_check{{{_MINE}}}) == 1)",
                            "{{state}}",
                        )
                    ],
                    "none", at_least=0,
                ),
                curves(
                    "What waits to be sent",
                    "Bytes in the spool that no collector has confirmed. Rising: no collector takes them, or the "
                    "network is slow; nothing is lost until the spool is full.",
                    [prom(f"max(tachograph_agent_spool_bytes{{{_MINE}}})", "spool")], "bytes", at_least=0,
                ),
            ),
            Row(
                7,
                curves(
                    "Ranks that write",
                    "Processes on this node that recorded lately. Fewer than its GPUs while a run trains: one is gone.",
                    [prom(f"max(tachograph_agent_ranks_alive{{{_MINE}}})", "ranks")], "none", at_least=0,
                ),
                curves(
                    "Behind by",
                    "Age of the oldest file that isn't confirmed. Beyond a minute: see what waits.",
                    [prom(f"max(tachograph_agent_lag_seconds{{{_MINE}}})", "lag")], "s", at_least=0,
                ),
                curves(
                    "Given up",
                    "Events a second that the agent dropped, by class. Any: the books of its runs have gaps.",
                    [
                        prom(
                            f"sum by (class) "
                            f"(rate(tachograph_agent_events_dropped_total{{{_MINE}}}[$__rate_interval]))",
                            "{{class}}",
                        )
                    ],
                    "cps", at_least=0,
                ),
            ),
        ),
        variables=[node_variable()], since="now-7d", public_url=public_url, page_path="nodes/${node:percentencode}",
    )  # fmt: skip
