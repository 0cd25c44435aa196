"""A real Prometheus scrapes a real collector and a real agent: every live panel and every recording rule finds data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grafana_macros
import pytest
from collector_process import CollectorProcess
from free_ports import free_port
from prometheus_server import Prometheus
from tachograph_dashboards.generate import ALERTS, boards
from tachograph_dashboards.modern import panels
from tachograph_dashboards.rules import ALERTS as RULES
from tachograph_dashboards.rules import RECORDINGS

REPOSITORY = Path(__file__).parents[3]
RUN = "atlas-7b-pretrain"
NODE = "node-05"
PUBLIC_URL = "https://tachograph.example"
WITHIN_S = 90
NUM_MORE = 300
SLOW = 3
ASKED = grafana_macros.Asked(0, 0, {"run": RUN, "node": NODE, "target": "0.9", "origin": "live"})
QUESTIONS = [
    pytest.param(target["expr"], id=f"{name}: {panel['title']} {place}")
    for name, board in boards().items()
    for panel in panels(board)
    for place, target in enumerate(panel.get("targets", []))
    if "expr" in target
]
TRAINER = """
from tachograph_agent import Recorder
recorder = Recorder(resume_step=0)
for step in range(1, 5):
    recorder.step_done(step, dur_s=0.1)
"""
"""What the agent has to send, by which it learns how far its clock is off."""
LAST = (
    "tachograph_agent_clock_offset_seconds",
    f'tachograph_run_predicted_goodput_ratio{{run="{RUN}"}}',
    f'tachograph_run_straggler_rank{{run="{RUN}"}}',
    *(each.record for each in RECORDINGS),
)
"""What is there last; with it all is."""


def run_until_now() -> list[dict[str, Any]]:
    """The recorded run, as if it had been going on until now, with a rank that has become slow."""
    told = [json.loads(line) for line in (REPOSITORY / "examples/recorded_run.jsonl").read_text().splitlines()]
    told = [each for each in told if each["kind"] not in {"run.end", "allocation.end"}]
    told[0].pop("origin")
    last = max((each for each in told if each["kind"] == "step"), key=lambda each: each["t"])
    for place in range(1, NUM_MORE + 1):
        step = {"kind": "step", "run": RUN, "attempt": last["attempt"], "step": last["step"] + place, "dur": 1.0}
        step |= {"t": last["t"] + place, "node": NODE, "loss": 2.0, "grad_norm": 0.5, "tokens": 4096}
        told += [step | {"rank": rank, "busy_s": 0.95 if rank == SLOW else 0.6} for rank in range(8)]
    later_s = time.time() - 2 - told[-1]["t"]
    for each in told:
        each["t"] = round(each["t"] + later_s, 3)
    return told


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    settings = folder / "collector.toml"
    settings.write_text('[[sinks]]\nname = "nowhere"\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\n')
    options = ["--public-url", PUBLIC_URL, "--config", str(settings)]
    collector = CollectorProcess(f"sqlite:///{folder / 'collector.db'}", options).start()
    (folder / "spool").mkdir()
    port = free_port()
    command = [sys.executable, "-m", "tachograph_agent.sidecar.main", "--collector", collector.url, "--node", NODE]
    command += ["--spool", str(folder / "spool"), "--metrics", f"127.0.0.1:{port}", "--heartbeat", "500ms"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHOGRAPH", "SLURM"))}
    environment = kept | {"TACHOGRAPH_SPOOL": str(folder / "spool"), "TACHOGRAPH_RUN": "another"}
    agent = subprocess.Popen(command, env=environment)
    try:
        subprocess.run([sys.executable, "-c", TRAINER], env=environment, check=True, timeout=60)
        assert collector.post_events(run_until_now()).status == 200
        targets = [
            ("tachograph", collector.url.removeprefix("http://"), {}),
            ("tachograph-agents", f"127.0.0.1:{port}", {"node": NODE}),
        ]
        with Prometheus(folder, targets, sorted(ALERTS.glob("*.yml"))) as made:
            ends = time.monotonic() + WITHIN_S
            while missing := [expr for expr in LAST if not made.asked(expr)]:
                assert time.monotonic() < ends, (missing, collector.said[-20:])
                time.sleep(0.3)
            yield made
    finally:
        agent.kill()
        agent.wait()
        collector.kill()


@pytest.mark.parametrize("expr", QUESTIONS)
def test_every_live_panel_shows_something(prometheus: Prometheus, expr: str) -> None:
    assert prometheus.asked(ASKED.promql(expr))


def test_runs_that_are_under_way_are_counted_by_what_is_chosen(prometheus: Prometheus) -> None:
    [count] = [str(each.values[0]) for each in QUESTIONS if each.id == "fleet: Runs under way 0"]
    [told] = prometheus.asked(ASKED.promql(count))
    live = prometheus.asked('tachograph_run_info{status="running", origin=""}')
    assert int(told["value"][1]) == len({each["metric"]["run"] for each in live}) > 0


@pytest.mark.parametrize("told", RECORDINGS, ids=lambda told: told.record)
def test_every_recording_rule_has_a_value(prometheus: Prometheus, told: Any) -> None:
    assert prometheus.asked(told.record)


def test_every_rule_is_evaluated_without_a_fault(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == {each.name for each in RULES} | {each.record for each in RECORDINGS}
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}


def test_the_page_is_where_the_collector_says(prometheus: Prometheus) -> None:
    assert prometheus.get("label/public_url/values") == [PUBLIC_URL]
