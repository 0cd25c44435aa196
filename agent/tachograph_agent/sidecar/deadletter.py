"""Where batches go that the collector refuses for good: one file each, bounded in number, nothing lost in silence."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tachograph_agent.sidecar.batch import Batch

MAX_FILES = 100


def keep(directory: Path, batch: Batch, reason: str) -> Path | None:
    """Write a refused batch and why; the oldest go when there are too many. None if the disk refuses too."""
    path = directory / f"{batch.name}.jsonl"
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"# " + reason.replace("\n", " ").encode("utf-8", "replace") + b"\n" + batch.lines)
        kept = sorted(directory.glob("*.jsonl"), key=lambda known: known.stat().st_mtime)
        for old in kept[:-MAX_FILES]:
            with contextlib.suppress(OSError):
                old.unlink()
    except OSError:
        return None
    return path
