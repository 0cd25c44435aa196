"""Bytes of a log as text: UTF-8 with or without a mark, UTF-16 as other systems write it, and lines in Latin-1.

UTF-16 is made UTF-8 a block at a time, before lines are looked for; what is no UTF-8 in a line makes that line Latin-1
(as Windows writes it), so that no number beside an odd letter is lost.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Final

UTF8_MARK: Final = b"\xef\xbb\xbf"
_LOOKED_AT: Final = 1024
_FEWEST: Final = 16
"""Bytes without a mark that are enough to tell UTF-16 by its zeros."""


def utf16_of(head: bytes) -> str | None:
    """``utf-16-le`` or ``utf-16-be`` if a file that begins so is written in it, by its mark or by its zeros."""
    if head.startswith(codecs.BOM_UTF16_LE) and not head.startswith(codecs.BOM_UTF32_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    start = head[:_LOOKED_AT]
    if len(start) < _FEWEST:
        return None
    even, odd = start[::2], start[1::2]
    if odd.count(0) > 0.9 * len(odd) and not even.count(0):
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.9 * len(even) and not odd.count(0) else None


def as_utf8(blocks: Iterator[bytes], name: str, note: Callable[[str], None]) -> Iterator[bytes]:
    """The blocks, made UTF-8 where they are UTF-16. ``note`` is told where that is only guessed."""
    first = next(blocks, b"")
    encoding = utf16_of(first)
    if encoding is None:
        if first:
            yield first
        yield from blocks
        return
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        note(f"{name}: taken for {encoding.upper()}, by its zeros; it has no mark that says so")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first).removeprefix("\ufeff").encode("utf-8", "replace")
    for block in blocks:
        if text := decoder.decode(block):
            yield text.encode("utf-8", "replace")
    if text := decoder.decode(b"", True):
        yield text.encode("utf-8", "replace")


def decoded(chunk: bytes) -> str:
    """Whole lines as text; those that are no UTF-8 are read as Latin-1."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(map(_line, chunk.split(b"\n")))


def _line(line: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return line.decode(encoding)
        except UnicodeDecodeError:
            continue
    return line.decode("latin-1")
