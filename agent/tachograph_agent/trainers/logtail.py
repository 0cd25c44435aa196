"""The growing end of one log file: whole lines, and a place that is found again after a restart, a rotation or a cut.

A file is known by its inode and how it begins. One that was renamed (a rotation) is read to its end before the new one
is begun; one that was cut or written anew is read from its start. Places are byte offsets after a line's end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tachograph_agent.trainers.encodings import decoded
from tachograph_agent.trainers.tidying import Tidying

BLOCK_BYTES = 256 * 1024
MAX_LINE_BYTES = 1024 * 1024
"""A line that grows beyond this without an end is passed over and counted."""
HEAD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file: ``offset`` bytes into the one with this inode, whose first ``head_bytes`` have this digest."""

    inode: int
    head: str
    head_bytes: int
    offset: int


class LogTail:
    """Reads one log as it grows. ``next_lines`` gives what is new; empty when there is nothing. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        """After the last line given."""
        self.num_too_long = 0
        self.written_unix_s = 0.0
        """When the file was last written to, as of the last read."""
        self._descriptor = -1
        self._inode = 0
        self._is_within_long = False
        self._tidying = Tidying()

    @property
    def is_open(self) -> bool:
        """Whether there is a file to read."""
        return self._descriptor >= 0

    def open(self, place: Place | None = None) -> bool:
        """Open the log, at its start. With a place: the file that it is in, wherever it was renamed to.

        False if there is none that can be read. Raises nothing.
        """
        self.close()
        for path in [self.path] if place is None else [self.path, *self._siblings(place.inode)]:
            descriptor = _open(path)
            if descriptor is None:
                continue
            if place is None or _is_at(descriptor, place):
                self._take(descriptor)
                return True
            os.close(descriptor)
        return False

    def next_lines(self, up_to: int | None = None) -> list[str]:
        """The next whole lines, at most ``BLOCK_BYTES`` of them and none beyond the offset ``up_to``."""
        if not self.is_open and not self.open():
            return []
        if up_to is not None:
            return self._read(up_to - self.offset, is_end=True)
        lines = self._read(MAX_LINE_BYTES)
        if lines or not self._is_done_with():
            return lines
        # What came after our last look and before the file was let go: then the last line, even without an end.
        lines = self._read(MAX_LINE_BYTES, is_end=True)
        if lines:
            return lines
        self.open()
        return self._read(MAX_LINE_BYTES) if self.is_open else []

    def rest(self) -> list[str]:
        """What is there beyond the last whole line: a line that may still be written."""
        return self._read(MAX_LINE_BYTES, is_end=True) if self.is_open else []

    def head(self, num_bytes: int) -> bytes:
        """The first bytes of the file."""
        return os.pread(self._descriptor, num_bytes, 0) if self.is_open else b""

    def place(self) -> Place:
        """Where it stands."""
        head = self.head(HEAD_BYTES)[: self.offset]
        return Place(self._inode, hashlib.sha256(head).hexdigest()[:16], len(head), self.offset)

    def close(self) -> None:
        """Let the file go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._inode = os.fstat(descriptor).st_ino
        self.offset = 0
        self._is_within_long = False

    def _siblings(self, inode: int) -> list[Path]:
        with contextlib.suppress(OSError), os.scandir(self.path.parent) as entries:
            return [Path(entry.path) for entry in entries if entry.inode() == inode]
        return []

    def _read(self, at_most: int, *, is_end: bool = False) -> list[str]:
        """Whole lines; with ``is_end`` the last of ``at_most`` bytes, or of the file, needs no end."""
        length = min(BLOCK_BYTES, at_most)
        try:
            data = os.pread(self._descriptor, length, self.offset)
            if b"\n" not in data and len(data) == length < at_most:
                length = min(MAX_LINE_BYTES, at_most)
                data = os.pread(self._descriptor, length, self.offset)
            self.written_unix_s = os.fstat(self._descriptor).st_mtime
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) >= MAX_LINE_BYTES:
            self.offset += len(data)
            self._is_within_long = True
            return []
        if not whole and is_end:
            whole = len(data)
        data = data[:whole]
        self.offset += whole
        if data and self._is_within_long:
            self._is_within_long = False
            self.num_too_long += 1
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        if not data:
            return []
        return self._tidying.lines(decoded(data).removesuffix("\n").removeprefix("\ufeff"))

    def _is_done_with(self) -> bool:
        """Whether the log is another file now, or was cut. A log that is only gone may come back: it is waited for."""
        try:
            there = self.path.stat()
            ours = os.fstat(self._descriptor)
        except OSError:
            return False
        if ours.st_size < self.offset:
            return True
        return there.st_ino != ours.st_ino


def _open(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _is_at(descriptor: int, place: Place) -> bool:
    status = os.fstat(descriptor)
    if status.st_ino != place.inode or status.st_size < place.offset:
        return False
    return hashlib.sha256(os.pread(descriptor, place.head_bytes, 0)).hexdigest()[:16] == place.head
