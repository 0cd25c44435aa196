"""The cluster, and a word on what this needs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from cluster import Cluster
from collector_stub import StubCollector


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes with their agents, and a collector; all of it is gone afterwards, however the test ends."""
    if find_spec("torch") is None:
        pytest.fail("the proof trains with PyTorch: run it as 'make test-torch', which installs it")
    collector = StubCollector()
    made = Cluster(tmp_path, collector)
    try:
        for node in ("node-a", "node-b"):
            made.start_agent(node)
        yield made
    finally:
        made.stop()
        collector.go_away()
