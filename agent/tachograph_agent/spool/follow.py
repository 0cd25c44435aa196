"""Follows the segments below a spool: which there are, what lines they have beyond what was read, who still writes.

Reads only plain files that are named like segments, below directories that are no links, and never follows one: nothing
that a trainer puts into the spool makes the agent read elsewhere. Directories are opened part by part, so that one that
is swapped for a link while we look leads nowhere either.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tachograph_agent.spool.layout import AGENT_DIRECTORY, Segment, SpoolError, open_directory, open_to_read, segment_of
from tachograph_agent.spool.locks import is_locked
from tachograph_agent.spool.positions import Mark, Range

MAX_LINE_BYTES = 1024 * 1024
"""A line that grows beyond this without an end is no event: it is passed over and counted."""
HEAD_BYTES = 4096
EMPTY_KEPT_S = 60.0
"""An empty segment may be one that was opened this moment and whose lock is not taken yet."""


@dataclass(frozen=True, slots=True)
class Who:
    """Whose events a segment holds, as its first line tells."""

    run: str
    attempt: int | str | None
    node: str | None
    rank: int | None

    def fields(self) -> dict[str, Any]:
        """The fields of an event of theirs."""
        plain = {"run": self.run, "attempt": self.attempt, "node": self.node, "rank": self.rank}
        return {name: value for name, value in plain.items() if value is not None}


@dataclass(slots=True)
class Followed:
    """One segment as the follower knows it."""

    segment: Segment
    name: str
    """Its path below the spool."""
    descriptor: int
    inode: int
    mark: Mark
    read: int = 0
    """Up to where it was read."""
    size: int = 0
    changed_unix_s: float = 0.0
    who: Who | None = None
    """None until it has a whole line that tells."""
    is_stuck: bool = False
    """It could not be deleted; that was said, and is not tried again."""

    @property
    def is_agents(self) -> bool:
        """Whether an agent wrote it, this one or an earlier one."""
        return self.segment.path.parent.name == AGENT_DIRECTORY


class Follower:
    """Reads what is new in all segments. ``poll`` looks for files and growth; ``read`` hands out whole lines.

    ``marks`` is shared with ``Positions``. ``is_ours`` tells the segment that this very process writes: a process
    can't see its own lock.
    """

    def __init__(self, spool: Path, marks: dict[str, Mark], is_ours: Callable[[Path], bool] = lambda _: False) -> None:
        self.spool = spool
        self.followed: dict[str, Followed] = {}
        self.problems: dict[str, str] = {}
        """By path, what can't be read and why; each is said once."""
        self.num_torn_lines = 0
        self.on_lost: Callable[[Path, bytes], None] = lambda _, __: None
        """Given the path and the lines of a segment that was deleted before they were read."""
        self._marks = marks
        self._is_ours = is_ours
        self._last_read = ""
        self._is_whole = True
        """Whether the last look saw everything: what it did not see may be there all the same."""

    def poll(self) -> None:
        """Find new segments, new sizes, and segments that are gone or were replaced."""
        seen: set[str] = set()
        self._is_whole = True
        for user in self._directories():
            if user.startswith("u"):
                for attempt in self._directories(user):
                    self._look_into(user, attempt, seen)
        for name in [name for name in self.followed if name not in seen]:
            self._gone(name)
        if self._is_whole:
            for name in [name for name in self._marks if name not in seen]:
                del self._marks[name]

    def _directories(self, *parts: str) -> list[str]:
        shown = self.spool.joinpath(*parts)
        try:
            directory = open_directory(self.spool, *parts)
        except OSError as error:
            self._is_whole = False
            self.problems.setdefault(str(shown), f"{shown} can't be read: {error.strerror}")
            return []
        try:
            with os.scandir(directory) as entries:
                found = sorted(
                    (entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in entries
                )
        finally:
            os.close(directory)
        for name in [name for name, is_link, _ in found if is_link]:
            self.problems.setdefault(str(shown / name), f"{shown / name} is a link; it is left alone")
        return [name for name, _, is_directory in found if is_directory]

    def _look_into(self, user: str, attempt: str, seen: set[str]) -> None:
        shown = self.spool / user / attempt
        try:
            directory = open_directory(self.spool, user, attempt)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self._is_whole = False
                self.problems.setdefault(str(shown), f"{shown} can't be read: {error.strerror}")
            return
        try:
            with os.scandir(directory) as entries:
                found = [(shown / entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
            for path, status in sorted(found, key=lambda known: known[0].name):
                segment = segment_of(path)
                if segment is None:
                    self.problems.setdefault(str(path), f"{path} is no spool file; it is left alone")
                    continue
                name = f"{user}/{attempt}/{path.name}"
                seen.add(name)
                self._follow(name, segment, status, directory)
        except OSError as error:
            self._is_whole = False
            self.problems.setdefault(str(shown), f"{shown} can't be read: {error.strerror}")
        finally:
            os.close(directory)

    def _follow(self, name: str, segment: Segment, status: os.stat_result, directory: int) -> None:
        followed = self.followed.get(name)
        if followed is not None and (status.st_ino != followed.inode or status.st_size < followed.read):
            self._replaced(name, segment)
            followed = None
        if followed is None:
            try:
                descriptor = open_to_read(segment.path, directory)
            except SpoolError as error:
                self.problems.setdefault(name, str(error))
                return
            inode = os.fstat(descriptor).st_ino
            mark = self._marks.get(name)
            if mark is not None and (mark.offset > status.st_size or (mark.head and mark.head != _head(descriptor))):
                self._replaced(name, segment)
                mark = None
            if mark is None:
                mark = self._marks[name] = Mark()
            followed = self.followed[name] = Followed(segment, name, descriptor, inode, mark, mark.offset)
            if mark.head:
                followed.who = _who(descriptor)
        followed.size, followed.changed_unix_s = status.st_size, status.st_mtime

    def _replaced(self, name: str, segment: Segment) -> None:
        self.problems.setdefault(name, f"{segment.path} was replaced or cut; it is read from its start again")
        self._marks.pop(name, None)
        if name in self.followed:
            self._gone(name)

    def _gone(self, name: str) -> None:
        """A segment that somebody deleted. A writer that lives takes what is in it along; a dead one's is lost here."""
        followed = self.followed[name]
        size = os.fstat(followed.descriptor).st_size
        if size > followed.read and not self.is_written(followed):
            self.on_lost(followed.segment.path, os.pread(followed.descriptor, size - followed.read, followed.read))
        self._let_go(name)

    def _let_go(self, name: str) -> None:
        followed = self.followed.pop(name)
        with contextlib.suppress(OSError):
            os.close(followed.descriptor)

    def unread_bytes(self) -> int:
        """How much is in the spool that was not read yet."""
        return sum(followed.size - followed.read for followed in self.followed.values())

    def unconfirmed_bytes(self) -> int:
        """How much is in the spool that the collector doesn't have."""
        return sum(followed.size - followed.mark.offset for followed in self.followed.values())

    def read(self, max_bytes: int) -> Iterator[tuple[Range, bytes]]:
        """Whole lines beyond what was read, about ``max_bytes`` in all; each time another segment comes first."""
        left = max_bytes
        names = list(self.followed)
        first = names.index(self._last_read) + 1 if self._last_read in self.followed else 0
        for name in names[first:] + names[:first]:
            followed = self.followed[name]
            while left > 0 and (part := self._next(followed, left, is_first=left == max_bytes)) is not None:
                left -= len(part[1])
                self._last_read = name
                yield part

    def _next(self, followed: Followed, at_most: int, *, is_first: bool) -> tuple[Range, bytes] | None:
        begin = followed.read
        if begin >= followed.size:
            return None
        try:
            data = os.pread(followed.descriptor, min(followed.size - begin, at_most, MAX_LINE_BYTES), begin)
            if b"\n" not in data and len(data) < followed.size - begin:
                if not is_first:
                    return None  # a line longer than what is left: it comes first another time
                data = os.pread(followed.descriptor, min(followed.size - begin, MAX_LINE_BYTES), begin)
        except OSError as error:
            self.problems.setdefault(followed.name, f"{followed.segment.path} can't be read: {error.strerror}")
            return None
        length = data.rfind(b"\n") + 1
        lines = data[:length] if length < len(data) else data
        if not length:
            # A line without an end: its writer is at it, or died at it, or it never was one.
            if len(data) < MAX_LINE_BYTES and self.final_size(followed) != begin + len(data):
                return None
            self.num_torn_lines += 1
            length = len(data)
        if not followed.mark.head:
            followed.mark.head = _head(followed.descriptor)
        self.ask_who(followed)
        followed.read = begin + length
        return Range(followed.name, begin, followed.read, followed.mark.head), lines

    def ask_who(self, followed: Followed) -> Who | None:
        """Whose events the segment holds; None if its first line doesn't tell."""
        if followed.who is None:
            followed.who = _who(followed.descriptor)
        return followed.who

    def again(self, part: Range) -> bytes | None:
        """The lines of a range once more; None if the segment is gone or is another one now."""
        followed = self.followed.get(part.segment)
        if followed is None or followed.mark.head != part.head or part.end > followed.size:
            return None
        data = os.pread(followed.descriptor, part.end - part.start, part.start)
        return data[: data.rfind(b"\n") + 1]

    def is_written(self, followed: Followed) -> bool:
        """Whether the process that writes this segment lives."""
        return self._is_ours(followed.segment.path) or is_locked(followed.descriptor)

    def final_size(self, followed: Followed) -> int | None:
        """Its size if nothing can come any more; None while a process may write to it.

        The size is asked after the lock: what a writer wrote last of all, it wrote before it let go.
        """
        if self.is_written(followed):
            return None
        status = os.fstat(followed.descriptor)
        if status.st_size == 0 and time.time() - status.st_mtime < EMPTY_KEPT_S:
            return None
        return status.st_size

    def remove(self, followed: Followed) -> None:
        """Delete a segment that the collector has whole, and its directory when it is the last."""
        path = followed.segment.path
        user, attempt = path.parent.relative_to(self.spool).parts
        try:
            directory = open_directory(self.spool, user, attempt)
            try:
                os.unlink(path.name, dir_fd=directory)
            finally:
                os.close(directory)
        except OSError as error:
            # It stays followed, at its end: forgetting it would send it again.
            followed.is_stuck = True
            self.problems.setdefault(
                f"{followed.name} deleted", f"{path} can't be deleted: {error.strerror}; delete it"
            )
            return
        self._let_go(followed.name)
        self._marks.pop(followed.name, None)
        with contextlib.suppress(OSError):
            directory = open_directory(self.spool, user)
            try:
                os.rmdir(attempt, dir_fd=directory)
            finally:
                os.close(directory)

    def close(self) -> None:
        """Let all files go."""
        for name in list(self.followed):
            self._let_go(name)


def _first_line(descriptor: int) -> bytes:
    return os.pread(descriptor, HEAD_BYTES, 0).partition(b"\n")[0]


def _head(descriptor: int) -> str:
    return hashlib.sha256(_first_line(descriptor)).hexdigest()[:16]


def _who(descriptor: int) -> Who | None:
    try:
        raw = json.loads(_first_line(descriptor))
        run, attempt, node, rank = raw.get("run"), raw.get("attempt"), raw.get("node"), raw.get("rank")
    except (ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(run, str):
        return None
    return Who(
        run,
        attempt if isinstance(attempt, int | str) else None,
        node if isinstance(node, str) else None,
        rank if isinstance(rank, int) else None,
    )
