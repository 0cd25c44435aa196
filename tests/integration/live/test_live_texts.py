"""Whatever text an event carries, the run is booked, on both databases."""

from __future__ import annotations

import pytest
from live_runs import Folding, put, run_with_a_failure
from sqlalchemy import select
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import books, checkpoints

ODD = ["\0", "a\0b", "🚂", "x" * 5000]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_run_with_an_odd_text_in_any_field_is_booked(database: Database, odd: str) -> None:
    events = run_with_a_failure(labels={"team": odd, odd[:50]: "x"})
    for event in events:
        if event["kind"] == "failure":
            event |= {"category": odd, "detail": odd, "node": odd}
        if event["kind"].startswith("checkpoint"):
            event["tier"] = odd
    last = events[-1]["t"]
    events += [
        {"kind": "checkpoint.persisted", "t": last, "run": "llama-1", "attempt": 1, "step": 100, "tier": odd},
        {"kind": "rollback", "t": last, "run": "llama-1", "attempt": 1, "to_step": 1, "reason": odd},
        {"kind": "phase", "t": last, "run": "llama-1", "attempt": 1, "name": odd, "dur": 1.0},
    ]
    put(database, events)
    Folding(database).fold()
    with database.read() as connection:
        assert connection.execute(select(books.c.name)).scalars().all() == ["llama-1"]
        assert len(connection.execute(select(checkpoints)).all()) > 10
