"""``world``: collectors over one fresh database, on a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ledger_oracle.build import T0_US
from live_world import World


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """One collector, at second 0 of a test's log."""
    made = World(database_url, T0_US)
    yield made
    made.close()
