"""Each alert fires in one case and is quiet in another, by Prometheus' own promtool; each has its runbook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tachograph_dashboards.generate import ALERTS as FOLDER
from tachograph_dashboards.rules import ALERTS, RECORDINGS
from tachograph_dashboards.runbooks import runbook

REPOSITORY = Path(__file__).parents[3]
URL = "https://tachograph.example"
LENGTH = 70
"""Minutes of each case; it is looked at as they end."""
RUN = "lab/run 1+2"
WITHIN_S = 300
HEADINGS = ["What it means", "What to type first", "What to look at", "What to do", "When it lies"]
INCIDENTS = {
    "TachographRunStalled": "hang",
    "TachographRunDown": "failure",
    "TachographGoodputUnexplained": "unexplained_loss",
    "TachographRestartLoop": "restart_loop",
    "TachographCheckpointOverdue": "checkpoint_overdue",
    "TachographIntervalOffOptimum": "interval",
    "TachographStraggler": "straggler",
    "TachographLossSpike": "loss_spike",
    "TachographNaN": "nan",
    "TachographNodeSilent": "dead_node",
    "TachographNodeSick": "xid",
    "TachographSilentCorruption": "silent_corruption",
    "TachographRetentionTooShort": "retention",
}
"""Alerts that stand on an incident of this detector."""


@dataclass(frozen=True)
class Case:
    """Series by what they are called, with their values as promtool writes them."""

    alert: str
    series: dict[str, str]
    says: str = ""
    """What its annotations must hold."""
    with_collector: bool = True


def always(value: float | str) -> str:
    return f"{value}x{LENGTH}"


def until_half(value: float) -> str:
    return f"{value}x{LENGTH // 2} _x{LENGTH // 2}"


def incident(detector: str, severity: str = "critical", run: str = RUN, **more: str) -> str:
    labels = {"run": run, "detector": detector, "severity": severity, "subject": "rank 7", "node": "n3"} | more
    told = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"tachograph_incident_open_since_timestamp_seconds{{{told}}}"


def of_run(name: str, **labels: str) -> str:
    told = ",".join(f'{key}="{value}"' for key, value in ({"run": RUN} | labels).items())
    return f"tachograph_{name}{{{told}}}"


RUNNING = {of_run("run_info", status="running"): always(1)}
INFO = f'tachograph_collector_info{{job="tachograph",instance="c1",version="0.1.0",public_url="{URL}"}}'
UP = 'up{job="tachograph",instance="c1"}'


def goodput(hour: float, day: float) -> dict[str, str]:
    return {
        of_run("run_goodput_ratio", window=window, bound="upper"): always(value)
        for window, value in (("1h", hour), ("24h", day))
    }


def rejected(share: float) -> dict[str, str]:
    return {
        'tachograph_collector_events_total{result="accepted"}': f"0+{6000 * (1 - share)}x{LENGTH}",
        'tachograph_collector_events_total{result="rejected"}': f"0+{6000 * share}x{LENGTH}",
    }


def at_risk(work_s: float, interval_s: float) -> dict[str, str]:
    return {
        of_run("run_at_risk_seconds"): always(work_s),
        of_run("run_checkpoint_interval_seconds"): always(interval_s),
    }


def watermark(behind: str) -> dict[str, str]:
    heard = {of_run("run_last_event_timestamp_seconds"): f"0+60x{LENGTH}"}
    return RUNNING | heard | {of_run("run_booked_until_timestamp_seconds"): behind}


FIRES = [
    *(Case(alert, {incident(detector): always(60)}) for alert, detector in INCIDENTS.items()),
    Case("TachographRunStalled", RUNNING | {of_run("run_last_step"): always(100)}, "stood still for 20 minutes"),
    Case("TachographRunStalled", {incident("hang"): always(60)} | goodput(0.42, 0.9), "1h 9m 0s rank 7 on n3. Goodput"),
    Case(
        "TachographGoodputBelowTarget",
        goodput(0.5, 0.75),
        "kept 50% of its last hour and 75% of its last 24 hours; the target is 90%.",
    ),
    Case("TachographCheckpointOverdue", at_risk(7200, 1200), "2h 0m 0s of work at risk"),
    Case("TachographIntervalOffOptimum", {incident("interval"): always(60)} | at_risk(10, 600), "In use: 10m 0s."),
    Case("TachographStraggler", {incident("straggler_group", "warning", subject="run"): always(60)}, "wait for on n3"),
    Case("TachographNodeSick", {incident("node_health", "warning"): always(60)}, "(node_health)"),
    Case("TachographCollectorDown", {}, "Prometheus sees no collector", with_collector=False),
    Case(
        "TachographCollectorDown",
        {INFO: until_half(1), UP: f"1x{LENGTH // 2} 0x{LENGTH // 2}"},
        "can't scrape c1.",
        with_collector=False,
    ),
    Case("TachographIngestRefused", rejected(0.05), "5% of the lines"),
    Case(
        "TachographIngestRefused",
        {'tachograph_collector_refused_requests_total{reason="expired"}': f"0+60x{LENGTH}"},
        "1 requests a second have no good token (expired)",
    ),
    Case(
        "TachographIngestRefused",
        {
            'tachograph_collector_waiting_bytes{instance="c1"}': always(95),
            'tachograph_collector_waiting_limit_bytes{instance="c1"}': always(100),
        },
        "holds 95% of the memory",
    ),
    Case(
        "TachographAgentsDropping",
        {'tachograph_agent_events_dropped_total{node="n3",class="steps"}': f"0+10x{LENGTH}"},
        "150 events of class steps",
    ),
    Case("TachographWatermarkStale", watermark(always(60)), "ended 1h 9m 0s ago"),
    Case("TachographWatermarkStale", {"tachograph_collector_ledger_lag_seconds": always(300)}, "waits for 5m 0s"),
    Case(
        "TachographDetectorBlind", {of_run("detector_blind", detector="hang"): always(1)}, "The detector hang is blind"
    ),
    Case("TachographNobodyTold", {'tachograph_collector_delivery_age_seconds{sink="oncall"}': always(120)}, "oncall"),
    Case("TachographNobodyTold", {'tachograph_collector_dead_deliveries{sink="oncall"}': always(3)}, "oncall"),
]
QUIET = [
    *(Case(alert, {incident(detector): until_half(60)}) for alert, detector in INCIDENTS.items()),
    *(Case(alert, {incident("job_slow"): always(60)}) for alert in INCIDENTS),
    *(Case(alert, {incident(detector, origin="rehearsal"): always(60)}) for alert, detector in INCIDENTS.items()),
    Case("TachographRunStalled", RUNNING | {of_run("run_last_step"): f"0+5x{LENGTH}"}),
    Case("TachographRunStalled", RUNNING | {of_run("run_last_step"): f"_x{LENGTH - 10} 100x10"}),
    Case(
        "TachographRunStalled", {of_run("run_info", status="completed"): always(1), of_run("run_last_step"): always(9)}
    ),
    Case("TachographGoodputBelowTarget", goodput(0.5, 0.95)),
    Case("TachographGoodputBelowTarget", goodput(0.95, 0.75)),
    Case("TachographCheckpointOverdue", at_risk(2400, 1200)),
    Case("TachographCheckpointOverdue", at_risk(120, 20)),
    Case("TachographCollectorDown", {}),
    Case("TachographCollectorDown", {'up{job="other",instance="x"}': always(0)}),
    Case("TachographIngestRefused", rejected(0.001)),
    Case("TachographAgentsDropping", {'tachograph_agent_events_dropped_total{node="n3",class="steps"}': always(500)}),
    Case("TachographWatermarkStale", watermark(f"0+60x{LENGTH}")),
    Case("TachographWatermarkStale", {"tachograph_collector_ledger_lag_seconds": always(10)}),
    Case("TachographDetectorBlind", {of_run("detector_blind", detector="retention"): always(1)}),
    Case("TachographDetectorBlind", {of_run("detector_blind", detector="hang"): until_half(1)}),
    Case(
        "TachographNobodyTold",
        {
            'tachograph_collector_delivery_age_seconds{sink="oncall"}': always(5),
            'tachograph_collector_dead_deliveries{sink="oncall"}': always(0),
        },
    ),
]


def firing(cases: Sequence[Case], folder: Path) -> list[str]:
    """For each case whose alert fires at its end, in their order: its alerts, with labels and annotations, as told."""
    program = shutil.which("promtool")
    if program is None:
        lacking = "needs promtool, which comes with Prometheus (Debian: apt install prometheus)"
        assert "CI" not in os.environ, lacking  # which installs it
        pytest.skip(lacking)
    files = sorted(FOLDER.glob("*.yml"))
    told = {
        "rule_files": [str(path) for path in files],
        # Else promtool takes them in any order, and what is recorded is at times an evaluation older than what asks.
        "group_eval_order": [group["name"] for path in files for group in yaml.safe_load(path.read_text())["groups"]],
        "evaluation_interval": "2m",
        "tests": [_told(case) for case in cases],
    }
    path = folder / "cases.yml"
    path.write_text(json.dumps(told))  # JSON is YAML
    command = [program, "test", "rules", str(path)]
    # It makes a database a case, and waits for the disk for each; in memory there is nothing to wait for.
    memory = {"TMPDIR": "/dev/shm"} if os.access("/dev/shm", os.W_OK) else {}
    done = subprocess.run(
        command, env=os.environ | memory, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    said = done.stdout + done.stderr
    assert "SUCCESS" in said or "got:[" in said, said
    return [] if done.returncode == 0 else re.split(r"^ *(?=alertname: )", said, flags=re.MULTILINE)[1:]


def _told(case: Case) -> dict[str, Any]:
    """A test that nothing fires: what does is then told as a fault."""
    series = ({INFO: always(1), UP: always(1)} if case.with_collector else {}) | case.series
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{LENGTH}m", "alertname": case.alert, "exp_alerts": []}],
    }


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    found = firing(FIRES, tmp_path_factory.mktemp("fires"))
    named = [re.search(r"alertname: (\w+)", each) for each in found]
    assert [name and name[1] for name in named] == [case.alert for case in FIRES]
    return [re.sub(r"\s+", " ", each) for each in found]


@pytest.mark.parametrize("place", range(len(FIRES)), ids=[case.alert for case in FIRES])
def test_it_fires_and_says_how_much_and_where_to_read_on(fired: list[str], place: int) -> None:
    case, said = FIRES[place], fired[place]
    assert case.says in said
    assert f"{URL}/runbooks/{case.alert}" in said or not case.with_collector
    assert "error expanding" not in said
    assert "<no value>" not in said
    if 'about="run"' in said:
        assert f"{URL}/#/runs/lab%2Frun%201%2B2" in said
    assert re.search(r'severity="(critical|warning|info)"', said)


def test_each_is_quiet_where_nothing_is_wrong_with_what_it_watches(tmp_path: Path) -> None:
    assert firing(QUIET, tmp_path) == []


def test_every_alert_has_a_case_of_either_kind() -> None:
    names = {each.name for each in ALERTS}
    assert {case.alert for case in FIRES} == names
    assert {case.alert for case in QUIET} == names


@pytest.mark.parametrize("alert", [each.name for each in ALERTS])
def test_every_alert_has_a_runbook_of_five_parts_and_a_line_in_the_docs(alert: str) -> None:
    text = runbook(alert)
    assert text is not None
    assert text.startswith(f"# {alert}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert all(len(part) > 40 for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:])
    first = re.search(r"^## What to type first\n\n```sh\n(.+?)^```$", text, re.MULTILINE | re.DOTALL)
    assert first is not None, "who is woken needs a command"
    assert re.match(r"tachograph |curl |ssh NODE |cd ", first[1])
    assert f"| `{alert}` |" in (REPOSITORY / "docs/grafana.md").read_text()
    assert f"[{alert}]({alert}.md)" in (REPOSITORY / "docs/runbooks/README.md").read_text()


def test_every_runbook_is_of_an_alert() -> None:
    pages = {path.stem for path in (REPOSITORY / "docs/runbooks").glob("*.md")} - {"README"}
    assert pages == {each.name for each in ALERTS}


@pytest.mark.parametrize("name", ["../../etc/passwd", "README", "TachographNothing", "Tachograph/../README", ""])
def test_nothing_else_is_read_as_a_runbook(name: str) -> None:
    assert runbook(name) is None


@pytest.mark.parametrize("told", [*ALERTS, *RECORDINGS], ids=lambda told: getattr(told, "name", "") or told.record)
def test_rules_are_of_documented_series_and_recorded_ones(told: object) -> None:
    documented = (REPOSITORY / "docs/metrics.md").read_text() + (REPOSITORY / "docs/agent.md").read_text()
    recorded = {each.record for each in RECORDINGS}
    expr = str(getattr(told, "expr"))  # noqa: B009 # either kind has one
    for name in re.findall(r"\w+:\w+:\w+", expr):
        assert name in recorded
    for name in re.findall(r"(?<![:\w])tachograph_\w+(?![:\w])", expr):
        assert name in documented or name.removeprefix("tachograph_agent_") in documented, name


def test_the_docs_say_the_severity_of_each_alert() -> None:
    text = (REPOSITORY / "docs/grafana.md").read_text()
    told = dict(re.findall(r"^\| `(Tachograph\w+)` \| ([\w' ]+) \|", text, re.MULTILINE))
    assert told == {each.name: each.severity or "the incident's" for each in ALERTS}
