"""``read`` asks the ledger, and the oracle too: both must give the numbers that a test worked out by hand."""

from __future__ import annotations

import pytest
from ledger_oracle.answers import Answer, Read, Reading, ledger_answers, oracle_answers
from ledger_oracle.build import T0_US, Log


@pytest.fixture(params=[ledger_answers, oracle_answers], ids=["ledger", "oracle"])
def reading(request: pytest.FixtureRequest) -> Reading:
    """All runs of a list of events."""
    found: Reading = request.param
    return found


@pytest.fixture
def read(reading: Reading) -> Read:
    """One run of a log; ``now`` in seconds after ``T0``."""

    def ask(log: Log, now: float | None = None, run: str | None = None) -> Answer:
        answers = reading(log.events, None if now is None else T0_US + round(now * 1e6))
        return answers[run or log.run]

    return ask
