"""Tachograph itself: whether what the other boards say is current and whole."""

from __future__ import annotations

from grafanalib.core import Dashboard

from tachograph_dashboards.boards.common import board
from tachograph_dashboards.panels import BAD, FAIR, GOOD, Row, curves, laid_out, number, prom, sql, table


def tachograph(public_url: str | None = None) -> Dashboard:
    """The board."""
    return board(
        "tachograph-itself", "Tachograph itself", "Whether what the other boards say is current and whole.",
        laid_out(
            "Can it be believed",
            Row(
                4,
                number(
                    "Collectors up", "That Prometheus reaches. Fewer than you started: see TachographCollectorDown.",
                    prom("count(tachograph_collector_info) or vector(0)"), "none", steps=((None, BAD), (1, GOOD)),
                ),
                number(
                    "Ledger behind by",
                    "How long the oldest event that isn't booked waits. Above 15 s: add a collector; see "
                    "TachographWatermarkStale.",
                    prom("max(tachograph_collector_ledger_lag_seconds)"), "s",
                    steps=((None, GOOD), (15, FAIR), (120, BAD)),
                ),
                number(
                    "Events dropped in a day",
                    "By all agents. Any: the books of those runs have gaps; see TachographAgentsDropping.",
                    prom("sum(increase(tachograph_agent_events_dropped_total[1d])) or vector(0)"), "none",
                    steps=((None, GOOD), (1, BAD)), decimals=0,
                ),
                number(
                    "Rejected in a day",
                    "Lines that were no event. They are kept with the reason: GET /v1/rejected.",
                    prom('sum(increase(tachograph_collector_events_total{result="rejected"}[1d])) or vector(0)'),
                    "none", steps=((None, GOOD), (1, FAIR)), decimals=0,
                ),
                number(
                    "Blind detectors",
                    "Pairs of run and detector where the run doesn't tell what is needed; the list below says which.",
                    prom("sum(max by (run, detector) (tachograph_detector_blind)) or vector(0)"), "none",
                    steps=((None, GOOD), (1, FAIR)),
                ),
                number(
                    "Largest clock error",
                    "Of any scraped agent's node. Beyond 2 s events are booked at wrong times: mend NTP there.",
                    prom("max(abs(tachograph_agent_clock_offset_seconds))"), "s",
                    steps=((None, GOOD), (2, FAIR), (30, BAD)), decimals=3,
                ),
            ),
            Row(
                8,
                curves(
                    "Lag",
                    "From an event's time to its arrival, by run (the worst five), and from arrival to the books. The "
                    "first large: agents are cut off or clocks are wrong. The second: collectors are too few.",
                    [
                        prom("topk(5, max by (run) (tachograph_run_delay_seconds))", "arrival of {{run}}"),
                        prom("max(tachograph_collector_ledger_lag_seconds)", "books"),
                    ],
                    "s", at_least=0,
                ),
                curves(
                    "Watermark",
                    "How far behind now each run's booked minutes end. A minute or two is as it should be; growing: "
                    "see TachographWatermarkStale.",
                    [
                        prom(
                            "topk(10, time() - max by (run) (tachograph_run_booked_until_timestamp_seconds) "
                            'and on (run) tachograph_run_info{status="running"})',
                            "{{run}}",
                        )
                    ],
                    "s", at_least=0,
                ),
            ),
            "What comes in",
            Row(
                8,
                curves(
                    "Events",
                    "Events a second, accepted and rejected, at all collectors.",
                    [
                        prom(
                            "sum by (result) (rate(tachograph_collector_events_total[$__rate_interval]))", "{{result}}"
                        )
                    ],
                    "cps", at_least=0,
                ),
                curves(
                    "Dropped by agents",
                    "Events a second that agents gave up, by node (the worst ten). Their spool is full: no collector "
                    "was reached for long.",
                    [
                        prom(
                            "topk(10, sum by (node) (rate(tachograph_agent_events_dropped_total[$__rate_interval])))",
                            "{{node}}",
                        )
                    ],
                    "cps", at_least=0,
                ),
                curves(
                    "Refused requests",
                    "Requests a second without a good token, by what was wrong. After a change of tokens: agents still "
                    "have the old one.",
                    [
                        prom(
                            "sum by (reason) (rate(tachograph_collector_refused_requests_total[$__rate_interval]))",
                            "{{reason}}",
                        )
                    ],
                    "cps", at_least=0,
                ),
            ),
            Row(
                8,
                curves(
                    "Commit time",
                    "Half, and 99 of 100, of the transactions were durable within this. Above a second: the database's "
                    "disk.",
                    [
                        prom(
                            f"histogram_quantile({share}, sum by (le) "
                            "(rate(tachograph_collector_commit_seconds_bucket[$__rate_interval])))",
                            name,
                        )
                        for share, name in (("0.5", "half"), ("0.99", "99 of 100"))
                    ],
                    "s", at_least=0,
                ),
                curves(
                    "Memory that waits to be stored",
                    "By collector, against its limit. Near it: agents are told to wait, nothing is lost.",
                    [
                        prom("sum by (instance) (tachograph_collector_waiting_bytes)", "{{instance}}"),
                        prom("max(tachograph_collector_waiting_limit_bytes)", "limit"),
                    ],
                    "bytes", at_least=0,
                ),
                curves(
                    "Failures of the database",
                    "Transactions that the database didn't take, and folds that it failed. The collector's log says "
                    "why; both are tried again.",
                    [
                        prom("sum(rate(tachograph_collector_failed_commits_total[$__rate_interval]))", "storing"),
                        prom(
                            "sum(rate(tachograph_collector_folding_database_errors_total[$__rate_interval]))", "folding"
                        ),
                    ],
                    "cps", at_least=0,
                ),
            ),
            "How well it sees",
            Row(
                9,
                table(
                    "Blind detectors",
                    "Run and detector where something that it needs isn't told. 'tachograph show RUN' says what, and "
                    "integrations how to tell it.",
                    prom("max by (run, detector) (tachograph_detector_blind) > 0", instant=True), {},
                    hidden=["Time", "Value"],
                ),
                table(
                    "Coverage",
                    "Running runs, by how their nodes are heard of. dead or lost nodes: what they did isn't booked "
                    "until they are heard of again.",
                    prom("sum by (run, state) (tachograph_run_nodes) > 0", instant=True), {}, hidden=["Time"],
                    renamed={"Value": "nodes"},
                ),
                table(
                    "How nodes are heard of",
                    "From the ledger: nodes of running runs, the longest silent first, what their agents dropped and "
                    "how far their clocks are off.",
                    sql("""SELECT r.name AS run, n.node, n.state, to_timestamp(n.last_heard_us / 1e6) AS heard,
                        n.dropped, n.clock_offset_s AS clock
                        FROM nodes n JOIN runs r USING (tenant_id, run_id)
                        WHERE EXISTS (SELECT 1 FROM books b WHERE b.tenant_id = n.tenant_id AND b.run_id = n.run_id
                        AND b.status = 'running') ORDER BY n.last_heard_us LIMIT 100"""),
                    {"heard": "dateTimeFromNow", "clock": "s"},
                ),
            ),
            "Who folds, and who is told",
            Row(
                8,
                curves(
                    "Runs by collector",
                    "Runs that each folds. Those waiting have no place: add a collector.",
                    [
                        prom("sum by (instance) (tachograph_collector_held_runs)", "{{instance}}"),
                        prom("sum(tachograph_collector_runs_waiting)", "waiting"),
                        prom("sum(tachograph_collector_runs_set_aside)", "set aside"),
                    ],
                    "none", at_least=0,
                ),
                curves(
                    "News that waits",
                    "How long the oldest news of an incident waits to be told, by sink. Above a minute: nobody is "
                    "paged; the collector's log says why.",
                    [prom("max by (sink) (tachograph_collector_delivery_age_seconds)", "{{sink}}")], "s", at_least=0,
                ),
                curves(
                    "Memory of collectors", "Resident memory of each.",
                    [
                        prom(
                            "process_resident_memory_bytes and on (instance, job) tachograph_collector_info",
                            "{{instance}}",
                        )
                    ],
                    "bytes", at_least=0,
                ),
            ),
        ),
        since="now-6h", public_url=public_url,
    )  # fmt: skip
