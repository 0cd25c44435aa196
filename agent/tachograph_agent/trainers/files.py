"""Opening what a log lies in: a file, a pipe or standard input, however packed and encoded; a block at a time.

A ``Source`` can be read again and again: what can't be (a pipe) is spooled to a temporary file first. It covers what
was there when it was opened, so a file that goes on growing is read up to the size it had.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Final

from tachograph_agent.trainers.encodings import as_utf8, utf16_of
from tachograph_agent.trainers.packing import SUFFIXES, is_packed, unpacked
from tachograph_agent.trainers.problems import MissingExtraError, ReadingError

__all__ = ["MissingExtraError", "ReadingError", "Source", "WholeLines", "in_directory"]

BLOCK_BYTES: Final = 64 * 1024
HEAD_BYTES: Final = 64 * 1024
"""How much of a file recognition looks at."""
MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line is skipped and reported; it is never held whole."""

MAX_NEIGHBOURS: Final = 2000
"""Names of a directory that a misspelt one is compared with."""
Note = Callable[[str], None]


class Source:
    """One place that a log lies in, as it was when it was opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else path
        self.bytes_read = 0
        self.size_bytes = 0
        self._spool: IO[bytes] | None = None
        if path == "-":
            if sys.stdin is None:
                raise ReadingError("standard input is closed; pipe a log into it, or name a file")
            self._keep(_spooled(sys.stdin.buffer))
            return
        try:
            status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):  # a pipe gives its content once
                with Path(path).open("rb") as pipe:
                    self._keep(_spooled(pipe))
                return
            with Path(path).open("rb"):
                self.size_bytes = status.st_size
        except FileNotFoundError as error:
            raise ReadingError(f"{path}: {_reason(error)}{_near(path)}") from error
        except OSError as error:
            raise ReadingError(f"{path}: {_reason(error)}") from error

    def _keep(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self.size_bytes = spool.tell()
        weakref.finalize(self, spool.close)

    @property
    def stem(self) -> str:
        """The file's name without its suffixes: ``runs/r7.jsonl.gz`` gives ``r7``."""
        if self.path == "-":
            return "stdin"
        path = Path(self.path)
        if path.suffix in SUFFIXES:
            path = path.with_suffix("")
        return path.stem or path.name

    def blocks(self, note: Note, *, keep_open: bool = True) -> Iterator[bytes]:
        """The content, decompressed and in UTF-8, in blocks; ``note`` is told where it was cut off or damaged.

        With ``keep_open=False`` the file is opened anew for each block, so that thousands can be read side by side.
        """
        raw = self._raw_blocks(note, 0, keep_open=keep_open)
        first = next(raw, b"")
        return as_utf8(unpacked(first, raw, self.name, note), self.name, note)

    def plain(self) -> bool:
        """Whether the content lies there as ``blocks`` gives it, so that an offset into it can be gone to."""
        start = next(self._raw_blocks(_quiet, 0, keep_open=True), b"")
        return not is_packed(start) and utf16_of(start) is None

    def at(self, offset: int, length: int) -> bytes:
        """``length`` bytes of an uncompressed source from ``offset``, fewer if it has been truncated since."""
        if self._spool is not None:
            return os.pread(self._spool.fileno(), length, offset)
        try:
            with Path(self.path).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise ReadingError(f"{self.name}: {_reason(error)} when a part was to be read again") from error

    def head(self) -> bytes:
        """The first 64 KiB for recognition; where those are one endless line, what follows that line as well."""
        head = bytearray()
        blocks = self.blocks(_quiet)
        for block in blocks:
            head += block
            if len(head) >= HEAD_BYTES:
                break
        if len(head) < HEAD_BYTES or b"\n" in head or b"\0" in head:
            return bytes(head[:HEAD_BYTES])
        after = b""
        for block in blocks:
            _, newline, rest = block.partition(b"\n")
            if newline:
                after = rest + next(blocks, b"")
                break
        return bytes(head[:HEAD_BYTES]) + b"\n" + after[:HEAD_BYTES]

    def _raw_blocks(self, note: Note, offset: int, *, keep_open: bool) -> Iterator[bytes]:
        """The bytes as they lie there, up to the size that the source had when it was opened."""
        file: IO[bytes] | None = None
        try:
            while offset < self.size_bytes:
                length = min(BLOCK_BYTES, self.size_bytes - offset)
                if self._spool is not None:
                    block = os.pread(self._spool.fileno(), length, offset)
                elif keep_open:
                    file = file or Path(self.path).open("rb")  # noqa: SIM115 - closed below
                    block = file.read(length)
                else:
                    block = self.at(offset, length)
                if not block:
                    note(
                        f"{self.name}: became shorter while it was read; {offset} of {self.size_bytes} bytes were there"
                    )
                    return
                offset += len(block)
                self.bytes_read = max(self.bytes_read, offset)
                yield block
        except OSError as error:
            raise ReadingError(f"{self.name}: {_reason(error)}") from error
        finally:
            if file is not None:
                file.close()


def _quiet(_: str) -> None:
    """Say nothing: the same was said when the content was read for the first time."""


def _spooled(stream: IO[bytes]) -> IO[bytes]:
    spool = tempfile.TemporaryFile(prefix="tachograph-")  # noqa: SIM115 - it lives as long as the Source
    while block := stream.read(1024 * 1024):
        spool.write(block)
    spool.flush()
    return spool


def _reason(error: OSError) -> str:
    return {
        FileNotFoundError: "no such file or directory",
        PermissionError: "permission denied",
    }.get(type(error), (error.strerror or str(error)).lower())


def _near(path: str) -> str:
    """What the name may have meant: one like it that is there, else which part of the path is missing."""
    missing = Path(path)
    while not missing.parent.exists() and missing != missing.parent:
        missing = missing.parent
    try:
        there = sorted(each.name for each in missing.parent.iterdir())[:MAX_NEIGHBOURS]
    except OSError:
        return ""
    like = get_close_matches(missing.name, there, 1, 0.6)
    if like:
        return f"; did you mean {missing.parent / like[0]}?"
    return "" if missing == Path(path) else f"; there is no {missing}"


class WholeLines:
    """Chunks of whole lines out of blocks cut anywhere; no line longer than the bound is ever held."""

    def __init__(self, blocks: Iterator[bytes], max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._blocks = blocks
        self._max_line_bytes = max_line_bytes

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Pairs (chunk, 0): whole lines. (b"", n): a line of n bytes, too long, was left out; it counts as one line."""
        held: list[bytes] = []
        held_bytes = 0
        too_long = False
        for block in self._blocks:
            first = block.find(b"\n")
            if first < 0:
                held_bytes += len(block)
                too_long = too_long or held_bytes > self._max_line_bytes
                if too_long:
                    held.clear()
                else:
                    held.append(block)
                continue
            if too_long or held_bytes + first > self._max_line_bytes:
                yield b"", held_bytes + first + 1
                held, held_bytes, too_long = [], 0, False
                block = block[first + 1 :]
            last = block.rfind(b"\n") + 1
            if last:
                yield (b"".join([*held, block[:last]]) if held else block[:last]), 0
                held, held_bytes = [], 0
            rest = block[last:]
            if rest:
                held.append(rest)
                held_bytes += len(rest)
        if too_long:
            yield b"", held_bytes
        elif held:
            yield b"".join(held), 0


def in_directory(directory: str) -> list[str]:
    """Every regular file below ``directory`` in the order of their names (numbers by value), dotfiles left out."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(folder) / name for name in names if not name.startswith(".")]
        found += [str(path) for path in paths if path.is_file()]
    return sorted(found, key=_natural)


def _natural(path: str) -> list[tuple[int, int, str]]:
    """``checkpoint-200`` before ``checkpoint-1000``: digits compare as numbers."""
    pieces = re.split(r"([0-9]+)", path)
    return [(0, int(piece), "") if index % 2 else (1, 0, piece) for index, piece in enumerate(pieces)]
