"""The body of a request, read within bounds of size, time and memory, and unpacked within them, too.

Nothing is believed before it is counted: neither the length that a request announces nor the size that a compressed
body claims. A body that is too large is read to its end all the same where that is near, and thrown away, since a
client that is cut off in the middle never hears why.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import zstandard

from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.units import shown_bytes
from tachograph_collector.service.waiting import Held

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

ENCODINGS: Final = ("gzip", "zstd", "identity")
TYPES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/json"})
"""What JSON lines are called. Forms and plain text, which any web page may send unasked, are not among them."""

_READ_ON: Final = 8
"""A body too large is read on, and thrown away, up to this many times what is allowed."""
_PIECE: Final = 256
"""zstd is fed in pieces of this many bytes, since four of them may unpack to 128 KiB: 8 MiB at once at most."""
_MOST_PARTS: Final = 64
"""Members or frames in one body; each costs a copy of the rest."""
_ZSTD_WINDOW: Final = 1 << 27
"""The most memory that unpacking may take; zstd's own levels stay below it."""


class GoneError(Exception):
    """The client went away before its request was here. There is nobody to answer."""


def check_type(headers: Mapping[str, str]) -> str:
    """The encoding of the body; raises ``Problem`` 415 for a type or an encoding that isn't taken."""
    told = headers.get("content-type", "")
    kind = told.partition(";")[0].strip().lower()
    if kind and kind not in TYPES:
        raise Problem(
            415,
            "Not JSON lines",
            f"Content-Type is {shown(told)}; expected application/x-ndjson, one event a line",
            headers={"Accept": "application/x-ndjson"},
        )
    encoding = headers.get("content-encoding", "identity").strip().lower() or "identity"
    if encoding not in ENCODINGS:
        raise Problem(
            415,
            "Unknown encoding",
            f"Content-Encoding is {shown(encoding)}; expected {', '.join(ENCODINGS)}",
            headers={"Accept-Encoding": ", ".join(ENCODINGS)},
        )
    return encoding


class Incoming:
    """The body of one request on its way. ``read`` it, or ``drain`` it where nobody wants it."""

    def __init__(self, receive: Receive, max_bytes: int, timeout_s: float) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._is_whole = False
        self._is_late = False

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        self._is_whole = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def read(self, announced: str | None, held: Held) -> bytes:
        """The body as it came. ``held`` is raised by what is read; ``announced`` is Content-Length.

        Raises ``Problem`` 413 where it is too large, 408 where it is too slow, 503 where no memory is left, and
        ``GoneError``.
        """
        if announced is not None and announced.isdecimal() and int(announced[:20]) > self._max_bytes:
            raise _too_large(self._max_bytes, "as it comes")
        try:
            async with asyncio.timeout(self._timeout_s):
                first = await self._next()
                if len(first) <= self._max_bytes:
                    held.take(len(first))
                    if self._is_whole:
                        return first
                parts = bytearray(first)
                while not self._is_whole and len(parts) <= self._max_bytes:
                    part = await self._next()
                    held.take(len(part))
                    parts += part
        except TimeoutError as error:
            self._is_late = True
            detail = f"the request was not here within {self._timeout_s:g} s"
            raise Problem(408, "Too slow", detail) from error
        if len(parts) > self._max_bytes:
            raise _too_large(self._max_bytes, "as it comes")
        return bytes(parts)

    async def drain(self) -> bool:
        """Throw away what is still to come, since a client that is cut off while it sends never hears why.

        False where that has no end within bounds: then the connection must not be used again. Raises ``GoneError``.
        """
        left_bytes = self._max_bytes * _READ_ON
        try:
            async with asyncio.timeout(0 if self._is_late else self._timeout_s):
                while not self._is_whole and left_bytes > 0:
                    left_bytes -= len(await self._next())
        except TimeoutError:
            return False
        return self._is_whole


def _too_large(max_bytes: int, how: str) -> Problem:
    return Problem(
        413,
        "Too large",
        f"the body is larger than {shown_bytes(max_bytes)} {how}; send it in smaller batches",
    )


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """The body without its encoding; never holds more than ``max_bytes`` and a chunk of it.

    Raises ``Problem`` 413 where it is larger than that, 400 where it is broken or ends too early.
    """
    if encoding == "identity":
        if len(body) > max_bytes:
            raise _too_large(max_bytes, "unpacked")
        return body
    if not body:
        return b""
    try:
        return _gunzipped(body, max_bytes) if encoding == "gzip" else _unzstd(body, max_bytes)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise Problem(
            400, "Broken encoding", f"the body is no {encoding}, or not all of it: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _gunzipped(body: bytes, max_bytes: int) -> bytes:
    """Members of gzip one after the other are one body, as everywhere."""
    whole = bytearray()
    rest = body
    for _ in range(_MOST_PARTS):
        stream = zlib.decompressobj(wbits=31)
        whole += stream.decompress(rest, max_bytes + 1 - len(whole))
        if len(whole) > max_bytes:
            raise _too_large(max_bytes, "unpacked")
        if not stream.eof:
            raise EOFError("it ends too early")
        rest = stream.unused_data
        if not rest:
            return bytes(whole)
    raise EOFError(f"it has more than {_MOST_PARTS} parts")


def _unzstd(body: bytes, max_bytes: int) -> bytes:
    whole = bytearray()
    rest = body
    for _ in range(_MOST_PARTS):
        stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        at = 0
        while at < len(rest) and not stream.eof:
            whole += stream.decompress(rest[at : at + _PIECE])
            at += _PIECE
            if len(whole) > max_bytes:
                raise _too_large(max_bytes, "unpacked")
        if not stream.eof:
            raise EOFError("it ends too early")
        rest = stream.unused_data + rest[at:]
        if not rest:
            return bytes(whole)
    raise EOFError(f"it has more than {_MOST_PARTS} parts")
