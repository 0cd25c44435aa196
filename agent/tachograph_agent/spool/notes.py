"""One event put into the spool by a process that is no rank: the wrapper ``exec``, a scheduler's hook, a launcher.

Each such process has a file of its own, named after its process id, in its user's ``agent`` directory: the agent ships
it like its own events, and takes nobody for dead when it is let go.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tachograph_agent.spool.layout import AGENT_DIRECTORY
from tachograph_agent.spool.rankfile import RankFile

NOTE_SEGMENT_BYTES = 1024 * 1024


def write_notes(spool: Path, *events: dict[str, Any]) -> None:
    """Write events (None fields are left out) and let the file go. Raises ``OSError`` if they can't be written."""
    file = RankFile(spool, spool / f"u{os.getuid()}" / AGENT_DIRECTORY, os.getpid(), NOTE_SEGMENT_BYTES)
    try:
        for event in events:
            plain = {name: value for name, value in event.items() if value is not None}
            if not file.append(json.dumps(plain, separators=(",", ":")).encode() + b"\n"):
                raise OSError(f"the spool {spool} takes no more: its disk is full, or can't be written")
    finally:
        file.close()
