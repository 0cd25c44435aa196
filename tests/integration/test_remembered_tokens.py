"""What is known of a token is remembered for seconds: nobody waits for the database, and nothing lasts longer."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any, cast

import pytest
from access_probe import HOUR_US, LOOPBACK, Clock, bearer, make, probed, revoke
from app_client import AppClient
from sqlalchemy import Connection
from starlette.requests import HTTPConnection
from tachograph_collector.service import access
from tachograph_collector.service.access import Doorkeeper
from tachograph_collector.service.problems import Problem
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import tokens
from tachograph_collector.store.tokens import split


def test_revocation_and_expiry_are_seen_within_seconds(database: Database) -> None:
    clock = Clock()
    app = probed(Settings(database_url=str(database)), database)
    app.state.service.identify = Doorkeeper(Settings(database_url=str(database)), database, clock).identify
    with AppClient(app, base_url=LOOPBACK) as client:
        token, brief = make(database), make(database, lasts_us=HOUR_US)
        assert client.get("/probe/read", headers=bearer(token)).status_code == 200
        assert client.get("/probe/read", headers=bearer(brief)).status_code == 200
        revoke(database, token)
        with database.write() as connection:
            connection.execute(tokens.update().where(tokens.c.expires_us.is_not(None)).values(expires_us=1))
        assert client.get("/probe/read", headers=bearer(token)).status_code == 200, "remembered"
        assert access.REMEMBERED_S <= 5.0
        clock.now_s += access.REMEMBERED_S
        for each, state in ((token, "revoked"), (brief, "expired")):
            answer = client.get("/probe/read", headers=bearer(each))
            assert answer.status_code == 401
            assert state in answer.json()["detail"]
            assert each not in answer.text


def test_a_remembered_token_costs_no_look_up_and_made_up_ones_stay_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = make(database)
    app = probed(Settings(database_url=str(database)), database)
    doorkeeper = Doorkeeper(Settings(database_url=str(database)), database, Clock())
    app.state.service.identify = doorkeeper.identify
    with AppClient(app, base_url=LOOPBACK) as client:
        assert client.get("/probe/read", headers=bearer(token)).status_code == 200
        looked_up: list[str] = []
        monkeypatch.setattr(access, "find_token", lambda connection, token_id: looked_up.append(token_id))
        monkeypatch.setattr(access, "MAX_REMEMBERED", 5)
        for number in range(20):
            made_up = f"tachograph_{number:016x}_{'0' * 64}"
            assert client.get("/probe/read", headers=bearer(made_up)).status_code == 401
            assert client.get("/probe/read", headers=bearer(made_up)).status_code == 401
        assert len(looked_up) == 20
        assert client.get("/probe/read", headers=bearer(token)).status_code == 200
        assert len(looked_up) == 20, "what is made up pushes nothing out that is real"
    assert len(doorkeeper._strangers) == 5
    assert doorkeeper.num_refused["unknown"] == 40
    doorkeeper.close()


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "by token"])
def test_whoever_is_known_waits_for_no_database_and_is_asked_for_anew_beside(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, is_open: bool
) -> None:
    clock, may_answer, asked = Clock(), threading.Event(), threading.Semaphore(0)
    token = None if is_open else make(database)
    doorkeeper = Doorkeeper(Settings(database_url=str(database)), database, clock)
    name = "any_token" if is_open else "find_token"
    real = getattr(access, name)

    def slow(*given: Any) -> Any:
        asked.release()
        assert may_answer.wait(120)
        return real(*given)

    async def known() -> int:
        return (
            await (doorkeeper.identify(cast(HTTPConnection, None)) if token is None else doorkeeper.access_of(token))
        ).tenant_id

    async def work() -> None:
        assert await known() == 1
        monkeypatch.setattr(access, name, slow)
        clock.now_s += access.RENEWED_S / 2
        assert await known() == 1
        assert not asked.acquire(blocking=False), "fresh"
        clock.now_s += access.RENEWED_S
        for _ in range(3):
            assert await asyncio.wait_for(known(), 60) == 1
        assert await asyncio.to_thread(asked.acquire, timeout=60)
        may_answer.set()
        while doorkeeper._asking_open or doorkeeper._under_way:
            await asyncio.sleep(0)
        clock.now_s += access.RENEWED_S / 2
        assert await asyncio.wait_for(known(), 60) == 1

    asyncio.run(work())
    assert not asked.acquire(blocking=False), "once for all who came meanwhile"
    doorkeeper.close()


def test_a_flood_of_made_up_tokens_is_told_to_wait_and_holds_up_no_real_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, clock = make(database), Clock()
    real_id, real = (split(token) or ("", ""))[0], access.find_token
    may_answer = threading.Event()

    def find(connection: Connection, token_id: str) -> Any:
        if token_id != real_id:
            assert may_answer.wait(120)
        return real(connection, token_id)

    monkeypatch.setattr(access, "find_token", find)
    doorkeeper = Doorkeeper(Settings(database_url=str(database)), database, clock)

    async def work() -> None:
        await doorkeeper.access_of(token)
        made_up = [f"tachograph_{number:016x}_{'0' * 64}" for number in range(access.MAX_STRANGERS + 10)]
        flood = [asyncio.create_task(doorkeeper.access_of(each)) for each in made_up]
        await asyncio.sleep(0)
        clock.now_s += 60
        assert (await doorkeeper.access_of(token)).tenant_id == 1
        may_answer.set()
        told = await asyncio.gather(*flood, return_exceptions=True)
        assert Counter(each.status for each in told if isinstance(each, Problem)) == {
            401: access.MAX_STRANGERS,
            503: 10,
        }

    asyncio.run(work())
    doorkeeper.close()
