"""A body is read and unpacked within bounds, whatever it claims."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from typing import Any

import pytest
import zstandard
from tachograph_collector.service.body import GoneError, Incoming, check_type, unpacked
from tachograph_collector.service.problems import Problem
from tachograph_collector.service.waiting import Held, Waiting

MIB = 1 << 20


def pack(data: bytes, encoding: str) -> bytes:
    return gzip.compress(data) if encoding == "gzip" else bytes(zstandard.ZstdCompressor().compress(data))


def read(*pieces: bytes, announced: str | None = None, max_bytes: int = 100, waiting: Waiting | None = None) -> bytes:
    """Read a body of these pieces; what comes after them is a client that is gone."""
    queue: list[dict[str, Any]] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    queue.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return queue.pop(0) if queue else {"type": "http.disconnect"}

    async def both() -> bytes:
        with Held(waiting or Waiting(MIB)) as held:
            return await Incoming(receive, max_bytes, 10.0).read(announced, held)

    return asyncio.run(both())


def status_of(work: Any) -> int:
    with pytest.raises(Problem) as raised:
        work()
    return raised.value.status


def test_a_body_in_pieces_is_read_whole() -> None:
    assert read(b"ab", b"", b"c") == b"abc"
    assert read() == b""


@pytest.mark.parametrize("announced", [None, "3", "not a number", "-1", "9" * 400])
def test_a_body_that_is_too_large_is_refused_whatever_it_announced(announced: str | None) -> None:
    assert status_of(lambda: read(b"x" * 60, b"x" * 60, announced=announced)) == 413


def test_an_announced_length_that_is_too_large_is_enough_to_be_refused() -> None:
    assert status_of(lambda: read(b"x", announced="101")) == 413


def test_memory_that_is_not_there_is_not_taken_and_all_is_let_go() -> None:
    waiting = Waiting(10)
    waiting.change(5)
    assert status_of(lambda: read(b"x" * 3, b"x" * 3, waiting=waiting)) == 503
    assert waiting.num_bytes == 5
    waiting.change(-5)
    assert status_of(lambda: read(b"x" * 6, b"x" * 6, waiting=waiting)) == 413
    assert read(b"x" * 10, waiting=waiting) == b"x" * 10
    assert waiting.num_bytes == 0


def test_a_client_that_went_away_is_not_answered() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def both() -> None:
        with Held(Waiting(MIB)) as held:
            await Incoming(receive, 100, 10.0).read(None, held)

    with pytest.raises(GoneError):
        asyncio.run(both())


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_what_was_packed_is_unpacked(encoding: str) -> None:
    data = b"line\n" * 10_000
    packed = data if encoding == "identity" else pack(data, encoding)
    assert unpacked(packed, encoding, len(data)) == data
    assert unpacked(b"", encoding, 1) == b""
    assert status_of(lambda: unpacked(packed, encoding, len(data) - 1)) == 413


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_several_parts_are_one_body(encoding: str) -> None:
    assert unpacked(pack(b"a", encoding) + pack(b"b", encoding), encoding, 100) == b"ab"
    assert status_of(lambda: unpacked(pack(b"", encoding) * 1000, encoding, 100)) == 400


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_that_is_broken_or_cut_is_refused(encoding: str) -> None:
    whole = pack(bytes(range(256)) * 100, encoding)
    for broken in (whole[:-1], whole[: len(whole) // 2], whole[:4], b"nonsense", whole + b"!"):
        assert status_of(lambda body=broken: unpacked(body, encoding, MIB)) == 400


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_before_it_takes_memory(encoding: str) -> None:
    bomb = pack(bytes(512 * MIB), encoding)
    tracemalloc.start()
    try:
        assert status_of(lambda: unpacked(bomb, encoding, 4 * MIB)) == 413
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40 * MIB


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-encoding": "br"},
        {"content-encoding": "gzip, gzip"},
    ],
)
def test_a_type_or_an_encoding_that_is_not_known_is_refused(headers: dict[str, str]) -> None:
    assert status_of(lambda: check_type(headers)) == 415


@pytest.mark.parametrize(
    ("headers", "encoding"),
    [
        ({}, "identity"),
        ({"content-type": "application/x-ndjson; charset=utf-8", "content-encoding": "GZIP"}, "gzip"),
        ({"content-type": "Application/JSON", "content-encoding": " zstd "}, "zstd"),
    ],
)
def test_what_agents_and_people_send_is_taken(headers: dict[str, str], encoding: str) -> None:
    assert check_type(headers) == encoding
