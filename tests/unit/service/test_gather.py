"""Batches that wait are stored together; nobody hears of it before, and one that can't be stored is alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest
from tachograph_agent.events import Step
from tachograph_collector.service import gather as module
from tachograph_collector.service.gather import Gather, NotStoredError, StoppingError
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.writer import Batch, Outcome, Stored


class Store:
    """Stores in memory, one transaction at a time, when it is let."""

    def __init__(self) -> None:
        self.transactions: list[list[str]] = []
        self.may_commit = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.refuses: set[str] = set()
        self.is_away = False

    def __call__(self, _database: Database, batches: Sequence[Batch]) -> Stored:
        self.begun.release()
        assert self.may_commit.acquire(timeout=30)
        names = [batch.batch_id for batch in batches]
        if self.is_away:
            raise StoreUnavailableError("away", 7.0)
        if self.refuses & set(names):
            raise ValueError("a value that no column takes\n[SQL: ...]")
        self.transactions.append(names)
        outcomes = [Outcome(accepted=1, rejected=0, duplicate=False, reasons=[]) for _ in names]
        return Stored(outcomes=outcomes, touched={RunKey(1, len(names))})


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(module, "store", made)
    return made


@pytest.fixture
def woken() -> list[RunKey]:
    return []


@pytest.fixture
def gather(store: Store, woken: list[RunKey]) -> Iterator[Gather]:
    made = Gather(cast("Database", None), woken.extend)
    made.start()
    yield made
    store.may_commit.release(1000)
    made.stop(30)
    assert not made.is_alive


def batch(name: str) -> Batch:
    return Batch(tenant_id=1, batch_id=name, agent=None, origin="live", events=[], rejected=[], num_rejected=0)


async def begun(store: Store) -> None:
    """Wait until a transaction has begun."""
    assert await asyncio.to_thread(store.begun.acquire, timeout=30)


def run(work: Callable[[], Any]) -> Any:
    return asyncio.run(work())


def test_what_waits_while_one_is_committed_is_one_transaction(
    gather: Gather, store: Store, woken: list[RunKey]
) -> None:
    async def work() -> None:
        first = asyncio.create_task(gather.put(batch("a")))
        await begun(store)
        others = [asyncio.create_task(gather.put(batch(name))) for name in "bcd"]
        await asyncio.sleep(0)
        assert not first.done()
        store.may_commit.release(2)
        await asyncio.gather(first, *others)

    run(work)
    gather.stop(30)  # whoever folds is woken after the answers
    assert store.transactions == [["a"], ["b", "c", "d"]]
    assert woken == [RunKey(1, 1), RunKey(1, 3)]


def test_what_comes_soon_after_a_transaction_waits_for_company_but_not_once_there_is_much(
    gather: Gather, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.may_commit.release(10)

    async def work() -> None:
        await gather.put(batch("a"))
        monkeypatch.setattr(module, "FOLLOWS_AFTER_S", 3600.0)
        monkeypatch.setattr(module, "ENOUGH_EVENTS", 1)
        few = [asyncio.create_task(gather.put(batch(name))) for name in "bc"]
        await asyncio.sleep(0)
        large = batch("d")
        large.events.append(Step(t=1.0, run="r", step=1))
        await asyncio.gather(*few, gather.put(large))

    run(work)
    assert store.transactions == [["a"], ["b", "c", "d"]]


def test_one_that_the_database_refuses_is_refused_alone(gather: Gather, store: Store) -> None:
    store.refuses = {"bad"}

    async def work() -> list[Any]:
        first = asyncio.create_task(gather.put(batch("a")))
        await begun(store)
        others = [asyncio.create_task(gather.put(batch(name))) for name in ("b", "bad", "c")]
        await asyncio.sleep(0)
        store.may_commit.release(10)
        return await asyncio.gather(first, *others, return_exceptions=True)

    told = run(work)
    assert [type(each) for each in told] == [Outcome, Outcome, NotStoredError, Outcome]
    assert "[SQL" not in str(told[2])
    assert store.transactions == [["a"], ["b"], ["c"]]


def test_a_database_that_is_away_is_told_to_all_and_the_next_batch_is_tried_anew(gather: Gather, store: Store) -> None:
    store.is_away = True
    store.may_commit.release(1)
    with pytest.raises(StoreUnavailableError):
        run(lambda: gather.put(batch("a")))
    assert gather.problem == "away"
    store.is_away = False
    store.may_commit.release(1)
    assert run(lambda: gather.put(batch("a"))).accepted == 1
    assert gather.problem is None


def test_a_database_that_hangs_is_answered_in_time_and_what_nobody_waits_for_is_let_go(
    gather: Gather, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> list[Any]:
        taken = [asyncio.create_task(gather.put(batch("a")))]
        await begun(store)
        taken.append(asyncio.create_task(gather.put(batch("b"))))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        now_s = loop.time
        monkeypatch.setattr(loop, "time", lambda: now_s() + module.ANSWER_WITHIN_S)
        return await asyncio.gather(*taken, return_exceptions=True)

    assert [type(each) for each in run(work)] == [StoreUnavailableError] * 2
    store.may_commit.release(10)
    assert run(lambda: gather.put(batch("c"))).accepted == 1
    assert store.transactions == [["a"], ["c"]]


def test_at_the_end_what_was_taken_is_stored_and_nothing_new_is_taken(gather: Gather, store: Store) -> None:
    async def work() -> None:
        taken = [asyncio.create_task(gather.put(batch(name))) for name in "abc"]
        await begun(store)
        stopping = asyncio.create_task(asyncio.to_thread(gather.stop, 30.0))
        while not gather.is_stopping:
            await asyncio.sleep(0)
        with pytest.raises(StoppingError):
            await gather.put(batch("late"))
        store.may_commit.release(10)
        await asyncio.gather(stopping, *taken)

    run(work)
    assert sorted(name for names in store.transactions for name in names) == ["a", "b", "c"]
