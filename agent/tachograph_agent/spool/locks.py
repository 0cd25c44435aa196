"""Whether a process holds the lock on a spool file, asked without taking it (Linux, 64 bit)."""

from __future__ import annotations

import fcntl
import os
import struct

_FLOCK = struct.Struct("@hhqqi")
"""``struct flock``: type, whence, start, length, pid."""


def is_locked(descriptor: int) -> bool:
    """Whether another process holds a POSIX record lock on the open file, in whatever PID namespace it lives.

    Asks by F_GETLK, which takes no lock: a test that took one, if only for a moment, could make the writer's own fail.
    """
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answered = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
    return bool(_FLOCK.unpack(answered)[0] != fcntl.F_UNLCK)
