r"""Reads ``/dev/kmsg`` without blocking, from where it was read to last: by boot id and record number, kept on disk.

A record is ``priority,number,microseconds since boot,flags;text`` and lines of context that begin with a blank. In its
text, whatever is not printable is written ``\x0a`` and the like (Documentation/ABI/testing/dev-kmsg of the kernel).
Numbers go on by one: one that jumps tells how many records were overwritten before they were read.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RECORD_BYTES = 16 * 1024
"""More than the kernel makes a record; it gives one record a read."""
MAX_UNENDED_BYTES = 4 * RECORD_BYTES
MAX_REFUSED = 1000
"""Reads in a row that may be refused before it is no log that can be read."""
SAME_CLOCK_S = 1.0
FACILITY_KERNEL = 0
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
log = logging.getLogger("tachograph.agent")


@dataclass(frozen=True, slots=True)
class Record:
    """One message; ``text`` may have several lines."""

    number: int
    since_boot_s: float
    text: str
    is_kernels: bool
    """Not written by a process: anyone with the right to may write to the log."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far one boot's log has been read. ``boot_unix_s`` dates records alike over the agent's restarts."""

    boot_id: str
    next_number: int
    """-1 where nothing is known: what is there then is old, and is passed over."""
    boot_unix_s: float


def parse(raw: bytes) -> Record | None:
    """The record; None if it is none."""
    head, separator, body = raw.decode("utf-8", errors="replace").partition(";")
    parts = head.split(",")
    if not separator or len(parts) < 3 or not all(part.isascii() and part.isdigit() for part in parts[:3]):
        return None
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), body)
    return Record(int(parts[1]), int(parts[2]) / 1e6, text, int(parts[0]) >> 3 == FACILITY_KERNEL)


class Reader:
    """The records of an open log. A torn line is kept until its rest has come; one without an end is given up."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unended = b""

    def records(self, most: int | None = None) -> Iterator[Record]:
        """What is there, ``most`` reads at most. Raises ``OSError`` if it can't be read."""
        num_refused = 0
        while most is None or most > 0:
            most = None if most is None else most - 1
            try:
                raw = os.read(self._descriptor, RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # Overwritten, or longer than any record should be: the kernel goes on with the next.
                num_refused += 1
                if error.errno in (errno.EPIPE, errno.EINVAL) and num_refused < MAX_REFUSED:
                    continue
                raise
            num_refused = 0
            if not raw:
                return
            *lines, self._unended = (self._unended + raw).split(b"\n")
            if len(self._unended) > MAX_UNENDED_BYTES:
                self._unended = b""
            for line in lines:
                record = None if line.startswith(b" ") else parse(line)
                if record is not None:
                    yield record

    def close(self) -> None:
        """Let the log go."""
        os.close(self._descriptor)


def read_position(path: Path) -> Position | None:
    """The position that was kept; None if there is none or it can't be read."""
    try:
        raw = json.loads(path.read_bytes())
        return Position(str(raw["boot_id"]), int(raw["next_number"]), float(raw["boot_unix_s"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_position(path: Path, position: Position) -> None:
    """Keep a position; says so if it can't be."""
    beside = path.with_suffix(".new")
    told = {
        "boot_id": position.boot_id,
        "next_number": position.next_number,
        "boot_unix_s": round(position.boot_unix_s, 6),
    }
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, 0o640), "w", encoding="utf-8") as file:
            json.dump(told, file)
        beside.replace(path)
    except OSError as error:
        log.warning("%s can't be written (%s); after a restart the kernel log is read from its end", path, error)


def first_position(kept: Position | None, boot_id: str) -> Position:
    """Where to begin: where it was left; at this boot's first record if the machine was booted since."""
    boot_unix_s = time.time() - time.monotonic()
    if kept is None:
        return Position(boot_id, -1, boot_unix_s)
    if kept.boot_id != boot_id:
        return Position(boot_id, 0, boot_unix_s)
    is_same = abs(kept.boot_unix_s - boot_unix_s) < SAME_CLOCK_S
    return kept if is_same else Position(boot_id, kept.next_number, boot_unix_s)
