"""The spool: whether ranks could write there and an agent delete there, and whether anybody ships what lies in it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.doctor.place import Place

OLD_S: Final = 600.0
"""A file that nobody wrote to for so long, and that is still there, is not being shipped."""
MAX_FILES: Final = 10_000


def look(place: Place) -> Iterator[Finding]:
    """Whether it is there, who may, and what waits."""
    spool, user = place.spool, os.getuid()
    if not spool.exists():
        make = f"mkdir -p {spool} && chmod 3777 {spool}"
        if place.is_spool_named:
            yield fail("spool", f"{spool} is not there", f"{make} (docs/deploy.md has it for systemd and Kubernetes)")
        else:
            yield ok("spool", f"none here: no {spool}, and TACHOGRAPH_SPOOL names no other", f"to record: {make}")
        return
    if not spool.is_dir():
        yield fail("spool", f"{spool} is no directory", "name a directory: TACHOGRAPH_SPOOL, or --spool DIR")
        return
    mode = spool.stat().st_mode
    if not os.access(spool, os.R_OK | os.W_OK | os.X_OK):
        yield fail(
            "spool",
            f"{spool} ({stat.filemode(mode)}): user {user} can't read and write there",
            f"chmod 3777 {spool}, or chown it to the one user who trains",
        )
        return
    yield ok("spool", f"{spool} ({stat.filemode(mode)}), user {user} can write there")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield warn("spool", f"every user may delete what others wrote in {spool}", f"chmod +t {spool}")
    yield from _waiting(spool)


def _waiting(spool: Path) -> Iterator[Finding]:
    num_files, oldest_unix_s = 0, time.time()
    for folder, folders, names in os.walk(spool):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.endswith(".jsonl"):
                continue
            num_files += 1
            try:
                oldest_unix_s = min(oldest_unix_s, (Path(folder) / name).stat().st_mtime)
            except OSError:
                continue  # shipped and deleted meanwhile
        if num_files > MAX_FILES:
            break
    age_s = time.time() - oldest_unix_s
    if num_files and age_s > OLD_S:
        yield warn(
            "spool",
            f"{num_files} files wait, the oldest written {age_s / 3600:.1f} h ago: nobody ships them",
            f"start tachograph-agent here (docs/agent.md), or read them: tachograph replay {spool}/*/*.jsonl",
        )
