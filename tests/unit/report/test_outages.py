"""What tables of outages are said to tell: numbers recomputed by hand, and what can't be known as unknown."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import damaged_logs
import outage_samples
import pytest
from rich.console import Console
from tachograph_agent.trainers.files import ReadingError, Source
from tachograph_collector.report.outages.findings import Options, OutageReport
from tachograph_collector.report.outages.rates import gaps, weibull_shape
from tachograph_collector.report.outages.reading import Times
from tachograph_collector.report.outages.shown import outages_json, render_outages
from tachograph_collector.report.outages.slurm import held_and_away, slurm_seconds, state_of
from tachograph_collector.report.outages.told import outage_reports
from tachograph_collector.report.outages.words import category_of, role_of

HOUR = 3600.0
DAY = 86_400.0

Told = Callable[..., OutageReport]
"""Text and kind of a table, and options; gives its report."""


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """The report of a table's text."""

    def report(text: str, kind: str, **options: object) -> OutageReport:
        path = tmp_path / f"{kind}.csv"
        path.write_text(text)
        # the fields come by name, which the checker can't see
        (only,) = outage_reports([(Source(str(path)), kind)], Options(**options))  # type: ignore[arg-type]
        return only

    return report


def figures(report: OutageReport) -> dict[str, object]:
    return {figure.key: figure.value for figure in report.figures}


def words(report: OutageReport) -> dict[str, str]:
    return {figure.key: figure.words for figure in report.figures}


def listing(report: OutageReport, key: str) -> list[tuple[object, ...]]:
    (found,) = (one for one in report.listings if one.key == key)
    return [tuple(row) for row in found.rows]


def test_incidents_sum_what_is_reported_and_count_what_is_unknown(told: Told) -> None:
    report = told(outage_samples.INCIDENTS, "incidents")
    found = figures(report)
    assert found["lost_reported_s"] == 6.5 * HOUR
    assert found["num_lost_unknown"] == 1
    assert report.headline == "3 failures and 1 planned stop in 5 rows"
    assert listing(report, "by_category") == [
        ("failure", "gpu", 1, 2.5 * HOUR, 0),
        ("failure", "host", 1, 4 * HOUR, 0),
        ("failure", "unknown", 1, None, 1),
        ("planned", "unknown", 1, 0.0, 0),
    ]


def test_incidents_times_are_taken_in_the_zone_of_their_row(told: Told) -> None:
    report = told(outage_samples.INCIDENTS, "incidents")
    assert figures(report)["first_failure_after_s"] == 2 * DAY + 11.5 * HOUR + 15
    assert "2 d 11 h 30 min 15 s" in words(report)["first_failure_after_s"]
    assert figures(report)["mtbf_s"] == 10 * DAY / 3
    assert any("name no zone; UTC was taken" in note for note in report.notes)


def test_a_zone_of_nobodys_is_said_and_the_callers_taken(told: Told) -> None:
    text = "when,tz,event,lost_hours\n2030-01-01 00:00,UTC,launch,\n2030-01-01 12:00,HQ,crash,1\n"
    report = told(text, "incidents", tz=ZoneInfo("Europe/Paris"))
    assert figures(report)["first_failure_after_s"] == 11 * HOUR
    assert any("The zone HQ" in note and "Europe/Paris was taken" in note for note in report.notes)


def test_a_span_that_the_caller_tells_goes_before_the_tables(told: Told) -> None:
    assert figures(told(outage_samples.INCIDENTS, "incidents", span_s=30 * DAY))["mtbf_s"] == 10 * DAY


def test_causes_without_a_span_have_no_mean_time_between_failures(told: Told) -> None:
    report = told(outage_samples.CAUSES, "causes")
    assert figures(report)["mtbf_s"] is None
    assert figures(report)["failures_per_gpu_hour"] is None
    assert "--span" in words(report)["mtbf_s"]


def test_causes_with_a_span_and_gpus_have_rate_and_interval(told: Told) -> None:
    found = figures(told(outage_samples.CAUSES, "causes", span_s=10 * DAY, gpus=100))
    assert found["mtbf_s"] == 20 * HOUR
    assert found["failures_per_gpu_hour"] == pytest.approx(12 / 24_000)
    # chi2 quantiles of 24 and 26 degrees of freedom: 12.401 and 41.923
    assert found["mtbf_low_s"] == pytest.approx(480 * HOUR / 41.923, rel=1e-4)
    assert found["mtbf_high_s"] == pytest.approx(480 * HOUR / 12.401, rel=1e-4)


def test_shares_come_from_counts_and_a_printed_one_that_disagrees_is_said(told: Told) -> None:
    report = told(outage_samples.CAUSES, "causes")
    assert figures(report)["printed_percent_sum"] == 87.0
    assert figures(report)["num_printed_wrong"] == 1
    assert [note for note in report.notes if "prints" in note] == [
        "'Bug in the loader' prints 12 %, but 3 of 12 is 25.0 %; shares here come from the counts."
    ]
    assert listing(report, "causes")[1] == ("Switch", "network", 3, 0.25)


def test_a_percentage_that_is_none_is_left_out_of_their_sum(told: Told) -> None:
    report = told("cause,count,percent\nBroken GPU,6,inf\nSwitch,6,50.0\nFan,0,1e308\n", "causes")
    assert figures(report)["printed_percent_sum"] == 50.0


def test_devices_that_fail_at_one_instant_are_one_gap_and_a_fleet_scales_to_a_device(told: Told) -> None:
    report = told(outage_samples.DEVICES, "devices", gpus=1000)
    found = figures(report)
    assert (found["num_failures"], found["num_devices"], found["num_again"]) == (4, 3, 1)
    assert (found["mtbf_s"], found["gap_mean_s"]) == (10 * HOUR, 15 * HOUR)
    assert found["device_mtbf_s"] == 10_000 * HOUR
    assert found["outage_s"] is None
    assert listing(report, "again") == [("7", 2)]


def test_a_list_of_starts_does_not_say_why_attempts_ended(told: Told) -> None:
    report = told(outage_samples.ATTEMPTS, "attempts")
    found = figures(report)
    assert (found["num_attempts"], found["span_s"], found["num_pid_falls"]) == (3, 180.0, 1)
    assert (found["gap_median_s"], found["gap_shortest_s"], found["gap_longest_s"]) == (90.0, 60.0, 120.0)
    assert found["mtbf_s"] is None
    assert any("equally much" in note for note in report.notes)


def test_facts_that_disagree_are_shown_side_by_side(told: Told) -> None:
    report = told(outage_samples.FACTS, "facts")
    found = figures(report)
    assert (found["goodput_1"], found["goodput_2"]) == (0.5, 0.75)
    assert found["restart_gap_1_s"] == 3 * DAY
    assert found["restart_gap_2_s"] == 2 * DAY
    assert words(report)["restart_gap_3_s"].startswith("19.20 h to 24.00 h: 20-25")
    assert words(report)["restart_gap_4_s"].startswith("at most 6.00 h: 8 ")
    assert words(report)["gap_5_s"] == "one every 12.00 h"
    assert ("longest stretches", "1.5 and 2.5", "days") in listing(report, "facts")


def test_a_start_and_an_end_on_one_day_tell_no_duration(told: Told) -> None:
    text = (
        "fact,value,unit\nstart,2030-01-01,date\ncomplete,2030-01-01 12:00,UTC\nideal time,1,days\nrestarts,3,count\n"
    )
    assert figures(told(text, "facts"))["goodput"] is None


def test_slurms_states_are_taken_without_what_is_behind_them(told: Told) -> None:
    report = told(outage_samples.SACCT, "sacct")
    assert [row[:3] for row in listing(report, "states")] == [
        ("NODE_FAIL", 1, 0.25),
        ("TIMEOUT", 1, 0.25),
        ("CANCELLED", 1, 0.25),
        ("COMPLETED", 1, 0.25),
    ]
    assert figures(report)["num_jobs"] == 4
    assert any("job steps" in note for note in report.notes)
    assert figures(report)["not_completed"] == 0.75


def test_slurms_node_failures_are_the_only_ones_of_the_hardware(told: Told) -> None:
    found = figures(told(outage_samples.SACCT, "sacct"))
    assert found["num_hardware_failures"] == 1
    assert found["node_mtbf_s"] == 4 * 36 * HOUR + 60
    without = told(outage_samples.SACCT.replace("NODE_FAIL", "FAILED"), "sacct")
    assert figures(without)["hardware_mtbf_s"] is None
    assert "no row says NODE_FAIL" in words(without)["hardware_mtbf_s"]


def test_slurms_jobs_of_one_name_are_attempts_with_time_between(told: Told) -> None:
    report = told(outage_samples.SACCT, "sacct")
    assert listing(report, "jobs") == [("pretrain (ada)", 3, 1, 36 * HOUR, 3 * HOUR)]
    assert figures(report)["away_s"] == 3 * HOUR
    assert figures(report)["waiting_s"] == 45 * 60
    assert figures(report)["num_limits_unlike"] == 1


def test_slurm_with_bars_at_the_ends_of_lines_is_the_same(told: Told) -> None:
    barred = "".join(f"{line}|\n" for line in outage_samples.SACCT.splitlines())
    assert figures(told(barred, "sacct")) == figures(told(outage_samples.SACCT, "sacct"))


def test_nodes_of_jobs_that_a_failed_node_ended_are_counted(told: Told) -> None:
    failed = "1|NODE_FAIL|n[1-2]|01:00:00\n2|NODE_FAIL|n[1-2]|01:00:00\n"
    text = f"JobID|State|NodeList|CPUTime\n{failed}3|COMPLETED|n9|02:00:00\n"
    report = told(text, "sacct")
    assert listing(report, "nodes") == [("n[1-2]", 2)]
    assert [row[3] for row in listing(report, "states")] == [0.5, 0.5]


def test_what_slurm_did_not_dump_is_unknown(told: Told) -> None:
    found = figures(told("JobID|JobName|State\n1|a|COMPLETED\n2|a|FAILED\n", "sacct"))
    assert found["waiting_s"] is None
    assert found["away_s"] is None
    assert found["hardware_mtbf_s"] is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2-22:00:00", 252_000.0), ("02:00:00", 7200.0), ("05:07", 307.0), ("05:07.123", 307.0), ("UNLIMITED", None)],
)
def test_slurms_durations(text: str, seconds: float | None) -> None:
    assert slurm_seconds(text) == seconds
    assert slurm_seconds(None) is None


def test_spans_that_overlap_hold_their_union() -> None:
    assert held_and_away([(0.0, 10.0), (5.0, 12.0), (20.0, 21.0), (20.5, 20.6)]) == (13.0, 8.0)
    assert state_of("CANCELLED by 1000") == state_of("CANCELLED+") == "CANCELLED"


@pytest.mark.parametrize(
    ("what", "role", "category"),
    [
        ("launch", "start", "unknown"),
        ("planned restart", "planned", "unknown"),
        ("unplanned maintenance of hosts", "failure", "host"),
        ("emergency maintenance", "failure", "host"),
        ("loss spike recovered", "other", "unknown"),
        ("hang, no NCCL timeout", "failure", "unknown"),
        ("NCCL watchdog timeout", "failure", "collective_timeout"),
        ("HBM error", "failure", "gpu_memory"),
        ("GPU has fallen off the bus", "failure", "gpu"),
        ("silent data corruption found", "other", "sdc"),
    ],
)
def test_roles_and_categories_come_from_words(what: str, role: str, category: str) -> None:
    assert (role_of(what), category_of(what)) == (role, category)


def test_the_shape_of_gaps_is_that_of_the_likeliest_weibull() -> None:
    assert weibull_shape([1, 2, 3, 4]) == pytest.approx(2.4532, abs=1e-4)
    assert weibull_shape([2, 2, 2]) is None
    # quantiles of an exponential have a shape near 1
    assert weibull_shape([-math.log(1 - (index + 0.5) / 500) for index in range(500)]) == pytest.approx(1.0, abs=0.02)
    found = gaps([0.0, 0.0, 10.0, 40.0])
    assert found is not None
    assert (found.num, found.mean_s, found.median_s, found.weibull_shape) == (2, 20.0, 20.0, None)
    assert gaps([5.0, 5.0]) is None


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("1900000000", 1_900_000_000.0),
        ("2030-03-17 17:46:40", 1_900_000_000.0),
        ("2030-03-17T18:46:40+01:00", 1_900_000_000.0),
        ("2030-03-17 10:46:40 PDT", 1_900_000_000.0),
        ("2030-02-30", None),
        ("soon", None),
        ("99999-01-01", None),
    ],
)
def test_times_of_a_table(text: str, t: float | None) -> None:
    when = Times(None).read(text)
    assert (None if when is None else when.t) == t


def test_the_terminal_shows_every_kind_on_60_columns_and_nothing_colours_it(tmp_path: Path) -> None:
    for kind, text in outage_samples.BY_KIND.items():
        path = tmp_path / kind
        path.write_text(text.replace("Broken GPU", "[red]Broken\x1b[31m GPU").replace("first start", "first\x1b start"))
        out = io.StringIO()
        render_outages(outage_reports([(Source(str(path)), kind)], Options()), Console(file=out, width=60))
        assert "Outages only" in out.getvalue()
        assert "\x1b" not in out.getvalue()
        assert max(map(len, out.getvalue().splitlines())) <= 60


def test_json_has_null_for_what_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "causes.csv"
    path.write_text(outage_samples.CAUSES)
    told = json.loads(json.dumps(outages_json(outage_reports([(Source(str(path)), "causes")], Options()))))
    assert told["schema"] == 1
    (only,) = told["outages"]
    assert (only["name"], only["kind"], only["rows"]) == ("causes", "causes", 3)
    assert only["figures"]["mtbf_s"] is None
    assert only["listings"]["causes"][0] == {"cause": "Broken GPU", "category": "gpu", "num": 6, "share": 0.5}


def test_a_table_whose_rows_cannot_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "causes.csv"
    path.write_text("cause,count\nheat\n")
    with pytest.raises(ReadingError, match=r"causes\.csv: no row could be read .* line 2: a row of 1 cells"):
        outage_reports([(Source(str(path)), "causes")], Options())


@pytest.mark.parametrize("kind", outage_samples.BY_KIND)
def test_a_damaged_table_gives_a_report_or_a_sentence(kind: str, tmp_path: Path) -> None:
    samples = list(outage_samples.BY_KIND.values())
    path = tmp_path / "damaged.csv"
    own = list(outage_samples.BY_KIND).index(kind)
    for index, text in enumerate(damaged_logs.damaged(samples, own, damaged_logs.NUM_DAMAGED)):
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            (report,) = outage_reports([(Source(str(path)), kind)], Options(gpus=8))
        except ReadingError:
            continue
        assert report.num_rows > 0
        json.dumps(outages_json([report]), allow_nan=False)
        if index % 20 == 0:  # drawing takes ten times as long as reading
            render_outages([report], Console(file=io.StringIO(), width=60))
