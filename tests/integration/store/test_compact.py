"""Pieces packed together hold every event that was in them, and no reader passes one over."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select
from tachograph_agent.events import AnyEvent, Heartbeat, RunStart, Step, canonical, microseconds
from tachograph_collector.store import compact as module
from tachograph_collector.store.compact import Compacted, compact
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.reader import events_after
from tachograph_collector.store.runs import find_run, get_run
from tachograph_collector.store.schema import samples
from tachograph_collector.store.writer import Batch, store

T0 = 1_760_000_400.0
"""The beginning of a stretch of ten minutes."""
LATER_US = microseconds(T0) + 86_400_000_000


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


def _last_seq(database: Database, key: RunKey) -> int:
    with database.read() as connection:
        run = get_run(connection, key)
    assert run is not None
    return run.last_seq


def _compact(database: Database, key: RunKey, until_us: int = LATER_US, until_seq: int | None = None) -> Compacted:
    until_seq = _last_seq(database, key) if until_seq is None else until_seq
    with database.write() as connection:
        return compact(connection, key, until_seq, until_us)


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
    assert done == Compacted(num_before=120, num_after=12, more=False)
    assert _compact(database, key) == Compacted(0, 0, more=False)


def test_what_comes_late_is_packed_to_what_is_packed_already(database: Database) -> None:
    key = _mixed(database)
    _compact(database, key)
    _send(database, "late", [Step(t=T0 + 1.5, run="r", node="n1", attempt=0, step=1)])
    before = _events(database, key)
    assert _compact(database, key) == Compacted(2, 1, more=False)
    assert sorted(_events(database, key)) == sorted(before)
    assert _num_pieces(database) == 12


def test_only_stretches_that_are_over_and_numbers_that_were_folded_are_packed(database: Database) -> None:
    key = _mixed(database)
    num_pieces = _num_pieces(database)
    assert _compact(database, key, until_us=microseconds(T0) + 599_000_000).num_before == 0
    assert _compact(database, key, until_seq=3).num_before == 0
    assert _num_pieces(database) == num_pieces
    assert _compact(database, key, until_us=microseconds(T0) + 600_000_000).num_before == 40


def test_a_reader_anywhere_before_gets_at_least_what_it_had_not_read(database: Database) -> None:
    key = _mixed(database, num=12)
    last = _last_seq(database, key)
    unread = {seq: _events(database, key, seq) for seq in range(last + 1)}
    _compact(database, key)
    for seq, events in unread.items():
        assert set(events) <= set(_events(database, key, seq))
    assert _events(database, key, last) == []


def test_a_call_takes_so_much_and_says_that_there_is_more(database: Database) -> None:
    key = _mixed(database)
    before = _events(database, key)
    turns = 0
    while True:
        with database.write() as connection:
            done = compact(connection, key, _last_seq(database, key), LATER_US, max_stretches=5)
        turns += 1
        if not done.more:
            break
    assert (turns, _num_pieces(database)) == (3, 12)
    assert sorted(_events(database, key)) == sorted(before)


def test_a_piece_never_holds_more_than_its_bound(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 20)
    key = _mixed(database)
    before = _events(database, key)
    _compact(database, key)
    with database.read() as connection:
        assert connection.execute(select(func.max(samples.c.num))).scalar_one() <= 20
    assert sorted(_events(database, key)) == sorted(before)


def test_a_transaction_that_is_rolled_back_leaves_every_piece(database: Database) -> None:
    key = _mixed(database)
    before = _events(database, key)

    def be_killed() -> None:
        with database.write() as connection:
            compact(connection, key, 10_000, LATER_US)
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        be_killed()
    assert (_events(database, key), _num_pieces(database)) == (before, 120)


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
            _compact(database, key)
        writing.result()
    _compact(database, key)
    with database.read() as connection:
        run = find_run(connection, 1, "r")
        rows = events_after(connection, key, 0, 1000)
    assert run is not None
    steps = [event.step for row in rows for event in row.events if isinstance(event, Step)]
    assert sorted(steps) == list(range(40))
    assert _num_pieces(database) == 1
