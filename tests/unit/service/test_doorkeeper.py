"""Whether anybody needs a token is asked of the database once, however many come at the same time."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from tachograph_collector.service import access as module
from tachograph_collector.service.access import EVERYTHING, Doorkeeper
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database, StoreUnavailableError


def connection() -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": []})


def test_a_thousand_that_come_while_it_is_asked_ask_once_and_the_next_ones_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    may_answer = threading.Event()
    now_s = 0.0

    def any_token(_connection: Any) -> bool:
        asked.append("database")
        assert may_answer.wait(30)
        return False

    monkeypatch.setattr(module, "any_token", any_token)
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    doorkeeper = Doorkeeper(Settings(), database, lambda: now_s)

    async def work() -> None:
        nonlocal now_s
        waiting = [asyncio.create_task(doorkeeper.identify(connection())) for _ in range(1000)]
        gone = waiting.pop(0)
        await asyncio.sleep(0)
        gone.cancel()
        may_answer.set()
        assert set(await asyncio.gather(*waiting)) == {EVERYTHING}
        assert len(asked) == 1
        now_s += 3600.0
        assert await doorkeeper.identify(connection()) == EVERYTHING
        assert len(asked) == 2

    asyncio.run(work())
    doorkeeper.close()
    database.close()


def test_a_database_that_is_away_is_told_to_all_that_wait_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away = True

    def any_token(_connection: Any) -> bool:
        if is_away:
            raise StoreUnavailableError("away")
        return False

    monkeypatch.setattr(module, "any_token", any_token)
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    doorkeeper = Doorkeeper(Settings(), database)

    async def work() -> None:
        nonlocal is_away
        told = await asyncio.gather(*(doorkeeper.identify(connection()) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in told] == [StoreUnavailableError] * 3
        is_away = False
        assert await doorkeeper.identify(connection()) == EVERYTHING

    asyncio.run(work())
    doorkeeper.close()
    database.close()
