"""Pieces packed together hold every event that was in them, and no reader passes one over."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select, update
from tachograph_agent.events import AnyEvent, Heartbeat, RunStart, Step, canonical
from tachograph_collector.store import compact as module
from tachograph_collector.store.compact import Compacted, Compactor
from tachograph_collector.store.database import Database
from tachograph_collector.store.folded import upsert
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.reader import events_after
from tachograph_collector.store.runs import find_run, get_run
from tachograph_collector.store.schema import ledger_states, samples
from tachograph_collector.store.writer import Batch, store

T0 = 1_760_000_400.0
"""The beginning of a stretch of ten minutes."""


def _send(database: Database, name: str, events: Sequence[AnyEvent]) -> RunKey:
    (key,) = store(database, [Batch(1, name, None, None, list(events), [])]).touched
    return key


def _events(database: Database, key: RunKey, seq: int = 0) -> list[str]:
    with database.read() as connection:
        rows = events_after(connection, key, seq, 100_000)
    assert [row.seq for row in rows] == sorted({row.seq for row in rows})
    return [canonical(event) for row in rows for event in row.events]


def _num_pieces(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(samples)).scalar_one()


def _rows(database: Database, key: RunKey, seq: int) -> list[int]:
    with database.read() as connection:
        return [row.seq for row in events_after(connection, key, seq, 100_000)]


def _look_again(database: Database) -> None:
    """As if nothing had been packed yet: these runs lie further back than late events are looked for."""
    with database.write() as connection:
        connection.execute(update(ledger_states).values(compacted_us=None))


def _folded(database: Database, key: RunKey, seq: int | None = None) -> None:
    """As if the run's ledger had been saved as of ``seq``; as of all that is stored, unless told."""
    with database.write() as connection:
        run = get_run(connection, key)
        assert run is not None
        state = {"tenant_id": key.tenant_id, "run_id": key.run_id, "saved_us": 0, "version": "1", "data": b""}
        upsert(connection, ledger_states, [state | {"seq": run.last_seq if seq is None else seq}])


def _compact(database: Database, key: RunKey, seq: int | None = None) -> Compacted:
    _folded(database, key, seq)
    return Compactor(database).work(for_s=60)


def _mixed(database: Database, num: int = 30) -> RunKey:
    """A half hour of two nodes and two attempts, a batch a node and turn, and lifecycle events between."""
    rng = random.Random(7)
    key = None
    for turn in range(num):
        t = T0 + 60 * turn
        for node in ("n1", "n2"):
            place: dict[str, Any] = {"run": "r", "node": node, "attempt": turn // 20}
            events: list[AnyEvent] = [
                Step(t=t + step, rank=rank, step=10 * turn + step, loss=rng.random(), **place)
                for step in range(3)
                for rank in range(2)
            ]
            events.append(Heartbeat(t=t, run="r", node=node, seq=turn))
            if turn % 10 == 0:
                events.append(RunStart(t=t, run="r", gpus=turn))
            key = _send(database, f"{node}/{turn}", events)
    assert key is not None
    return key


def test_every_event_is_there_and_the_pieces_are_few(database: Database) -> None:
    key = _mixed(database)
    before, num_pieces = _events(database, key), _num_pieces(database)
    done = _compact(database, key)
    assert sorted(_events(database, key)) == sorted(before)
    # Two nodes, three stretches: a piece each of steps and of heartbeats (those name no attempt).
    assert (num_pieces, _num_pieces(database)) == (120, 12)
    assert done == Compacted(num_before=120, num_after=12)
    assert _compact(database, key) == Compacted()


def test_what_comes_late_is_packed_to_what_is_packed_already(database: Database) -> None:
    key = _mixed(database)
    _compact(database, key)
    _send(database, "late", [Step(t=T0 + 1.5, run="r", node="n1", attempt=0, step=1)])
    before = _events(database, key)
    _look_again(database)
    assert _compact(database, key) == Compacted(2, 1)
    assert sorted(_events(database, key)) == sorted(before)
    assert _num_pieces(database) == 12


def test_a_run_is_looked_at_once_a_stretch_and_no_more_when_nothing_comes(database: Database) -> None:
    key = _mixed(database)
    _compact(database, key)
    _send(database, "late", [Step(t=T0 + 1.5, run="r", node="n1", attempt=0, step=1)])
    assert _compact(database, key) == Compacted()
    with database.write() as connection:
        connection.execute(update(ledger_states).values(compacted_us=ledger_states.c.compacted_us + 2 * 3_600_000_000))
    assert _compact(database, key) == Compacted()


def test_a_stretch_that_is_not_over_is_left_alone(database: Database) -> None:
    with database.read() as connection:
        now_s = database.now_us(connection) / 1e6
    for turn in range(3):
        key = _send(database, f"{turn}", [Step(t=now_s + 3600 + turn / 1000, run="r", node="n", step=turn)])
    assert _compact(database, key) == Compacted()
    assert _num_pieces(database) == 3


def test_numbers_from_which_a_folder_would_go_on_are_left_alone(database: Database) -> None:
    key = _mixed(database)
    rows_before = _rows(database, key, 100)
    assert _compact(database, key, seq=0) == Compacted()
    _look_again(database)
    _compact(database, key, seq=100)
    assert _rows(database, key, 100) == rows_before


def test_a_run_without_a_saved_ledger_is_left_alone(database: Database) -> None:
    _mixed(database)
    assert Compactor(database).work(for_s=60) == Compacted()
    assert _num_pieces(database) == 120


def test_a_reader_anywhere_before_gets_at_least_what_it_had_not_read(database: Database) -> None:
    key = _mixed(database, num=12)
    with database.read() as connection:
        run = get_run(connection, key)
    assert run is not None
    unread = {seq: _events(database, key, seq) for seq in range(run.last_seq + 1)}
    _compact(database, key)
    for seq, events in unread.items():
        assert set(events) <= set(_events(database, key, seq))
    assert _events(database, key, run.last_seq) == []


def test_work_is_done_in_turns_and_goes_on_where_it_stopped(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECES_AT_ONCE", 30)
    key = _mixed(database)
    before = _events(database, key)
    _folded(database, key)
    compactor = Compactor(database, monotonic_s=lambda: 0.0)
    turns = []
    while not turns or not turns[-1].done:
        turns.append(compactor.work(for_s=0))
    assert (sum(turn.num_before for turn in turns), sum(turn.num_after for turn in turns)) == (120, 12)
    assert len(turns) > 3
    assert sorted(_events(database, key)) == sorted(before)


def test_a_piece_never_holds_more_than_its_bound(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 20)
    key = _mixed(database)
    before = _events(database, key)
    _compact(database, key)
    with database.read() as connection:
        assert connection.execute(select(func.max(samples.c.num))).scalar_one() <= 20
    assert sorted(_events(database, key)) == sorted(before)


def test_a_transaction_that_fails_leaves_every_piece(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _mixed(database)
    before = _events(database, key)
    _folded(database, key)

    def fail(*_: Any) -> Any:
        raise RuntimeError("killed")

    monkeypatch.setattr(module, "heartbeats_row", fail)
    compactor = Compactor(database)
    with pytest.raises(RuntimeError, match="killed"):
        compactor.work(for_s=60)
    assert sorted(_events(database, key)) == sorted(before)
    monkeypatch.undo()
    compactor.work(for_s=60)
    assert sorted(_events(database, key)) == sorted(before)
    assert _num_pieces(database) == 12


def test_collectors_that_pack_at_the_same_time_pack_nothing_twice(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECES_AT_ONCE", 10)
    replicas = [Database(database_url) for _ in range(3)]
    key = _mixed(replicas[0])
    before = _events(replicas[0], key)
    _folded(replicas[0], key)
    together = threading.Barrier(len(replicas))

    def work(database: Database) -> Compacted:
        together.wait()
        return Compactor(database).work(for_s=60)

    with ThreadPoolExecutor(len(replicas)) as pool:
        list(pool.map(work, replicas))
    assert sorted(_events(replicas[0], key)) == sorted(before)
    for replica in replicas:
        replica.close()


def test_batches_that_come_while_pieces_are_packed_are_all_there(database: Database) -> None:
    is_done = threading.Event()
    key = _send(database, "first", [RunStart(t=T0, run="r")])

    def write() -> None:
        for turn in range(40):
            _send(database, f"b{turn}", [Step(t=T0 + turn, run="r", node="n", step=turn)])
        is_done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not is_done.is_set():
            assert not (writing.done() and writing.exception())
            _look_again(database)
            _compact(database, key)
        writing.result()
    _look_again(database)
    _compact(database, key)
    with database.read() as connection:
        run = find_run(connection, 1, "r")
        rows = events_after(connection, key, 0, 1000)
    assert run is not None
    steps = [event.step for row in rows for event in row.events if isinstance(event, Step)]
    assert sorted(steps) == list(range(40))
    assert _num_pieces(database) == 1
