"""The agent's page names every option and every metric that there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tachograph_agent.sidecar.counters import Counters
from tachograph_agent.sidecar.main import parser
from tachograph_agent.sidecar.metrics import AgentMetrics
from tachograph_agent.sidecar.status import Status

PAGE = (Path(__file__).parents[3] / "docs" / "agent.md").read_text(encoding="utf-8")
OPTIONS = [name for action in parser("run")._actions for name in action.option_strings if name.startswith("--")]


@pytest.mark.parametrize("option", [name for name in OPTIONS if name != "--help"])
def test_option_is_on_the_page(option: str) -> None:
    assert f"`{option}" in PAGE


def test_every_metric_is_on_the_page() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AgentMetrics(Counters(), Status, lambda: 0.0))
    lines = generate_latest(registry).decode().splitlines()
    names = {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")}
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for name in names | {family for family in families if not any(known.startswith(family) for known in names)}:
        assert f"`{name.removeprefix('tachograph_agent_')}" in PAGE, name
