"""Reliability: how often runs fail, of what, how sure that is, how the gaps between failures are spread."""

from __future__ import annotations

from grafanalib.core import Dashboard

from tachograph_dashboards.boards.common import CUT, FROM_US, NAMED, TO_US, board, origin_variable, within
from tachograph_dashboards.panels import (
    SEVERITIES,
    Row,
    bars,
    board_link,
    coloured,
    curves,
    laid_out,
    number,
    page_link,
    prom,
    sql,
    table,
)

_FAILED = f"""FROM restarts x JOIN books b USING (tenant_id, run_id, generation)
WHERE x.how = 'failure' AND {within("x.at_us")} AND b.origin IN (${{origin:sqlstring}})"""
_TIME = f"""{CUT}, up AS (SELECT SUM(us)::float8 / 1e6 AS s FROM cut WHERE account <> 'restart'),
failed AS (SELECT COALESCE(x.category, 'unknown') AS cause, COUNT(*) AS n, SUM(x.lost_us + x.restart_us) / 1e6 AS cost
{_FAILED} GROUP BY 1)"""

_CAUSES = ("gpu", "gpu_memory", "network", "host", "storage", "software", "collective_timeout", "heartbeat")
_BY_CAUSE = ", ".join(f"COUNT(*) FILTER (WHERE x.category = '{name}') AS {name}" for name in _CAUSES) + (
    ", COUNT(*) FILTER (WHERE x.category NOT IN ('" + "', '".join(_CAUSES) + "') OR x.category IS NULL) AS other"
)


def _chi_square(z: str, degrees: str) -> str:
    """A quantile of the chi-square distribution by Wilson and Hilferty (1931)."""
    return f"{degrees} * power(1 - 2.0 / (9 * {degrees}) + {z} * sqrt(2.0 / (9 * {degrees})), 3)"


_FEW = (0.0506, 0.4844, 1.2373, 2.1797, 3.2470, 4.4038, 5.6287, 6.9077, 8.2307, 9.5908)
"""The 2.5 % quantiles of 2, 4 ... 20 degrees of freedom, where the approximation is up to twice as small."""
HIGH_QUANTILE = _chi_square("1.96", "(2 * n + 2)")
LOW_QUANTILE = f"COALESCE((ARRAY[{', '.join(map(str, _FEW))}])[n], {_chi_square('-1.96', '(2 * n)')})"
"""97.5 % and 2.5 % of chi-square for ``n`` failures, within 0.5 %: twice the time over them bounds the MTBF."""


def reliability(public_url: str | None = None) -> Dashboard:
    """The board."""
    bounds = f'2 * up.s / ({HIGH_QUANTILE}) AS "at least", 2 * up.s / ({LOW_QUANTILE}) AS "at most"'
    return board(
        "tachograph-reliability", "Reliability", "How often runs fail, of what, and how sure that is.",
        laid_out(
            Row(
                4,
                number(
                    "Failures", "Failures of all chosen runs in this range. Planned stops are none.",
                    sql(f"SELECT COUNT(*) AS failures {_FAILED}"), "none",
                ),
                number(
                    "Mean time between failures",
                    "Time in which runs were up, over their failures. It holds for this mix of runs: a run of twice "
                    "the nodes fails twice as often.",
                    sql(f"{_TIME} SELECT MAX(up.s) / NULLIF(SUM(failed.n), 0) AS mtbf FROM up, failed"), "s",
                ),
                number(
                    "Failures a thousand GPU-days",
                    "The same for any size: compare it with other clusters, and from quarter to quarter.",
                    sql(f"""{CUT} SELECT 1000 * (SELECT COUNT(*) {_FAILED})
                        / NULLIF(SUM(us * world_size)::float8 / 8.64e10, 0) AS rate FROM cut
                        WHERE account <> 'restart'"""),
                    "none", decimals=2,
                ),
                number(
                    "Nobody said why",
                    "The share of failures without a cause. Much: have the launcher record exit codes and agents read "
                    "the kernel's log; what has no name can't be mended.",
                    sql(f"""SELECT COUNT(*) FILTER (WHERE x.category IS NULL)::float8 / NULLIF(COUNT(*), 0) AS share
                        {_FAILED}"""),
                    "percentunit", decimals=0,
                ),
            ),
            Row(
                9,
                table(
                    "Mean time between failures, by cause",
                    "For each cause, with the interval in which it lies in 95 of 100 such periods (for a constant "
                    "rate). Two causes whose intervals "
                    "overlap can't be told apart yet.",
                    sql(f"""{_TIME} SELECT cause, n AS failures, up.s / n AS mtbf, {bounds}, cost AS "time cost"
                        FROM failed, up ORDER BY n DESC LIMIT 30"""),
                    {"mtbf": "s", "at least": "s", "at most": "s", "time cost": "s"}, panel_links=[page_link("fleet")],
                ),
                bars(
                    "Failures a week, by cause",
                    "Twelve weeks until the end of the range. A cause that grows: look at what changed that week.",
                    sql(f"""SELECT to_char(date_trunc('week', to_timestamp(x.at_us / 1e6)), 'IYYY "W"IW') AS week,
                        {_BY_CAUSE}
                        FROM restarts x JOIN books b USING (tenant_id, run_id, generation)
                        WHERE x.how = 'failure' AND b.origin IN (${{origin:sqlstring}})
                        AND x.at_us BETWEEN {TO_US} - 12 * 604800000000 AND {TO_US} GROUP BY 1 ORDER BY 1"""),
                    "none", x="week", stacked=True,
                ),
            ),
            Row(
                9,
                bars(
                    "Gaps between failures",
                    "Time from a failure to the next of the same run, each class twice as long as the one before. Were "
                    "failures independent, 63 % of gaps would be shorter than the mean; many very short ones are one "
                    "failure that came back: a bad node that was taken again, a crash loop.",
                    sql(f"""WITH gaps AS (
                        SELECT (x.at_us - lag(x.at_us) OVER (PARTITION BY x.run_id, x.generation ORDER BY x.at_us))
                        / 6e7 AS minutes {_FAILED}
                        ), classes AS (SELECT floor(log(2, GREATEST(minutes, 1)))::int AS class FROM gaps
                        WHERE minutes IS NOT NULL)
                        SELECT 'under ' || CASE WHEN class < 5 THEN power(2, class + 1) || ' min'
                        ELSE round(power(2, class + 1)::numeric / 60, 1) || ' h' END AS gap, COUNT(*) AS failures
                        FROM classes GROUP BY class ORDER BY class"""),
                    "none", x="gap", legend=False,
                ),
                table(
                    "Failures",
                    "Each of them, newest first. inferred: concluded from silence; it is taken back when the node is "
                    "heard of again.",
                    sql(f"""SELECT to_timestamp(x.at_us / 1e6) AS time, {NAMED} AS run, x.category AS cause, x.node,
                        x.rank, (x.lost_us + x.restart_us) / 1e6 AS cost,
                        CASE WHEN x.inferred THEN 'inferred' ELSE 'told' END AS known, x.detail {_FAILED}
                        ORDER BY x.at_us DESC LIMIT 200"""),
                    {"time": "dateTimeAsLocal", "cost": "s"},
                    links={
                        "run": [board_link("tachograph-run", "The run's board", "run", "run")],
                        "node": [board_link("tachograph-node", "The node's board", "node", "node")],
                    },
                    widths={"detail": 260}, panel_links=[page_link("fleet")],
                ),
            ),
            Row(
                9,
                bars(
                    "Incidents by detector",
                    "What was flagged in this range, by severity. A detector that flags every run is set too "
                    "sharply, or has found what all have in common.",
                    sql(f"""SELECT i.detector, COUNT(*) FILTER (WHERE i.severity = 'critical') AS critical,
                        COUNT(*) FILTER (WHERE i.severity = 'warning') AS warning,
                        COUNT(*) FILTER (WHERE i.severity = 'info') AS info
                        FROM incidents i WHERE i.origin IN (${{origin:sqlstring}}) AND {within("i.opened_us")}
                        AND COALESCE(i.outcome, '') NOT LIKE 'withdrawn%'
                        GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 20"""),
                    "none", x="detector", stacked=True, upright=False, overrides=coloured(SEVERITIES),
                    links=[page_link("incidents")],
                ),
                table(
                    "Incidents",
                    "All that was flagged in this range, newest first, with what it cost the job until now.",
                    sql(f"""SELECT to_timestamp(i.opened_us / 1e6) AS since, r.name AS run, i.severity, i.detector,
                        i.subject, (COALESCE(i.cleared_us, {TO_US}) - i.opened_us) / 1e6 AS lasted,
                        (i.cost->>'gpu_hours')::float8 AS "GPU-hours", i.summary, i.incident_id AS incident
                        FROM incidents i JOIN runs r USING (tenant_id, run_id)
                        WHERE i.origin IN (${{origin:sqlstring}}) AND i.opened_us <= {TO_US}
                        AND COALESCE(i.cleared_us, {TO_US}) >= {FROM_US} ORDER BY i.opened_us DESC LIMIT 200"""),
                    {"since": "dateTimeAsLocal", "lasted": "s", "GPU-hours": "none"}, severity="severity",
                    links={
                        "run": [board_link("tachograph-run", "The run's board", "run", "run")],
                        "summary": [page_link("incidents/${__data.fields.incident:percentencode}", "Evidence")],
                    },
                    widths={"summary": 320}, panel_links=[page_link("incidents")],
                ),
            ),
            Row(
                8,
                curves(
                    "MTBF of live runs",
                    "As the model has it for each run, from the run's own failures.",
                    [prom('max by (run) (tachograph_run_mtbf_seconds{bound="expected"})', "{{run}}")], "s",
                    at_least=0,
                ),
                curves(
                    "Interruptions of live runs",
                    "How often each run was stopped by a failure since it began. It may fall: a failure that was "
                    "concluded from silence can be taken back.",
                    [prom('max by (run) (tachograph_run_interruptions{how="failure"})', "{{run}}")], "none",
                    at_least=0,
                ),
            ),
        ),
        variables=[origin_variable()], since="now-30d", public_url=public_url, page_path="incidents",
    )  # fmt: skip
