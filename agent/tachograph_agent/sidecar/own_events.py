"""Events that the agent makes itself: written into a spool file of its own and shipped like everything else."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tachograph_agent.spool.layout import AGENT_DIRECTORY, segment_path
from tachograph_agent.spool.rankfile import NO_ROOM, RankFile

OWN_SEGMENT_BYTES = 1024 * 1024


class OwnEvents:
    """Writes events of this agent. ``write`` may be called from any thread and never raises.

    The file is opened with the first event: an agent that has nothing to say leaves nothing behind.
    """

    def __init__(self, spool: Path, node: str, clock: Callable[[], float] = time.time) -> None:
        self._spool = spool
        self._node = node
        self._clock = clock
        self._directory = spool / f"u{os.getuid()}" / AGENT_DIRECTORY
        self._file: RankFile | None = None
        self._lock = threading.Lock()
        self.is_full = False
        """Whether the last event could not be written since the disk is full."""

    def write(self, kind: str, *, t: float | None = None, **fields: Any) -> bool:
        """Write one event (None fields are left out); False if it can't be. ``t`` is now unless it is told."""
        told = {"kind": kind, "node": self._node, **fields, "t": round(self._clock() if t is None else t, 6)}
        plain = {name: value for name, value in told.items() if value is not None}
        return self.keep(json.dumps(plain, separators=(",", ":"), default=str).encode() + b"\n")

    def keep(self, lines: bytes) -> bool:
        """Write lines that are events already; False if they can't be."""
        with self._lock:
            try:
                if self._file is None:
                    self._file = RankFile(self._spool, self._directory, 0, OWN_SEGMENT_BYTES)
                self._file.mend()
                is_kept = self._file.append(lines)
                self.is_full = not is_kept and self._file.is_full
            except OSError as error:
                self.is_full = error.errno in NO_ROOM
                return False
            return is_kept

    def is_ours(self, path: Path) -> bool:
        """Whether this agent writes to the segment at ``path`` now."""
        file = self._file
        return file is not None and path == segment_path(self._directory, 0, file.number)

    def turn_the_page(self) -> None:
        """Close the file; the next event begins another."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    close = turn_the_page
