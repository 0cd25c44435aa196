"""The example for Alertmanager is one, routes by severity, and tells a cause without its consequences."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from alertmanager import Alertmanager
from tachograph_dashboards.rules import ALERTS

CONFIG = Path(__file__).parents[2] / "deploy" / "alertmanager" / "alertmanager.yml"
SEVERITY = {each.name: each.severity or "warning" for each in ALERTS}
ABOUT = {each.name: each.about for each in ALERTS}
WITHIN_S = 60


def amtool(*words: str) -> str:
    program = shutil.which("amtool")
    if program is None:
        lacking = "needs amtool, which comes with Alertmanager (Debian: apt install prometheus-alertmanager)"
        assert "CI" not in os.environ, lacking
        pytest.skip(lacking)
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_amtool_takes_it() -> None:
    assert "SUCCESS" in amtool("check-config", str(CONFIG))


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "pager"), ("warning", "chat"), ("info", "kept")])
def test_who_is_told_goes_by_severity(severity: str, receiver: str) -> None:
    told = amtool("config", "routes", "test", f"--config.file={CONFIG}", f"severity={severity}", "run=a", "about=run")
    assert told.strip() == receiver


def test_it_names_alerts_that_exist_and_no_secret() -> None:
    text = CONFIG.read_text()
    named = set(re.findall(r"Tachograph\w+", text)) - {"Tachograph"}
    assert named <= {each.name for each in ALERTS}
    kept = {receiver["name"]: set(receiver) for receiver in yaml.safe_load(text)["receivers"]}
    assert kept == {name: {"name"} for name in ("kept", "pager", "chat")}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with Alertmanager(tmp_path_factory.mktemp("alertmanager"), CONFIG.read_text()) as made:
        yield made


def fire(alertmanager: Alertmanager, run: str, told: list[dict[str, str]]) -> None:
    alerts = [
        {"labels": {"run": run, "severity": SEVERITY[each["alertname"]], "about": ABOUT[each["alertname"]]} | each}
        for each in told
    ]
    body = json.dumps(alerts).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{alertmanager.url}/api/v2/alerts", data=body, headers=headers)
    urllib.request.urlopen(request, timeout=WITHIN_S).close()


def alerts_of(alertmanager: Alertmanager, run: str) -> dict[str, bool]:
    """Of each alert of this run, by its name, whether nobody is told of it."""
    found = [each for each in alertmanager.alerts() if each["labels"].get("run") == run]
    return {each["labels"]["alertname"]: bool(each["status"]["inhibitedBy"]) for each in found}


def inhibited(alertmanager: Alertmanager, run: str, told: list[dict[str, str]]) -> set[str]:
    """Of alerts of this run that fire together, the names of those of which nobody is told."""
    fire(alertmanager, run, told)
    # It weighs alerts against each other a moment after it took them, in the order in which they came.
    after = f"after-{run}"
    fire(alertmanager, after, [{"alertname": "TachographNaN"}, {"alertname": "TachographLossSpike"}])
    give_up_at = time.monotonic() + WITHIN_S
    while not alerts_of(alertmanager, after).get("TachographLossSpike"):
        assert time.monotonic() < give_up_at, "a loss spike is told beside the NaN that stands for it"
        time.sleep(0.02)
    found = alerts_of(alertmanager, run)
    assert set(found) == {each["alertname"] for each in told}
    return {name for name, is_quiet in found.items() if is_quiet}


@pytest.mark.parametrize("cause", ["TachographRunStalled", "TachographRunDown", "TachographRestartLoop"])
def test_a_run_that_makes_no_step_is_told_once(alertmanager: Alertmanager, cause: str) -> None:
    together = [cause, "TachographGoodputBelowTarget", "TachographCheckpointOverdue", "TachographNaN"]
    quiet = inhibited(alertmanager, cause, [{"alertname": name} for name in together])
    assert quiet == {"TachographGoodputBelowTarget", "TachographCheckpointOverdue"}


def test_nan_stands_for_the_spike_before_it(alertmanager: Alertmanager) -> None:
    together = [{"alertname": "TachographNaN"}, {"alertname": "TachographLossSpike"}]
    assert inhibited(alertmanager, "b", together) == {"TachographLossSpike"}


def test_a_sick_node_is_told_once_and_another_node_still(alertmanager: Alertmanager) -> None:
    sick = {"alertname": "TachographNodeSick", "severity": "critical", "node": "n1"}
    slow = [{"alertname": "TachographStraggler", "node": node} for node in ("n1", "n2")]
    assert inhibited(alertmanager, "c", [sick, slow[0]]) == {"TachographStraggler"}
    assert inhibited(alertmanager, "d", [sick, slow[1]]) == set()


def test_the_trouble_of_another_run_is_told(alertmanager: Alertmanager) -> None:
    assert inhibited(alertmanager, "e", [{"alertname": "TachographRunStalled"}]) == set()
    assert inhibited(alertmanager, "f", [{"alertname": "TachographGoodputBelowTarget"}]) == set()
