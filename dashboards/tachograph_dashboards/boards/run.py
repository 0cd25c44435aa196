"""Run: what it does now, where its time went, whether that is what its failures explain, and what to do."""

from __future__ import annotations

from grafanalib.core import Dashboard

from tachograph_dashboards.boards.common import (
    FROM_US,
    OF_INCIDENTS,
    OF_RUN,
    RUN,
    TO_US,
    board,
    bucket,
    run_annotations,
    run_variable,
    target_variable,
    within,
)
from tachograph_dashboards.panels import (
    BAD,
    COLOURS,
    FAIR,
    GOOD,
    Row,
    bars,
    coloured,
    curves,
    laid_out,
    number,
    page_link,
    prom,
    sql,
    strip,
    table,
)

_PAGE = [page_link("runs/${run:percentencode}")]
_MINE = '{run="$run"}'
_PHASES = {
    "queued": "#5b4bb5", "startup": "#88ccee", "detect": "#cc6677", "replace": "#44aa99", "reload": "#ddcc77",
    "warmup": "#117733", "stall": "#882255", "planned": "#999933", "shutdown": "#aa4499", "other": "#8a929b",
}  # fmt: skip


def _max(expr: str) -> str:
    """One value, whichever collector shows the run."""
    return f"max({expr})"


def run(public_url: str | None = None) -> Dashboard:
    """The board."""
    return board(
        "tachograph-run", "Run", "One run: what it does now, where its time went, and what to do.",
        laid_out(
            "Now", _now(), _what_to_do(),
            "Minutes", *_minutes(),
            "Against the model", *_model(),
            "Restarts and saves", *_restarts(),
            "Training", *_training(),
        ),
        variables=[run_variable(), target_variable()], annotations=run_annotations(), public_url=public_url,
        page_path="runs/${run:percentencode}",
    )  # fmt: skip


def _now() -> Row:
    return Row(
        4,
        number(
            "It is",
            "The account that its newest booked minute went to, and its status. restart or lost for minutes: it is "
            "down; the list below says why.",
            sql(f"""{RUN} SELECT CASE WHEN run.status = 'running' THEN COALESCE((SELECT m.label FROM minutes m
                WHERE (m.tenant_id, m.run_id, m.generation) = (run.tenant_id, run.run_id, run.generation)
                ORDER BY m.start_us DESC LIMIT 1), 'running') ELSE run.status END AS "is" FROM run"""),
            "none", word=True, links=_PAGE,
        ),
        number(
            "Goodput, whole run",
            "Kept over wall-clock time since the run began. Below what the model predicts (further down) it has "
            "another cause than its failures.",
            sql(f"""{RUN} SELECT kept_us::float8 / NULLIF(wall_us, 0) AS goodput FROM run"""),
            "percentunit", steps=((None, BAD), (0.8, FAIR), (0.9, GOOD)), decimals=1, links=_PAGE,
        ),
        number(
            "Goodput, last hour",
            "Of the newest booked hour. Far below the whole run's: something is wrong now.",
            prom(_max('tachograph_run_goodput_ratio{run="$run", window="1h", bound="upper"}')),
            "percentunit", steps=((None, BAD), (0.8, FAIR), (0.9, GOOD)), decimals=1,
        ),
        number(
            "At risk",
            "Work that a failure now would lose. More than two intervals between saves: saves don't land, look at "
            "the storage.",
            prom(_max(f"tachograph_run_at_risk_seconds{_MINE}")), "s",
        ),
        number(
            "Heard of",
            "When something last came from it. Long ago while it runs: its agents are silent.",
            prom(_max(f"1000 * tachograph_run_last_event_timestamp_seconds{_MINE}")), "dateTimeFromNow",
        ),
        number(
            "GPU-hours not kept",
            "Checkpoint, lost and restart time of the whole run, in GPU-hours. Unknown where nobody told its world "
            "size.",
            sql(f"""{RUN} SELECT ((gpu_us->>'held')::float8 - (gpu_us->>'kept')::float8) / 3.6e9 AS hours
                FROM run"""),
            "none", decimals=0, links=_PAGE,
        ),
    )  # fmt: skip


def _what_to_do() -> Row:
    return Row(
        7,
        table(
            "What is wrong, and what to do",
            "Incidents of this run in the range, open ones first, the gravest above. Cost is the whole job's, until "
            "now; a consequence follows from another one of them. The page has the evidence, and is where to "
            "acknowledge.",
            sql(f"""{RUN} SELECT CASE WHEN i.cleared_us IS NULL THEN 'open' ELSE 'over' END AS is, i.severity,
                i.detector, i.subject, i.summary, i.advice, to_timestamp(i.opened_us / 1e6) AS since,
                (COALESCE(i.cleared_us, {TO_US}) - i.opened_us) / 1e6 AS lasted,
                (i.cost->>'gpu_hours')::float8 AS "GPU-hours", i.node, i.incident_id AS incident
                FROM incidents i {OF_INCIDENTS}
                WHERE i.opened_us <= {TO_US}
                AND COALESCE(i.cleared_us, {TO_US}) >= {FROM_US} AND COALESCE(i.outcome, '') NOT LIKE 'withdrawn%'
                ORDER BY i.cleared_us IS NOT NULL, array_position(ARRAY['critical', 'warning', 'info'],
                i.severity::text), i.opened_us DESC LIMIT 100"""),
            {"since": "dateTimeAsLocal", "lasted": "s", "GPU-hours": "none"}, severity="severity",
            links={"summary": [page_link("incidents/${__data.fields.incident:percentencode}", "Evidence")]},
            widths={"is": 60, "severity": 80, "detector": 130, "summary": 330, "advice": 300}, panel_links=_PAGE,
        ),
    )  # fmt: skip


def _minutes() -> list[Row]:
    return [
        Row(
            5,
            strip(
                "The strip of minutes",
                "What most of each minute was booked as. Hover for times. Booked minutes can change: a rollback turns "
                "kept ones into lost ones.",
                sql(f"""{RUN}, told AS (
                    SELECT m.start_us, m.label, lag(m.label) OVER w AS before, lead(m.label) OVER w AS after
                    FROM minutes m {OF_RUN} WHERE {within("m.start_us")}
                    AND m.kept_us + m.checkpoint_us + m.lost_us + m.restart_us > 0
                    WINDOW w AS (ORDER BY m.start_us)
                    )
                    SELECT to_timestamp(start_us / 1e6) AS time, label AS booked FROM told
                    WHERE label IS DISTINCT FROM before
                    UNION ALL SELECT to_timestamp(start_us / 1e6 + 60), NULL FROM told WHERE after IS NULL
                    ORDER BY 1"""),
                COLOURS, links=_PAGE,
            ),
        ),
        Row(
            9,
            curves(
                "Accounts over time",
                "The share of each account in the booked time of each interval. They fill it: every minute is in one "
                "of them.",
                [
                    sql(
                        f"""{RUN} SELECT {bucket("m.start_us")} AS time,
                        SUM(m.kept_us)::float8 / t.wall AS kept, SUM(m.checkpoint_us)::float8 / t.wall AS checkpoint,
                        SUM(m.lost_us)::float8 / t.wall AS lost, SUM(m.restart_us)::float8 / t.wall AS restart
                        FROM (SELECT m.*, NULLIF(SUM(m.kept_us + m.checkpoint_us + m.lost_us + m.restart_us) OVER
                        (PARTITION BY {bucket("m.start_us")}), 0) AS wall FROM minutes m {OF_RUN}
                        WHERE {within("m.start_us")}) AS m, LATERAL (SELECT m.wall) AS t
                        GROUP BY 1, t.wall ORDER BY 1""",
                        series=True,
                    )
                ],
                "percentunit", stacked=True, at_least=0, at_most=1, overrides=coloured(COLOURS), links=_PAGE,
            ),
            bars(
                "Where the time went",
                "From all of the run's time in this range down to what was kept: each bar takes away what went into "
                "it. The widest is where work pays first.",
                sql(f"""{RUN}, cut AS (
                    SELECT s.account, s.sub, SUM(LEAST(s.end_us, {TO_US}) - GREATEST(s.start_us, {FROM_US})) / 1e6 AS s
                    FROM segments s {OF_RUN}
                    WHERE s.start_us < {TO_US} AND s.end_us > {FROM_US} GROUP BY 1, 2
                    ), steps AS (
                    SELECT account || ': ' || sub AS what, account, s,
                    SUM(s) OVER (ORDER BY array_position(ARRAY['checkpoint', 'lost', 'restart'], account::text), s DESC,
                    sub) AS taken FROM cut WHERE account <> 'kept'
                    ), whole AS (SELECT SUM(s) AS s, SUM(s) FILTER (WHERE account = 'kept') AS kept FROM cut)
                    SELECT what, rest, kept, checkpoint, lost, restart FROM (
                    SELECT 0 AS place, 'all time' AS what, 0 AS rest, s AS kept, NULL::numeric AS checkpoint,
                    NULL::numeric AS lost, NULL::numeric AS restart FROM whole WHERE s IS NOT NULL
                    UNION ALL SELECT taken, what, whole.s - taken, NULL,
                    CASE WHEN account = 'checkpoint' THEN steps.s END, CASE WHEN account = 'lost' THEN steps.s END,
                    CASE WHEN account = 'restart' THEN steps.s END FROM steps, whole
                    UNION ALL SELECT s + 1, 'kept', 0, COALESCE(kept, 0), NULL, NULL, NULL FROM whole
                    WHERE s IS NOT NULL
                    ) AS told ORDER BY place"""),
                "s", x="what", stacked=True,
                overrides=[
                    *coloured(COLOURS | {"rest": "transparent"}),
                    {
                        "matcher": {"id": "byName", "options": "rest"},
                        "properties": [
                            {"id": "custom.fillOpacity", "value": 0},
                            {"id": "custom.lineWidth", "value": 0},
                            {"id": "custom.hideFrom", "value": {"legend": True, "tooltip": True, "viz": False}},
                        ],
                    },
                ],
                links=_PAGE,
            ),
        ),
    ]  # fmt: skip


def _model() -> list[Row]:
    predicted = 'tachograph_run_predicted_goodput_ratio{run="$run", interval="in_use", bound="%s"}'
    optimum = 'tachograph_run_checkpoint_interval_optimum_seconds{run="$run", bound="%s"}'
    return [
        Row(
            9,
            curves(
                "Goodput, target and model",
                "Goodput of the whole run and its last day; the target; and what the failures that happened explain, "
                "with its band. Below the band: something else costs time, see the runbook of "
                "TachographGoodputUnexplained. In the band and below the target: fewer failures or another interval.",
                [
                    prom(_max('tachograph_run_goodput_ratio{run="$run", window="total", bound="upper"}'), "whole run"),
                    prom(_max('tachograph_run_goodput_ratio{run="$run", window="24h", bound="upper"}'), "last 24 h"),
                    prom(_max(predicted % "expected"), "model"),
                    prom(_max(predicted % "lower"), "model, lower"),
                    prom(_max(predicted % "upper"), "model, upper"),
                    prom("vector($target)", "target"),
                ],
                "percentunit", at_most=1,
                overrides=coloured({"whole run": GOOD, "last 24 h": "#56b4e9", "target": BAD, "model": "#8a929b"}),
            ),
            curves(
                "Checkpoint interval against the best one",
                "Time between saves, and the interval that the model finds best, with its band. Outside of half to "
                "twice the best: change it; the planner on the page says what that brings.",
                [
                    prom(_max(f"tachograph_run_checkpoint_interval_seconds{_MINE}"), "in use"),
                    prom(_max(optimum % "expected"), "best"),
                    prom(_max(optimum % "lower"), "best, lower"),
                    prom(_max(optimum % "upper"), "best, upper"),
                ],
                "s", at_least=0, overrides=coloured({"in use": "#0072b2", "best": GOOD}),
                links=[page_link("plan?run=${run:percentencode}", "The planner")],
            ),
        ),
        Row(
            8,
            curves(
                "Work at risk",
                "Kept time that a failure now would lose. A sawtooth with the interval's height is as it should be; a "
                "slope without teeth: no save lands.",
                [prom(_max(f"tachograph_run_at_risk_seconds{_MINE}"), "at risk")], "s", at_least=0,
            ),
            curves(
                "Mean time between failures",
                "Of the whole run, with what can be said of it from so few failures: the truth lies between the outer "
                "lines in 95 of 100 runs.",
                [
                    prom(_max(f'tachograph_run_mtbf_seconds{{run="$run", bound="{bound}"}}'), name)
                    for bound, name in (("expected", "MTBF"), ("lower", "lower"), ("upper", "upper"))
                ],
                "s", at_least=0, log=False,
            ),
        ),
    ]  # fmt: skip


def _restarts() -> list[Row]:
    return [
        Row(
            9,
            table(
                "Restarts",
                "Each stop of training in the range: why, where, what it cost. 'unexplained': training stopped and "
                "nobody said why; have the launcher record exit codes.",
                sql(f"""{RUN} SELECT to_timestamp(x.at_us / 1e6) AS time, x.how, x.category AS cause, x.node, x.rank,
                    x.lost_us / 1e6 AS lost, x.restart_us / 1e6 AS restart, x.resume_step AS "from step",
                    x.detail FROM restarts x {OF_RUN} WHERE {within("x.at_us")} ORDER BY x.at_us DESC LIMIT 200"""),
                {"time": "dateTimeAsLocal", "lost": "s", "restart": "s"}, widths={"time": 160, "detail": 320},
                panel_links=_PAGE,
            ),
            bars(
                "The way back, by phase",
                "Restart time of each of the newest 20 stops. One phase that dominates is where to work: reload is "
                "storage, replace is spare nodes, detect is timeouts, warmup is compilation.",
                sql(f"""{RUN}, newest AS (SELECT x.* FROM restarts x {OF_RUN} WHERE {within("x.at_us")}
                    ORDER BY x.at_us DESC LIMIT 20)
                    SELECT to_char(to_timestamp(at_us / 1e6), 'MM-DD HH24:MI') AS stop, """
                    + ", ".join(f"""(phases_us->>'{name}')::float8 / 1e6 AS "{name}\"""" for name in _PHASES)
                    + " FROM newest ORDER BY at_us"),
                "s", x="stop", stacked=True, overrides=coloured(_PHASES), links=_PAGE,
            ),
        ),
        Row(
            8,
            curves(
                "Saves",
                "How long each save held training up, and how long it took to land. Blocking that grows: the storage "
                "fills or is shared. Landing later than the interval: saves pile up.",
                [
                    sql(
                        f"""{RUN} SELECT to_timestamp(COALESCE(c.end_us, c.start_us) / 1e6) AS time,
                        c.blocking_us / 1e6 AS blocking,
                        (c.landed_us - COALESCE(c.start_us, c.end_us)) / 1e6 AS "until landed"
                        FROM checkpoints c {OF_RUN} WHERE {within("COALESCE(c.end_us, c.start_us)")} ORDER BY 1""",
                        series=True,
                    )
                ],
                "s", at_least=0, points=True, links=_PAGE,
            ),
            table(
                "Newest saves",
                "pending: not durable yet; failed or abandoned ones are no way back. The newest landed one is where a "
                "failure now would go back to.",
                sql(f"""{RUN} SELECT c.step, c.state, c.mode, to_timestamp(COALESCE(c.end_us, c.start_us) / 1e6)
                    AS time, c.blocking_us / 1e6 AS blocking, (c.landed_us - c.start_us) / 1e6 AS "until landed",
                    c.bytes FROM checkpoints c {OF_RUN} WHERE COALESCE(c.start_us, c.end_us) <= {TO_US}
                    ORDER BY COALESCE(c.end_us, c.start_us) DESC LIMIT 50"""),
                {"time": "dateTimeAsLocal", "blocking": "s", "until landed": "s", "bytes": "bytes"},
                panel_links=_PAGE,
            ),
        ),
    ]  # fmt: skip


def _training() -> list[Row]:
    return [
        Row(
            8,
            curves(
                "Loss",
                "As the newest steps tell it, sampled about once a minute; incidents are marked. A spike: see the "
                "runbook of TachographLossSpike before you roll back, most recover. The page has every step.",
                [prom(_max(f"tachograph_run_loss{_MINE}"), "loss")], "none", links=_PAGE,
            ),
            curves(
                "Gradient norm",
                "Of the newest steps. It rises before the loss does; a hundred times its usual or none at all is an "
                "incident.",
                [prom(_max(f"tachograph_run_grad_norm{_MINE}"), "gradient norm")], "none", links=_PAGE,
            ),
        ),
        Row(
            8,
            curves(
                "Throughput",
                "Tokens a second of the whole run in its newest steps. A step down that stays is a slow job: board "
                "Stragglers.",
                [prom(_max(f"tachograph_run_tokens_per_second{_MINE}"), "tokens/s")], "cps", at_least=0, links=_PAGE,
            ),
            curves(
                "Step time, and the ranks' own work",
                "How long a step takes, and how long the median and the slowest rank work in it. Work of one far above "
                "the median: it makes all others wait.",
                [
                    prom(_max(f"tachograph_run_step_seconds{_MINE}"), "step"),
                    prom(_max(f"tachograph_run_rank_busy_seconds{_MINE}"), "median rank's work"),
                    prom(_max('tachograph_run_straggler_busy_seconds{run="$run", position="1"}'), "slowest rank's"),
                ],
                "s", at_least=0,
            ),
        ),
    ]  # fmt: skip
