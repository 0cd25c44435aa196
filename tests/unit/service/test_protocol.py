"""A connection that says nothing, or whose head has no end, is not held."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from tachograph_collector.service import protocol as module
from tachograph_collector.service.protocol import BoundedProtocol
from uvicorn.server import ServerState

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"


class Transport(asyncio.Transport):
    """Remembers what was written, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = asyncio.Event()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_WITHIN_S", 0.02)


async def connected() -> tuple[BoundedProtocol, Transport]:
    config = uvicorn.Config(answers, http=BoundedProtocol, lifespan="off", log_config=None)
    config.load()
    made, transport = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop()), Transport()
    made.connection_made(transport)
    return made, transport


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("said", [b"", b"GET / HT", HEAD])
def test_a_head_that_does_not_come_ends_the_connection(said: bytes) -> None:
    async def work() -> None:
        connection, transport = await connected()
        if said:
            connection.data_received(said)
        await asyncio.wait_for(transport.closed.wait(), 30)

    asyncio.run(work())


def test_a_head_without_end_ends_the_connection() -> None:
    async def work() -> bytes:
        connection, transport = await connected()
        connection.data_received(HEAD)
        for _ in range(100):
            if not transport.closed.is_set():
                connection.data_received(b"X-More: " + b"x" * 1000 + b"\r\n")
        assert transport.closed.is_set()
        return transport.written

    assert asyncio.run(work()).startswith(b"HTTP/1.1 400")


@pytest.mark.usefixtures("quick")
def test_a_request_that_came_in_time_is_answered_and_the_connection_kept() -> None:
    async def work() -> None:
        connection, transport = await connected()
        for number in range(1, 4):
            connection.data_received(HEAD + b"\r\n")
            while transport.written.count(b"HTTP/1.1 204") < number:
                await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert not transport.closed.is_set()
        connection.connection_lost(None)

    asyncio.run(work())
