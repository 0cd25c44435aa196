"""One rank's file: appends lines, counts what it can't write, starts a new segment when one is full.

Layout of a segment: UTF-8 JSON Lines, one event each, written by one ``write`` call with O_APPEND, so that a reader
sees whole lines up to the last newline. After a write that ended in the middle of a line the next one starts with a
newline: the torn line stands alone. While the process lives it holds a POSIX record lock on the newest segment.

Thread-safety: ``append`` may be called from any thread; two threads' lines never mix. Not shared between processes: a
forked child must call ``forget`` and write nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from os import write
from pathlib import Path

from tachograph_agent.spool.layout import make_directory, open_to_append, refuse_foreign, segment_path, segments_in

SEGMENT_BYTES = 16 * 1024 * 1024
COPY_BYTES = 1024 * 1024
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class RankFile:
    """Appends events of one rank. Raises ``OSError`` (``SpoolError``) only when it is made."""

    def __init__(self, spool: Path, directory: Path, rank: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        refuse_foreign_spool(spool)
        make_directory(spool, directory)
        self._spool = spool
        self._mending = threading.Lock()
        self._directory = directory
        self._rank = rank
        self._segment_bytes = segment_bytes
        self._number = max((s.number for s in segments_in(directory) if s.rank == rank), default=0)
        self._torn = False
        self._room = segment_bytes
        """Bytes until the segment is full."""
        self.num_dropped = 0
        self.is_full = False
        """Whether the last write failed since the disk, or the user's share of it, is full."""
        self.descriptor = -1
        self._open_next()

    @property
    def number(self) -> int:
        """Which segment it writes."""
        return self._number

    def append(self, line: bytes) -> bool:
        """Write one line (with its newline). False if it could not be written: it is counted in ``num_dropped``."""
        if self._torn:
            line = b"\n" + line
        try:
            written = write(self.descriptor, line)
        except OSError as error:
            self.is_full = error.errno in NO_ROOM
            self.num_dropped += 1
            return False
        if written != len(line):
            self._torn = self.is_full = True
            self.num_dropped += 1
            return False
        if self._torn:
            self._torn = False
        self._room -= written
        if self._room <= 0:
            self._next_segment()
        return True

    def mend(self) -> bool:
        """Go on in a new file where somebody deleted or replaced this one, and take along what was in it.

        True if that was so and is done. Cheap, but a system call: to be asked now and then, not with each line. While
        no new file can be made it is False, and what is written meanwhile comes along later.
        """
        try:
            if self.descriptor < 0 or os.fstat(self.descriptor).st_nlink > 0:
                return False
        except OSError:
            return False
        if not self._mending.acquire(blocking=False):
            return False  # another thread is at it
        try:
            return self._move()
        finally:
            self._mending.release()

    def _move(self) -> bool:
        old = self.descriptor
        try:
            make_directory(self._spool, self._directory)
            self._open_next()
        except OSError:
            return False
        # What has no name any more can still be read by whoever has it open. The collector knows what it has.
        with contextlib.suppress(OSError), Path(f"/proc/self/fd/{old}").open("rb") as gone:
            while part := gone.read(COPY_BYTES):
                self._room -= write(self.descriptor, part)
        with contextlib.suppress(OSError):
            os.close(old)
        return True

    def _next_segment(self) -> None:
        """Go on in a new segment; stay in this one where none can be opened."""
        old = self.descriptor
        try:
            self._open_next()
        except OSError:
            self._room = self._segment_bytes
            return
        with contextlib.suppress(OSError):
            os.close(old)

    def _open_next(self) -> None:
        path = segment_path(self._directory, self._rank, self._number + 1)
        descriptor = open_to_append(path)
        try:
            # Never waits: a lock that another process holds on a new segment would be a rank number given twice.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._number += 1
        self.descriptor, self._room = descriptor, self._segment_bytes - os.fstat(descriptor).st_size

    def close(self) -> None:
        """Let the file and its lock go."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def forget(self) -> None:
        """In a forked child: close the inherited descriptor. The parent's lock is the parent's, and stays."""
        self.close()


def refuse_foreign_spool(spool: Path) -> None:
    """The spool must be a directory; it may belong to another user, or be a link. Our own directory in it may not."""
    if not spool.is_dir():
        raise NotADirectoryError(f"the spool {spool} is no directory; create it, or set TACHOGRAPH_SPOOL to one")
    user = spool / f"u{os.getuid()}"
    if user.is_symlink() or user.exists():
        refuse_foreign(user, directory=True)
