"""The network between two processes, as it is on a bad day: cut, refusing, stalling, or losing what is answered.

A ``Proxy`` listens on a port of its own and passes each connection on to the first of its targets that takes it,
beginning with another one each time, as a load balancer does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal

Target = tuple[str, int] | str
"""Host and port, or the path of a Unix socket."""

Mode = Literal["open", "refuse", "stall", "swallow"]
"""``stall``: bytes wait until it is over. ``swallow``: requests arrive, and nothing of what is answered comes back."""

_CHUNK = 64 * 1024


class Proxy:
    """Passes connections on. ``targets`` is asked at each connection."""

    def __init__(self, targets: Callable[[], Sequence[Target]]) -> None:
        self._targets = targets
        self._turn = 0
        self._mode: Mode = "open"
        self._moving: asyncio.Event
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True, name="proxy")
        started = threading.Event()
        self._loop.call_soon(started.set)
        self._thread.start()
        started.wait()
        self.port = self._do(self._listen())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _listen(self) -> int:
        self._moving = asyncio.Event()
        self._moving.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def set(self, mode: Mode) -> None:
        """Behave so from now on, on open connections too. What was swallowed never comes: those are cut."""

        async def change() -> None:
            was, self._mode = self._mode, mode
            if mode == "stall":
                self._moving.clear()
            else:
                self._moving.set()
            if mode == "refuse" or was == "swallow":
                self._cut()

        self._do(change())

    def cut(self) -> None:
        """Break every open connection; new ones are taken."""

        async def cut() -> None:
            self._cut()

        self._do(cut())

    def _cut(self) -> None:
        for writer in list(self._writers):
            with contextlib.suppress(OSError):
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        self._writers.add(writer)
        beyond: asyncio.StreamWriter | None = None
        try:
            answers, beyond = await self._connect()
            self._writers.add(beyond)
            await _first_done(self._pass(reader, beyond, is_answer=False), self._pass(answers, writer, is_answer=True))
        except OSError:
            pass
        finally:
            for each in (writer, beyond):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        targets = list(self._targets())
        self._turn += 1
        for number in range(len(targets)):
            target = targets[(self._turn + number) % len(targets)]
            with contextlib.suppress(OSError):
                if isinstance(target, str):
                    return await asyncio.open_unix_connection(target)
                return await asyncio.open_connection(*target)
        raise ConnectionRefusedError

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while data := await reader.read(_CHUNK):
            await self._moving.wait()
            if is_answer and self._mode == "swallow":
                continue
            writer.write(data)
            await writer.drain()

    def close(self) -> None:
        """Break everything and stop listening."""

        async def close() -> None:
            self._server.close()
            self._moving.set()
            self._cut()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        self._do(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def _first_done(*what: Awaitable[None]) -> None:
    """Wait for the first, then end the others."""
    tasks = [asyncio.ensure_future(each) for each in what]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for done in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(done, BaseException) and not isinstance(done, OSError | asyncio.CancelledError):
                raise done
