"""Batches are stored once, numbered without a gap, readable back exactly, on both databases."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import databases
import pytest
from sqlalchemy import func, select
from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    Failure,
    Heartbeat,
    RunStart,
    Step,
    canonical,
    decode,
    microseconds,
)
from tachograph_collector.store import schema
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.reader import StoredSteps, events_after, step_columns_of
from tachograph_collector.store.runs import find_run, get_run, list_runs
from tachograph_collector.store.tokens import tenant_named
from tachograph_collector.store.writer import Batch, Outcome, RejectedLine, store

T0 = 1_760_000_000.0


def _steps(run: str = "atlas", first: int = 1, num: int = 3, **fields: Any) -> list[AnyEvent]:
    return [Step(t=T0 + 4 * step, run=run, step=step, dur=4.0, **fields) for step in range(first, first + num)]


def _batch(batch_id: str, events: Sequence[AnyEvent], **fields: Any) -> Batch:
    told: dict[str, Any] = {"tenant_id": 1, "agent": "node-1/0.1.0", "origin": None, "rejected": []}
    return Batch(batch_id=batch_id, events=list(events), **(told | fields))


def _key(database: Database, run: str = "atlas", tenant: int = 1) -> RunKey:
    with database.read() as connection:
        found = find_run(connection, tenant, run)
    assert found is not None
    return found.key


def _read(database: Database, key: RunKey, limit_rows: int = 1000) -> list[AnyEvent]:
    """Every event of the run in the order of its numbers, a few rows at a time."""
    events: list[AnyEvent] = []
    seq = 0
    while True:
        with database.read() as connection:
            rows = events_after(connection, key, seq, limit_rows)
        if not rows:
            return events
        events += [event for row in rows for event in row.events]
        seq = rows[-1].seq


def _told(events: Sequence[AnyEvent]) -> list[str]:
    return sorted(map(canonical, events))


def test_what_is_stored_is_read_back_exactly_and_numbered_from_one(database: Database) -> None:
    lines = [
        '{"kind":"run.start","t":1760000000,"run":"atlas","gpus":8,"labels":{"team":"a"},"colour":"red"}',
        '{"kind":"attempt.start","t":1760000001,"run":"atlas","attempt":"a-1","resume_step":0}',
        '{"kind":"step","t":1760000004.5,"run":"atlas","attempt":"a-1","node":"n1","rank":0,"step":1,"loss":NaN,"x":[1]}',
        '{"kind":"step","t":1760000008.5,"run":"atlas","attempt":"a-1","node":"n1","rank":0,"step":2,"loss":2.5}',
        '{"kind":"step","t":1760000008.5,"run":"atlas","attempt":"a-1","node":"n2","rank":1,"step":2}',
        '{"kind":"heartbeat","t":1760000009,"run":"atlas","node":"n1","seq":7,"interval_s":5}',
        '{"kind":"lunch","t":1760000010,"run":"atlas","menu":{"soup":"\\u0000\\ud83c\\udf5c"},"big":123456789012345678901}',
        '{"kind":"failure","t":1760000011,"run":"atlas","category":"gpu","detail":"NUL \\u0000 within"}',
    ]
    events = [decode(line) for line in lines]
    stored = store(database, [_batch("b1", events)])
    assert stored.outcomes == [Outcome(accepted=8, rejected=0, duplicate=False, reasons=[])]
    key = _key(database)
    assert stored.touched == {key}
    assert _told(_read(database, key)) == _told(events)
    assert _told(_read(database, key, limit_rows=1)) == _told(events)
    with database.read() as connection:
        rows = events_after(connection, key, 0)
        run = get_run(connection, key)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert run is not None
    assert (run.last_seq, run.name, run.origin) == (len(rows), "atlas", "live")
    assert run.delay_us == run.last_received_us - 1_760_000_011_000_000


def test_steps_of_one_place_share_a_row_whatever_batch_they_came_in(database: Database) -> None:
    store(database, [_batch("a", _steps(node="n1")), _batch("b", _steps(first=4, node="n1"))])
    with database.read() as connection:
        (row,) = connection.execute(select(schema.samples)).all()
    assert (row.num, row.min_step, row.max_step, row.first_seq, row.seq) == (6, 1, 6, 1, 1)
    assert (row.start_us, row.end_us) == (microseconds(T0 + 4), microseconds(T0 + 24))


def test_attempts_that_differ_in_type_only_come_back_as_they_were(database: Database) -> None:
    events = [*_steps(attempt=3), *_steps(attempt="3")]
    store(database, [_batch("a", events)])
    assert _told(_read(database, _key(database))) == _told(events)


def test_a_batch_sent_twice_is_stored_once_and_told_as_before(database: Database) -> None:
    bad = RejectedLine(2, "no JSON", b"garbage")
    batch = _batch("twice", _steps(), rejected=[bad])
    first = store(database, [batch])
    again = store(database, [batch])
    assert first.outcomes == [Outcome(3, 1, duplicate=False, reasons=["line 2: no JSON"])]
    assert again.outcomes == [Outcome(3, 1, duplicate=True, reasons=["line 2: no JSON"])]
    assert again.touched == set()
    assert len(_read(database, _key(database))) == 3


def test_a_batch_that_waits_beside_itself_is_stored_once(database: Database) -> None:
    batch = _batch("twice", _steps())
    stored = store(database, [batch, _batch("other", _steps(first=4)), batch])
    assert [each.duplicate for each in stored.outcomes] == [False, False, True]
    assert len(_read(database, _key(database))) == 6


def test_batches_of_one_name_are_two_under_two_tenants(database: Database) -> None:
    with database.write() as connection:
        other = tenant_named(connection, "other", create=True)
    stored = store(database, [_batch("same", _steps()), _batch("same", _steps(num=2), tenant_id=other)])
    assert [each.duplicate for each in stored.outcomes] == [False, False]
    assert len(_read(database, _key(database))) == 3
    assert len(_read(database, _key(database, tenant=other))) == 2


def test_a_batch_that_arrives_at_two_collectors_at_once_is_stored_once(database_url: str) -> None:
    replicas = [Database(database_url) for _ in range(3)]
    batches = [_batch(f"b{number}", _steps(first=1 + 3 * number)) for number in range(12)]
    together = threading.Barrier(len(replicas))

    def send(number: int) -> list[Outcome]:
        together.wait()
        order = batches[number:] + batches[:number]
        outcomes = []
        for start in range(0, len(order), 3):
            outcomes += store(replicas[number], order[start : start + 3]).outcomes
        return outcomes

    with ThreadPoolExecutor(len(replicas)) as pool:
        answers = [outcome for found in pool.map(send, range(len(replicas))) for outcome in found]
    assert sum(not outcome.duplicate for outcome in answers) == len(batches)
    steps = [event.step for event in _read(replicas[0], _key(replicas[0])) if isinstance(event, Step)]
    assert sorted(steps) == list(range(1, 37))
    for replica in replicas:
        replica.close()


def test_a_reader_that_goes_on_from_the_last_number_passes_nothing_over(database_url: str) -> None:
    writers = [Database(database_url) for _ in range(3)]
    reading = Database(database_url)
    store(writers[0], [_batch("first", [RunStart(t=T0, run="atlas")])])
    key = _key(reading)
    num_batches = 20

    def write(number: int) -> None:
        for index in range(num_batches):
            first = 1 + 2 * (number * num_batches + index)
            store(writers[number], [_batch(f"{number}/{index}", _steps(first=first, num=2, node=f"n{number}"))])

    seen: list[int] = []
    steps: list[int] = []
    with ThreadPoolExecutor(len(writers)) as pool:
        writing = [pool.submit(write, number) for number in range(len(writers))]
        is_last_look = False
        while True:
            with reading.read() as connection:
                rows = events_after(connection, key, seen[-1] if seen else 0, 7)
            seen += [row.seq for row in rows]
            steps += [event.step for row in rows for event in row.events if isinstance(event, Step)]
            if not rows and is_last_look:
                break
            is_last_look = all(each.done() for each in writing)
        for each in writing:
            each.result()
    assert seen == list(range(1, len(seen) + 1))
    assert sorted(steps) == list(range(1, 2 * 3 * num_batches + 1))
    for each_database in (*writers, reading):
        each_database.close()


def test_writers_of_the_same_new_runs_in_any_order_all_succeed(database_url: str) -> None:
    replicas = [Database(database_url) for _ in range(3)]
    names = [f"run-{number}" for number in range(8)]
    together = threading.Barrier(len(replicas))

    def write(number: int) -> None:
        together.wait()
        for turn in range(4):
            order = names[number + turn :] + names[: number + turn]
            store(
                replicas[number],
                [_batch(f"{number}/{turn}/{name}", [Step(t=T0, run=name, rank=number, step=turn)]) for name in order],
            )

    with ThreadPoolExecutor(len(replicas)) as pool:
        list(pool.map(write, range(len(replicas))))
    with replicas[0].read() as connection:
        found = list_runs(connection, 1)
    assert [run.name for run in found] == names
    for run in found:
        assert len(_read(replicas[0], run.key)) == 12
    for replica in replicas:
        replica.close()


@pytest.mark.parametrize(
    "name", ["a/b?c#2", "<script>alert(1)</script>", "'; DROP TABLE runs; --", "ünï\t\n ✓🚂", "x" * 500]
)
def test_a_run_may_have_any_name_that_is_text(database: Database, name: str) -> None:
    store(database, [_batch("a", _steps(run=name))])
    assert len(_read(database, _key(database, name))) == 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "'run' is missing"), ("a\x00b", "NUL"), ("a\ud800", "half a character"), ("y" * 501, "501 characters")],
)
def test_a_run_that_no_database_can_name_costs_only_its_own_events(database: Database, name: str, reason: str) -> None:
    stored = store(database, [_batch("a", [*_steps(), *_steps(run=name)])])
    (outcome,) = stored.outcomes
    assert (outcome.accepted, outcome.rejected) == (3, 3)
    assert reason in outcome.reasons[0]
    assert len(_read(database, _key(database))) == 3
    with database.read() as connection:
        kept = connection.execute(select(schema.rejected.c.reason)).scalars().all()
    assert len(kept) == 3
    assert reason in kept[0]


def test_an_event_nested_so_deep_that_it_might_not_be_read_again_is_rejected(database: Database) -> None:
    deep = decode('{"kind":"odd","t":1,"run":"atlas","x":' + "[" * 200 + "]" * 200 + "}")
    (outcome,) = store(database, [_batch("a", [deep, *_steps()])]).outcomes
    assert (outcome.accepted, outcome.rejected) == (3, 1)
    assert "nested" in outcome.reasons[0]


@pytest.mark.parametrize("t", [0.0, 1e-6, 253_402_300_799.999])
def test_times_from_1970_to_9999_are_kept(database: Database, t: float) -> None:
    events: list[AnyEvent] = [Step(t=t, run="atlas", step=2**63 - 1, rank=2**63 - 1), Failure(t=t, run="atlas")]
    store(database, [_batch("a", events)])
    assert _told(_read(database, _key(database))) == _told(events)


def test_texts_that_a_column_can_not_hold_stand_unchanged_in_the_event(database: Database) -> None:
    events: list[AnyEvent] = [
        Failure(t=T0, run="atlas", node="n\x00", attempt="\x00" * 3, detail="\x00"),
        Step(t=T0, run="atlas", node="n\x00" + "long" * 400, attempt=10**40, step=1),
        Heartbeat(t=T0, run="atlas", node="\x00", ranks_alive=[0, 10**30]),
    ]
    store(database, [_batch("b\x00" + "x" * 300, events, agent="a\x00")])
    assert _told(_read(database, _key(database))) == _told(events)
    (again,) = store(database, [_batch("b\x00" + "x" * 300, events)]).outcomes
    assert again.duplicate


def test_rejected_lines_are_kept_with_their_reason(database: Database) -> None:
    lines = [RejectedLine(number, f"bad \x00 {number}", b"\xff" * 5000) for number in range(1, 9)]
    (outcome,) = store(database, [_batch("a", [], rejected=lines, num_rejected=2000)]).outcomes
    assert (outcome.accepted, outcome.rejected, len(outcome.reasons)) == (0, 2000, 5)
    with database.read() as connection:
        rows = connection.execute(select(schema.rejected).order_by(schema.rejected.c.line_number)).all()
    assert [(row.line_number, row.batch_id, len(row.line)) for row in rows] == [(n, "a", 4096) for n in range(1, 9)]


@pytest.mark.parametrize("by", ["request", "event"])
def test_a_replay_is_marked_as_one_and_stays_one(database: Database, by: str) -> None:
    start = RunStart(t=T0, run="atlas", origin="replay" if by == "event" else None)
    store(database, [_batch("a", _steps())])
    store(database, [_batch("b", [start], origin="replay" if by == "request" else None)])
    store(database, [_batch("c", _steps(first=9))])
    with database.read() as connection:
        run = find_run(connection, 1, "atlas")
    assert run is not None
    assert run.origin == "replay"


def test_the_ledger_gets_the_steps_since_a_time_up_to_what_it_was_fed(database: Database) -> None:
    store(database, [_batch("a", [AttemptStart(t=T0, run="atlas"), *_steps(num=5)])])
    store(database, [_batch("b", _steps(first=6, num=5))])
    key = _key(database)
    steps = StoredSteps(database, key)
    since_us = microseconds(T0 + 12)
    assert sorted(event.step for event in steps.read("atlas#2", since_us) if isinstance(event, Step)) == list(
        range(3, 11)
    )
    steps.until_seq = 2
    assert sorted(event.step for event in steps.read("atlas", since_us) if isinstance(event, Step)) == [3, 4, 5]


def test_columns_of_a_window_are_read_by_node_and_attempt(database: Database) -> None:
    events = [*_steps(node="n1", attempt=0, rank=0), *_steps(node="n2", attempt=0, rank=1)]
    store(database, [_batch("a", events)])
    store(database, [_batch("b", _steps(node="n1", attempt=1, first=100))])
    key = _key(database)
    with database.read() as connection:
        everything = list(step_columns_of(connection, key))
        window = list(step_columns_of(connection, key, microseconds(T0 + 100), microseconds(T0 + 500)))
        one = list(step_columns_of(connection, key, node="n2", attempt="0"))
    assert sum(len(columns) for _, _, columns in everything) == 9
    assert [(attempt, node, columns.step.tolist()) for attempt, node, columns in window] == [
        ("1", "n1", [100, 101, 102])
    ]
    assert [(attempt, node, columns.rank.tolist()) for attempt, node, columns in one] == [("0", "n2", [1, 1, 1])]


def test_a_database_that_dies_while_it_stores_is_told_as_away_and_has_all_or_nothing() -> None:
    server = databases.PostgreSQLServer()
    try:
        server.start()
        database = Database(server.new_database())
        store(database, [_batch("before", _steps())])
        numbers: list[int] = []

        def write() -> None:
            for number in range(100_000):
                batch = _batch(f"b{number}", [Step(t=T0, run="atlas", node=f"n{n}", step=number) for n in range(20)])
                store(database, [batch])
                numbers.append(number)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while len(numbers) < 5:
                assert not writing.done(), writing.exception()
            server.stop(signal.SIGKILL)
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                writing.result()
        server.start()
        found = Counter(
            event.step for event in _read(database, _key(database)) if isinstance(event, Step) and event.node
        )
        assert set(found.values()) == {20}
        assert set(numbers) <= set(found)
        assert len(found) <= len(numbers) + 1
        (again,) = store(database, [_batch("before", _steps())]).outcomes
        assert again.duplicate
        database.close()
    finally:
        server.close()


def test_a_transaction_that_another_one_deadlocked_is_tried_again(postgresql_url: str) -> None:
    database = Database(postgresql_url)
    store(database, [_batch("0", [*_steps(run="a"), *_steps(run="b")])])
    with database.write() as connection:
        # Whoever waits looks for a deadlock once, after this time: by then the other one must wait, too.
        name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
        connection.exec_driver_sql(f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '5s'")
    database.close()  # connections made from now on have it
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        """Lock the runs the other way round, so that the two wait for each other."""
        with database.write() as connection:
            connection.exec_driver_sql("SET LOCAL deadlock_timeout = '1min'")  # so that the other one is given up
            for name in ("b", "a"):
                connection.execute(select(schema.runs).where(schema.runs.c.name == name).with_for_update())
                if not is_held.is_set():
                    is_held.set()
                    may_go_on.wait()

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(hold)
        is_held.wait()
        storing = pool.submit(store, database, [_batch("1", [*_steps(run="a"), *_steps(run="b")])])
        while True:  # until it waits for b, with a in its hands
            with database.read() as connection:
                query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                if connection.exec_driver_sql(query).scalar():
                    break
        may_go_on.set()
        holding.result()
        assert [outcome.duplicate for outcome in storing.result().outcomes] == [False]
    with database.read() as connection:
        assert connection.execute(select(func.sum(schema.samples.c.num))).scalar() == 12
    database.close()
