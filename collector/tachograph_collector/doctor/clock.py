"""The machine's clock: whether something keeps it right, as the kernel says."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.doctor.place import Place

EARLIEST_UNIX_S: Final = 1_700_000_000.0
"""A clock before this (November 2023) was never set: Tachograph is younger."""
_NOT_KEPT: Final = 5
"""adjtimex(2): TIME_ERROR, the clock is not synchronised."""
_ROOM_BYTES: Final = 512
"""More than a ``struct timex`` on any machine; zeroed it asks and sets nothing."""


def look(place: Place) -> Iterator[Finding]:  # noqa: ARG001 - every check takes the place
    """What it shows, and whether it is kept."""
    now_unix_s = time.time()
    shown = datetime.fromtimestamp(now_unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now_unix_s < EARLIEST_UNIX_S:
        yield fail("clock", f"it says {shown}: it was never set", "start chrony or systemd-timesyncd, then look again")
        return
    is_kept = kept_right()
    if is_kept is False:
        yield warn(
            "clock",
            f"{shown}; the kernel says that nothing keeps it right",
            "start chrony or systemd-timesyncd (in a container: on the host); times of several nodes must agree",
        )
    else:
        yield ok("clock", f"{shown}" + (", kept right" if is_kept else "; whether it is kept right is unknown"))


def kept_right() -> bool | None:
    """Whether the kernel takes its clock for synchronised; None where it doesn't say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_ROOM_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _NOT_KEPT
