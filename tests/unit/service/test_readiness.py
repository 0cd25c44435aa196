"""Ready is who can do its work: which part can't, and why, is said; a ledger that lags is told and ends nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from no_keeper import NoKeeper
from sqlalchemy import insert
from tachograph_collector.live.snapshot import LiveSnapshot, Thresholds
from tachograph_collector.service import readiness as module
from tachograph_collector.service.gather import Gather
from tachograph_collector.service.newruns import NewRuns
from tachograph_collector.service.readiness import Looker
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.state import Service
from tachograph_collector.service.waiting import Waiting
from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError
from tachograph_collector.store.schema import leases, runs


@pytest.fixture
def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 60.0)
    gather = Gather(database, lambda _: None)
    gather.start()
    yield Service(
        settings=Settings(),
        database=database,
        keeper=NoKeeper(),
        identify=cast("Any", None),
        gather=gather,
        waiting=Waiting(1000),
        new_runs=NewRuns(database, 1),
        check_schema=lambda _: None,
    )
    gather.stop(30)


def look(service: Service) -> dict[str, Any]:
    return asyncio.run(Looker(service).readiness()).to_dict()


def store_run(database: Database, *, last_seq: int, folded_seq: int, age_us: int) -> None:
    with database.write() as connection:
        at_us = database.now_us(connection) - age_us
        row = {"tenant_id": 1, "run_id": last_seq, "name": str(last_seq), "last_seq": last_seq}
        connection.execute(insert(runs).values(first_received_us=at_us, last_received_us=at_us, **row))
        lease = {"tenant_id": 1, "run_id": last_seq, "fence": 1, "until_us": 0, "folded_until_us": 0}
        connection.execute(insert(leases).values(folded_seq=folded_seq, **lease))


def test_all_is_well(service: Service) -> None:
    store_run(service.database, last_seq=5, folded_seq=5, age_us=10**9)
    told = look(service)
    assert told["status"] == "ready"
    assert set(told["checks"]) == {"running", "queue", "database", "schema", "ledger"}
    assert told["checks"]["ledger"] == {"ok": True, "runs_behind": 0, "lag_s": 0.0}


def test_thresholds_that_can_not_be_used_are_told_and_do_not_end_the_ingest(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Thresholds("t.toml", 5_000_000, "t.toml: not TOML (...)")
    monkeypatch.setattr(service.keeper, "snapshot", lambda: LiveSnapshot(thresholds=standing))
    told = look(service)
    assert told["status"] == "ready"
    check = told["checks"]["thresholds"]
    assert (check["ok"], check["read_at"]) == (False, 5.0)
    assert "t.toml" not in check["why"]


def test_a_ledger_that_lags_is_told_and_does_not_end_the_ingest(service: Service) -> None:
    store_run(service.database, last_seq=5, folded_seq=4, age_us=60_000_000)
    told = look(service)
    assert told["status"] == "ready"
    assert told["checks"]["ledger"]["ok"] is False
    assert told["checks"]["ledger"]["runs_behind"] == 1
    assert 60 <= told["checks"]["ledger"]["lag_s"] < 600


def test_a_queue_that_is_full_is_not_ready(service: Service) -> None:
    service.waiting.change(950)
    told = look(service)
    assert (told["status"], told["checks"]["queue"]["waiting_bytes"]) == ("not ready", 950)


def test_a_schema_that_is_another_is_not_ready_and_no_host_is_told(service: Service) -> None:
    def other(_: Database) -> None:
        raise StoreError("postgresql://secret-host/x is at another schema")

    service.check_schema = other
    told = look(service)
    assert (told["status"], told["checks"]["schema"]["ok"]) == ("not ready", False)
    assert "secret-host" not in str(told)


def test_a_database_that_is_away_is_not_ready_and_no_host_is_told(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def away() -> Iterator[None]:
        raise StoreUnavailableError("postgresql://secret-host/x does not answer")
        yield

    monkeypatch.setattr(service.database, "read", away)
    told = look(service)
    assert told["checks"]["database"] == {"ok": False, "why": "it does not answer"}
    assert "secret-host" not in str(told)


def test_a_database_that_hangs_is_not_ready_and_only_one_look_waits_for_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.01)
    answers, looks = threading.Event(), []

    def hangs(_: Service) -> tuple[()]:
        looks.append(1)
        answers.wait(30)
        return ()

    monkeypatch.setattr(module, "_database_checks", hangs)

    async def work() -> list[bool]:
        looker = Looker(service)
        found = [(await looker.readiness()).is_ready for _ in range(3)]
        answers.set()
        while not (await looker.readiness()).is_ready:
            await asyncio.sleep(0.01)
        return found

    assert asyncio.run(work()) == [False] * 3
    assert len(looks) == 1
