"""Fleet: which runs cost most, by what, whether it grows from week to week, and which nodes keep failing."""

from __future__ import annotations

from grafanalib.core import Dashboard

from tachograph_dashboards.boards.common import CUT, TO_US, board, origin_variable, within
from tachograph_dashboards.panels import (
    BAD,
    COSTS,
    FAIR,
    GOOD,
    Row,
    bars,
    board_link,
    coloured,
    curves,
    laid_out,
    levels,
    number,
    page_link,
    prom,
    sql,
    table,
)

_WEEKS_US = f"({TO_US} - 12 * 604800000000)"
_OF_WEEKS = f"""FROM minutes m JOIN books b USING (tenant_id, run_id, generation)
WHERE m.start_us BETWEEN {_WEEKS_US} AND {TO_US} AND b.origin IN (${{origin:sqlstring}})"""


def fleet(public_url: str | None = None) -> Dashboard:
    """The board."""
    return board(
        "tachograph-fleet", "Fleet", "What all runs cost, by cause, week on week, and which nodes keep failing.",
        laid_out(
            "Now",
            Row(
                4,
                number(
                    "Runs under way",
                    "Live runs that a collector folds now, and rehearsals where those are chosen. Fewer than you "
                    "started: their agents send nothing, or no collector holds them (board Tachograph).",
                    prom(
                        'count(max by (run) (tachograph_run_info{status="running", origin=~"|$origin"})) or vector(0)'
                    ),
                    "none",
                ),
                number(
                    "Goodput in this time",
                    "Kept over wall-clock time of all chosen runs, from the books. It may still fall: what is at risk "
                    "is kept until a failure loses it.",
                    sql(f"""SELECT SUM(m.kept_us)::float8
                        / NULLIF(SUM(m.kept_us + m.checkpoint_us + m.lost_us + m.restart_us), 0) AS goodput
                        FROM minutes m JOIN books b USING (tenant_id, run_id, generation)
                        WHERE {within("m.start_us")} AND b.origin IN (${{origin:sqlstring}})"""),
                    "percentunit", steps=((None, BAD), (0.8, FAIR), (0.9, GOOD)), decimals=1,
                ),
                number(
                    "GPU-hours not kept",
                    "Checkpoint, lost and restart time, times the ranks of each attempt. Unknown where no attempt "
                    "told its world size. Start with the largest cause below.",
                    sql(f"""{CUT} SELECT SUM(us * world_size)::float8 / 3.6e9 AS hours
                        FROM cut WHERE account <> 'kept'"""),
                    "none", decimals=0,
                ),
                number(
                    "Open critical incidents",
                    "Of live runs, and of rehearsals where those are chosen. Any: open the run in the list below; its "
                    "board says what to do.",
                    prom(
                        "sum(max by (run, detector) "
                        '(tachograph_incidents_open{severity="critical", origin=~"|$origin"})) or vector(0)'
                    ),
                    "none", steps=((None, GOOD), (1, BAD)),
                ),
                number(
                    "Collectors up",
                    "Collectors that Prometheus reaches. None: nothing here is current; see the runbook of "
                    "TachographCollectorDown.",
                    prom("count(tachograph_collector_info) or vector(0)"), "none", steps=((None, BAD), (1, GOOD)),
                ),
            ),
            Row(
                8,
                table(
                    "Runs",
                    "Runs with time in this range, the costliest first. GPU-hours are those that were not kept, inside "
                    "the range; the cause is the one that cost most of them. A click on the name opens the run.",
                    sql(f"""{CUT}, per AS (
                        SELECT run, run_id, generation, SUM(us)::float8 / 1e6 AS wall,
                        SUM(us) FILTER (WHERE account = 'kept') / SUM(us)::float8 AS goodput,
                        SUM(us * world_size) FILTER (WHERE account <> 'kept')::float8 / 3.6e9 AS gpu
                        FROM cut GROUP BY run, run_id, generation
                        ), top AS (
                        SELECT DISTINCT ON (run_id, generation) run_id, generation,
                        COALESCE(cause, account || ': ' || sub) AS cause
                        FROM cut WHERE account <> 'kept' GROUP BY run_id, generation, 3
                        ORDER BY run_id, generation, SUM(us) DESC
                        )
                        SELECT per.run, b.status, COALESCE(per.goodput, 0) AS goodput, per.wall AS "wall time",
                        per.gpu AS "GPU-hours not kept", top.cause AS "largest cause",
                        (SELECT COUNT(*) FROM incidents i WHERE i.run_id = per.run_id AND i.tenant_id = b.tenant_id
                        AND i.cleared_us IS NULL) AS "open incidents"
                        FROM per LEFT JOIN top USING (run_id, generation)
                        JOIN books b USING (run_id, generation)
                        ORDER BY per.gpu DESC NULLS LAST, per.wall DESC LIMIT 200"""),
                    {"goodput": "percentunit", "wall time": "s", "GPU-hours not kept": "none"},
                    links={
                        "run": [
                            board_link("tachograph-run", "The run's board", "run", "run"),
                            page_link("runs/${__data.fields.run:percentencode}"),
                        ]
                    },
                    widths={"run": 240, "largest cause": 200},
                    panel_links=[page_link("fleet")],
                ),
            ),
            Row(
                8,
                bars(
                    "GPU-hours not kept, by cause",
                    "What made time lost or stand still, all chosen runs together. The first bar is where work pays "
                    "first; 'restart: reload' and the like are phases of coming back.",
                    sql(f"""{CUT} SELECT COALESCE(cause, account || ': ' || sub) AS cause,
                        SUM(us * world_size)::float8 / 3.6e9 AS "GPU-hours"
                        FROM cut WHERE account <> 'kept' AND world_size IS NOT NULL
                        GROUP BY 1 ORDER BY 2 DESC LIMIT 12"""),
                    "none", x="cause", upright=False, legend=False,
                ),
                bars(
                    "GPU-hours not kept, by run",
                    "The same by run and account. Much orange: failures; much yellow: coming back takes long; much "
                    "blue: saves hold training up.",
                    sql(f"""{CUT} SELECT run,
                        SUM(us * world_size) FILTER (WHERE account = 'lost')::float8 / 3.6e9 AS lost,
                        SUM(us * world_size) FILTER (WHERE account = 'restart')::float8 / 3.6e9 AS restart,
                        SUM(us * world_size) FILTER (WHERE account = 'checkpoint')::float8 / 3.6e9 AS checkpoint
                        FROM cut WHERE world_size IS NOT NULL
                        GROUP BY run ORDER BY SUM(us * world_size) FILTER (WHERE account <> 'kept') DESC NULLS LAST
                        LIMIT 12"""),
                    "none", x="run", stacked=True, upright=False, overrides=coloured(COSTS),
                ),
            ),
            "Week on week",
            Row(
                8,
                bars(
                    "GPU-hours not kept, by week",
                    "The twelve weeks until the end of the range, by account; a stretch counts where it began. A "
                    "week that stands out: set the range to it and look at the causes above.",
                    sql(f"""SELECT to_char(date_trunc('week', to_timestamp(s.start_us / 1e6)), 'IYYY "W"IW') AS week,
                        SUM((s.end_us - s.start_us) * a.world_size) FILTER (WHERE s.account = 'lost')::float8 / 3.6e9
                        AS lost,
                        SUM((s.end_us - s.start_us) * a.world_size) FILTER (WHERE s.account = 'restart')::float8 / 3.6e9
                        AS restart,
                        SUM((s.end_us - s.start_us) * a.world_size) FILTER (WHERE s.account = 'checkpoint')::float8
                        / 3.6e9 AS checkpoint
                        FROM segments s JOIN books b USING (tenant_id, run_id, generation)
                        JOIN attempts a ON a.tenant_id = s.tenant_id AND a.run_id = s.run_id
                        AND a.generation = s.generation AND a.attempt_index = s.attempt
                        WHERE s.start_us BETWEEN {_WEEKS_US} AND {TO_US} AND s.sub <> 'queued'
                        AND s.account <> 'kept' AND b.origin IN (${{origin:sqlstring}}) GROUP BY 1 ORDER BY 1"""),
                    "none", x="week", stacked=True, overrides=coloured(COSTS),
                ),
                bars(
                    "Goodput, by week",
                    "Kept over wall-clock time of all chosen runs. Falling while the fleet grows is normal: more GPUs "
                    "fail more often; the judge on the page says whether it is more than that.",
                    sql(f"""SELECT to_char(date_trunc('week', to_timestamp(m.start_us / 1e6)), 'IYYY "W"IW') AS week,
                        SUM(m.kept_us)::float8
                        / NULLIF(SUM(m.kept_us + m.checkpoint_us + m.lost_us + m.restart_us), 0) AS kept
                        {_OF_WEEKS} GROUP BY 1 ORDER BY 1"""),
                    "percentunit", x="week", overrides=coloured({"kept": GOOD}), legend=False,
                ),
            ),
            "Nodes and live runs",
            Row(
                9,
                table(
                    "Nodes that keep failing",
                    "Nodes that were the first to fail, in this range, over all chosen runs. Two failures of one node "
                    "in two runs are seldom chance: test it, and look at how sure that is on the page.",
                    sql(f"""SELECT x.node, COUNT(*) AS failures, COUNT(DISTINCT x.run_id) AS runs,
                        SUM(x.lost_us + x.restart_us)::float8 / 1e6 AS "time cost",
                        to_timestamp(MAX(x.at_us) / 1e6) AS last,
                        string_agg(DISTINCT x.category, ', ') AS causes
                        FROM restarts x JOIN books b USING (tenant_id, run_id, generation)
                        WHERE x.how = 'failure' AND x.node IS NOT NULL AND {within("x.at_us")}
                        AND b.origin IN (${{origin:sqlstring}})
                        GROUP BY x.node ORDER BY 2 DESC, 4 DESC LIMIT 50"""),
                    {"time cost": "s", "last": "dateTimeFromNow"},
                    links={
                        "node": [
                            board_link("tachograph-node", "The node's board", "node", "node"),
                            page_link("nodes/${__data.fields.node:percentencode}"),
                        ]
                    },
                    panel_links=[page_link("nodes")],
                ),
                levels(
                    "Work at risk",
                    "What a failure now would lose, by run. More than two intervals between saves: saves don't "
                    "land; see TachographCheckpointOverdue.",
                    prom("topk(12, max by (run) (tachograph_run_at_risk_seconds))", "{{run}}"), "s",
                ),
                widths=(14, 10),
            ),
            Row(
                8,
                curves(
                    "Goodput of the last hour, by live run",
                    "Kept over wall-clock time of each run's newest booked hour. A step down: a restart or a rollback; "
                    "slowly down: restarts one after the other.",
                    [prom('max by (run) (tachograph_run_goodput_ratio{window="1h", bound="upper"})', "{{run}}")],
                    "percentunit", at_least=0, at_most=1,
                ),
                curves(
                    "Lost by live run",
                    "Time that turned out to be lost, a day's rate: 1 h means an hour of the run's time in a day.",
                    [
                        prom(
                            "86400 * max by (run) (rate(tachograph_run_lost_work_seconds_total[$__rate_interval]))",
                            "{{run}}",
                        )
                    ],
                    "s", at_least=0,
                ),
            ),
        ),
        variables=[origin_variable()], since="now-7d", public_url=public_url, page_path="fleet",
    )  # fmt: skip
