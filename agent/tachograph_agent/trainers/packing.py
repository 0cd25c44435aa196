"""Compressed logs, unpacked a bounded piece at a time: gzip, bzip2, xz and, with the extra, zstd.

They are known by how they begin, whatever they are called. Several laid end to end are one; of one that is cut off or
damaged counts what comes before, and ``note`` is told.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

from tachograph_agent.trainers.problems import MissingExtraError, ReadingError

PIECE_BYTES: Final = 64 * 1024
SUFFIXES: Final = frozenset({".gz", ".bz2", ".xz", ".zst", ".zstd"})
_ZSTD_INPUT_BYTES: Final = 1024  # a block of zstd can swell 30,000 times: small bites keep the memory bounded
_XZ_MEMORY_BYTES: Final = 256 * 1024 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BZIP2_MAGIC: Final = b"BZh"
_XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"

Note = Callable[[str], None]


def is_packed(head: bytes) -> bool:
    """Whether a file that begins so is compressed."""
    return _kind(head) is not None


def unpacked(first: bytes, rest: Iterator[bytes], name: str, note: Note) -> Iterator[bytes]:
    """The content of the blocks ``first`` and ``rest``, in pieces; as they are if they aren't compressed."""
    blocks = _chain(first, rest)
    unpack = _kind(first)
    return blocks if unpack is None else unpack(blocks, name, note)


def _kind(head: bytes) -> Callable[[Iterator[bytes], str, Note], Iterator[bytes]] | None:
    if head.startswith(_GZIP_MAGIC):
        return _gunzip
    # "BZh" may begin a text; what follows it in a packed file may not.
    if head.startswith(_BZIP2_MAGIC) and head[3:4].isdigit() and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return _bunzip2
    if head.startswith(_XZ_MAGIC):
        return _unxz
    return _unzstd if head.startswith(_ZSTD_MAGIC) else None


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _gunzip(blocks: Iterator[bytes], name: str, note: Note) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    try:
        for block in blocks:
            data = block
            while data:
                if member.eof:
                    data = data.lstrip(b"\0")  # tapes and block devices pad with zeros
                    if not data:
                        break
                    member = zlib.decompressobj(wbits=31)
                plain = member.decompress(data, PIECE_BYTES)
                if plain:
                    yield plain
                data = member.unused_data if member.eof else member.unconsumed_tail
    except zlib.error as error:
        note(f"{name}: damaged gzip ({error}); what came before the damage counts, the rest can't be read")
        return
    if not member.eof:
        if plain := member.flush():
            yield plain
        note(f"{name}: the gzip file is cut off; what could be read of it counts, the rest is missing")


def _bunzip2(blocks: Iterator[bytes], name: str, note: Note) -> Iterator[bytes]:
    bz2 = _of_python("bz2", name)
    return _members(bz2.BZ2Decompressor, (OSError, ValueError), blocks, name, "bzip2", note)


def _unxz(blocks: Iterator[bytes], name: str, note: Note) -> Iterator[bytes]:
    lzma = _of_python("lzma", name)

    def member() -> Any:
        return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)

    return _members(member, (lzma.LZMAError,), blocks, name, "xz", note)


def _of_python(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ReadingError(
            f"{name}: this Python was built without {module}, which it is compressed with; unpack it first"
        ) from error


def _members(
    begin: Callable[[], Any],
    errors: tuple[type[Exception], ...],
    blocks: Iterator[bytes],
    name: str,
    kind: str,
    note: Note,
) -> Iterator[bytes]:
    """The members of a bzip2 or xz file one after the other."""
    member = begin()
    try:
        for block in blocks:
            data = block
            while True:
                if member.eof:
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    member = begin()
                if plain := member.decompress(data, PIECE_BYTES):
                    yield plain
                data = member.unused_data if member.eof else b""
                if not data and (member.eof or member.needs_input):
                    break
    except errors as error:
        note(f"{name}: damaged {kind} ({error}); what came before the damage counts, the rest can't be read")
        return
    if not member.eof:
        note(f"{name}: the {kind} file is cut off; what could be read of it counts, the rest is missing")


def _unzstd(blocks: Iterator[bytes], name: str, note: Note) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: compressed with zstd, which needs an extra: pip install 'tachograph[zstd]'"
        ) from error
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        for block in blocks:
            for start in range(0, len(block), _ZSTD_INPUT_BYTES):
                data = block[start : start + _ZSTD_INPUT_BYTES]
                while data:
                    if frame.eof:
                        frame = zstandard.ZstdDecompressor().decompressobj()
                    if plain := frame.decompress(data):
                        yield plain
                    data = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        note(f"{name}: damaged zstd ({error}); what came before the damage counts, the rest can't be read")
        return
    if not frame.eof:
        note(f"{name}: the zstd file is cut off; what could be read of it counts, the rest is missing")
