"""Follows the segments below a spool: which there are, what lines they have beyond what was read, who still writes.

Reads only plain files that are named like segments, below directories that are no links, and never follows one: nothing
that a trainer puts into the spool makes the agent read elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tachograph_agent.spool.layout import Segment, SpoolError, open_to_read, segments_in
from tachograph_agent.spool.locks import is_locked
from tachograph_agent.spool.positions import Range

MAX_LINE_BYTES = 1024 * 1024
"""A line that grows beyond this without an end is no event: it is passed over and counted."""


@dataclass(slots=True)
class Followed:
    """One segment as the follower knows it."""

    segment: Segment
    name: str
    """Its path below the spool."""
    descriptor: int
    read: int
    """Up to where it was read."""
    size: int = 0
    inode: int = 0


class Follower:
    """Reads what is new in all segments. ``poll`` looks for files and growth; ``read`` hands out whole lines."""

    def __init__(self, spool: Path, confirmed: dict[str, int]) -> None:
        self.spool = spool
        self.followed: dict[str, Followed] = {}
        self.problems: dict[str, str] = {}
        """By path, what can't be read and why; each is said once."""
        self.num_torn_lines = 0
        self._confirmed = confirmed

    def poll(self) -> None:
        """Find new segments, new sizes, and segments that are gone or were replaced."""
        seen: dict[str, Segment] = {}
        for directory in self._attempt_directories():
            for segment in segments_in(directory):
                seen[str(segment.path.relative_to(self.spool))] = segment
        for name in [name for name in self.followed if name not in seen]:
            self._let_go(name)
        for name, segment in seen.items():
            self._follow(name, segment)

    def _attempt_directories(self) -> Iterator[Path]:
        for user in self._directories(self.spool):
            if user.name.startswith("u"):
                yield from self._directories(user)

    def _directories(self, parent: Path) -> list[Path]:
        try:
            with os.scandir(parent) as entries:
                return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            self.problems.setdefault(str(parent), f"{parent} can't be read: {error.strerror}")
            return []

    def _follow(self, name: str, segment: Segment) -> None:
        followed = self.followed.get(name)
        try:
            status = segment.path.lstat()
            if followed is not None and (status.st_ino != followed.inode or status.st_size < followed.read):
                self.problems.setdefault(name, f"{segment.path} was replaced or cut; it is read from its start again")
                self._confirmed.pop(name, None)
                self._let_go(name)
                followed = None
            if followed is None:
                descriptor = open_to_read(segment.path)
                start = min(self._confirmed.get(name, 0), status.st_size)
                followed = self.followed[name] = Followed(segment, name, descriptor, start, inode=status.st_ino)
            followed.size = status.st_size
        except SpoolError as error:
            self.problems.setdefault(name, str(error))
        except OSError as error:
            self.problems.setdefault(name, f"{segment.path} can't be read: {error.strerror}")

    def _let_go(self, name: str) -> None:
        followed = self.followed.pop(name)
        with contextlib.suppress(OSError):
            os.close(followed.descriptor)

    def unread_bytes(self) -> int:
        """How much is in the spool that was not read yet."""
        return sum(followed.size - followed.read for followed in self.followed.values())

    def read(self, max_bytes: int) -> Iterator[tuple[Range, bytes]]:
        """Whole lines beyond what was read, at most about ``max_bytes`` in all, lifecycle and steps alike."""
        left = max_bytes
        for followed in self.followed.values():
            if left <= 0:
                return
            while followed.read < followed.size and left > 0:
                data = os.pread(followed.descriptor, min(left, MAX_LINE_BYTES), followed.read)
                whole = data.rfind(b"\n") + 1
                if not whole:
                    if len(data) >= MAX_LINE_BYTES:
                        followed.read += len(data)
                        self.num_torn_lines += 1
                        continue
                    break
                part = Range(followed.name, followed.read, followed.read + whole)
                followed.read += whole
                left -= whole
                yield part, data[:whole]

    def again(self, part: Range) -> bytes | None:
        """The bytes of a range once more; None if the segment is gone."""
        followed = self.followed.get(part.segment)
        if followed is None:
            return None
        followed.read = max(followed.read, part.end)
        return os.pread(followed.descriptor, part.end - part.start, part.start)

    def is_written(self, followed: Followed) -> bool:
        """Whether the process that writes this segment lives."""
        return is_locked(followed.descriptor)

    def final_size(self, followed: Followed) -> int | None:
        """Its size if nothing can come any more; None while a process may write to it.

        The size is asked after the lock: what a writer wrote last of all, it wrote before it let go.
        """
        return None if self.is_written(followed) else os.fstat(followed.descriptor).st_size

    def remove(self, followed: Followed) -> None:
        """Delete a segment that the collector has whole, and its directory when it is the last."""
        self._let_go(followed.name)
        self._confirmed.pop(followed.name, None)
        with contextlib.suppress(OSError):
            followed.segment.path.unlink()
            followed.segment.path.parent.rmdir()

    def close(self) -> None:
        """Let all files go."""
        for name in list(self.followed):
            self._let_go(name)
