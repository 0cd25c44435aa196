"""Pruning takes what is old enough and no ledger asks for any more, writes down what it took, and touches no book."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from tachograph_agent.events import Heartbeat, RunStart, Step
from tachograph_collector.store import incident_tables, schema
from tachograph_collector.store.database import Database, StoreError
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.partitions import WEEK_US, partition, partitions
from tachograph_collector.store.prune import DAY_US, PruneReport, Retention, prune
from tachograph_collector.store.prunings import pruned_before, prunings_of
from tachograph_collector.store.reader import PrunedError, StoredSteps, events_after
from tachograph_collector.store.writer import Batch, RejectedLine, store

EVERYTHING = Retention(
    steps_us=30 * DAY_US,
    heartbeats_us=30 * DAY_US,
    events_us=30 * DAY_US,
    batches_us=30 * DAY_US,
    rejected_us=30 * DAY_US,
)


def _run(database: Database, name: str, age_days: int, status: str = "completed", *, folded: bool = True) -> RunKey:
    """A run of three rows that came in ``age_days`` ago, and its book."""
    batch = Batch(
        tenant_id=1,
        batch_id=f"{name}/{age_days}",
        agent=None,
        origin=None,
        events=[
            RunStart(t=1e9, run=name),
            *(Step(t=1e9 + step, run=name, step=step) for step in range(1, 6)),
            Heartbeat(t=1e9, run=name, node="n"),
        ],
        rejected=[RejectedLine(1, "bad", b"x")],
    )
    (key,) = store(database, [batch]).touched
    mine = {"tenant_id": key.tenant_id, "run_id": key.run_id}
    with database.write() as connection:
        at_us = database.now_us(connection) - age_days * DAY_US
        for table in (schema.events, schema.samples):
            where = (table.c.run_id == key.run_id) & (table.c.tenant_id == key.tenant_id)
            connection.execute(update(table).where(where).values(received_us=at_us))
        connection.execute(
            update(schema.runs)
            .where(schema.runs.c.run_id == key.run_id)
            .values(first_received_us=at_us, last_received_us=at_us)
        )
        for other in (schema.batches, schema.rejected):
            connection.execute(update(other).where(other.c.batch_id == batch.batch_id).values(received_us=at_us))
        if folded:
            connection.execute(
                insert(schema.leases).values(**mine, fence=1, until_us=0, folded_seq=3, folded_until_us=0)
            )
            connection.execute(
                insert(schema.ledger_states).values(**mine, seq=3, saved_us=0, version="1", data=b"state")
            )
        connection.execute(insert(schema.books).values(**_book(name, status), **mine))
    return key


def _book(name: str, status: str) -> dict[str, Any]:
    whole = dict.fromkeys(
        ("folded_seq", "now_us", "version", "start_us", "end_us", "wall_us", "kept_us", "checkpoint_us", "lost_us"), 1
    )
    more = dict.fromkeys(("restart_us", "num_attempts", "num_failures", "steps", "revision", "generation"), 1)
    return whole | more | {"name": name, "origin": "live", "status": status, "data": "{}", "anomalies": "[]"}


def _left(database: Database, key: RunKey) -> list[str]:
    with database.read() as connection:
        rows = events_after(connection, key, 0)
    return sorted(row.events[0].kind for row in rows)


def _count(database: Database, table: Any) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_what_is_old_of_a_run_that_is_over_is_taken_and_noted(database: Database) -> None:
    old, young = _run(database, "old", 40), _run(database, "young", 20)
    report = prune(database, EVERYTHING)
    assert report == PruneReport({"step": 1, "heartbeat": 1, "event": 1, "batch": 1, "rejected": 1}, [], 0)
    assert _left(database, old) == []
    assert _left(database, young) == ["heartbeat", "run.start", "step"]
    with database.read() as connection:
        assert [each.kind for each in prunings_of(connection, old)] == ["event", "heartbeat", "step"]
        assert prunings_of(connection, young) == []
    assert not any(prune(database, EVERYTHING).num_rows.values())


def test_books_are_not_touched_by_any_retention(database: Database) -> None:
    _run(database, "old", 400)
    prune(database, EVERYTHING)
    assert _count(database, schema.books) == 1
    assert _count(database, schema.runs) == 1
    assert _count(database, schema.ledger_states) == 1


def test_incidents_stay_and_what_detectors_would_go_on_from_goes_where_nothing_goes_on(database: Database) -> None:
    over, running = _run(database, "over", 40), _run(database, "running", 40, "running")
    saved = {"seq": 3, "saved_us": 1, "version": "1", "data": b""}
    flagged = {
        "incident_id": "i", "origin": "live", "detector": "hang", "subject": "run", "severity": "critical",
        "opened_us": 1, "found_us": 1, "updated_us": 1, "summary": "it hangs", "evidence": {}, "changed_us": 1,
    }  # fmt: skip
    with database.write() as connection:
        for key in (over, running):
            mine = {"tenant_id": key.tenant_id, "run_id": key.run_id}
            connection.execute(insert(incident_tables.detector_states).values(**mine, **saved))
            connection.execute(insert(incident_tables.incidents).values(**mine, **flagged))
    prune(database, EVERYTHING)
    with database.read() as connection:
        assert connection.execute(select(incident_tables.detector_states.c.run_id)).scalars().all() == [running.run_id]
        assert len(connection.execute(select(incident_tables.incidents.c.run_id)).all()) == 2


def test_each_kind_has_its_own_retention_and_for_ever_is_the_default(database: Database) -> None:
    key = _run(database, "old", 400)
    assert prune(database, Retention()) == PruneReport()
    prune(database, Retention(steps_us=30 * DAY_US, heartbeats_us=500 * DAY_US))
    assert _left(database, key) == ["heartbeat", "run.start"]
    assert (_count(database, schema.batches), _count(database, schema.rejected)) == (1, 1)


def test_a_run_that_is_running_keeps_all_but_the_heartbeats_that_were_folded(database: Database) -> None:
    key = _run(database, "running", 400, status="running")
    report = prune(database, EVERYTHING)
    assert _left(database, key) == ["run.start", "step"]
    assert report.num_runs_kept == 1


def test_a_run_that_is_not_folded_to_its_end_keeps_all(database: Database) -> None:
    key = _run(database, "behind", 400, folded=False)
    report = prune(database, EVERYTHING)
    assert _left(database, key) == ["heartbeat", "run.start", "step"]
    assert report.num_runs_kept == 1


def test_a_ledger_that_asks_for_what_was_pruned_is_told_so(database: Database) -> None:
    key = _run(database, "old", 40)
    assert len(list(StoredSteps(database, key).read("old", 0))) == 5
    prune(database, EVERYTHING)
    with database.read() as connection:
        before_us = pruned_before(connection, key, "step")
    assert before_us is not None
    with pytest.raises(PrunedError, match=r"'old'.*were pruned"):
        list(StoredSteps(database, key).read("old", 0))
    assert list(StoredSteps(database, key).read("old", before_us)) == []


def test_many_rows_are_taken_in_turns(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _run(database, "old", 40)
    monkeypatch.setattr("tachograph_collector.store.prune.ROWS_AT_ONCE", 1)
    with database.write() as connection:
        rows = [row._asdict() for row in connection.execute(select(schema.samples))]
        connection.execute(insert(schema.samples), [row | {"seq": 10 + turn} for turn in range(5) for row in rows[:1]])
    report = prune(database, EVERYTHING)
    assert report.num_rows["step"] + report.num_rows["heartbeat"] == 7
    assert _left(database, key) == []


def test_what_comes_late_to_a_pruned_run_is_taken_in_its_time(database: Database) -> None:
    key = _run(database, "old", 40)
    prune(database, EVERYTHING)
    store(database, [Batch(1, "late", None, None, [Step(t=1e9, run="old", step=9)], [])])
    with database.write() as connection:
        connection.execute(update(schema.leases).values(folded_seq=4))
    prune(database, EVERYTHING)
    assert _left(database, key) == ["step"]
    with database.write() as connection:
        aged_us = database.now_us(connection) - 31 * DAY_US
        connection.execute(update(schema.samples).values(received_us=aged_us))
        connection.execute(update(schema.prunings).values(before_us=aged_us - DAY_US))
    assert prune(database, EVERYTHING).num_rows["step"] == 1
    assert _left(database, key) == []


@pytest.mark.parametrize("kind", ["steps_us", "batches_us"])
def test_less_than_a_week_is_refused(kind: str) -> None:
    with pytest.raises(StoreError, match="expected at least 7"):
        Retention(**{kind: DAY_US})


def test_a_week_of_old_rows_is_dropped_whole_and_a_week_with_others_is_not(postgresql_url: str) -> None:
    database = Database(postgresql_url)
    keys = [_run(database, "over", 60), _run(database, "over-2", 100), _run(database, "running", 100, "running")]
    with database.write() as connection:
        weeks = []
        for key in keys[:2]:
            rows = [row._asdict() for row in connection.execute(select(schema.samples).filter_by(run_id=key.run_id))]
            connection.execute(schema.samples.delete().where(schema.samples.c.run_id == key.run_id))
            week = partition("samples", rows[0]["received_us"] // WEEK_US)
            weeks.append(week.name)
            if key == keys[1]:  # the third run's rows lie in the same week
                theirs = connection.execute(select(schema.samples).filter_by(run_id=keys[2].run_id)).all()
                rows += [row._asdict() for row in theirs]
                connection.execute(schema.samples.delete().where(schema.samples.c.run_id == keys[2].run_id))
            connection.exec_driver_sql(
                f"CREATE TABLE {week.name} PARTITION OF samples FOR VALUES FROM ({week.start_us}) TO ({week.end_us})"
            )
            connection.execute(insert(schema.samples), rows)
    report = prune(database, EVERYTHING)
    assert report.partitions == [weeks[0]]
    with database.read() as connection:
        assert weeks[1] in {each.name for each in partitions(connection)}
        assert {each.kind for each in prunings_of(connection, keys[0])} == {"step", "heartbeat", "event"}
    assert [_left(database, key) for key in keys] == [[], [], ["run.start", "step"]]
    database.close()
