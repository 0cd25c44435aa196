"""Whether this node is the one to read a log: a log on a shared file system is read by one agent only."""

from __future__ import annotations

import os
import re
from pathlib import Path

SHARED = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "wekafs", "panfs", "glusterfs", "orangefs"}
)
_SHARED_BY_FUSE = re.compile(r"fuse\.(?!lxcfs|overlayfs|fuse-overlayfs|portal|gvfsd)")
MOUNTS = Path("/proc/self/mountinfo")


def reason_not_to_read(path: Path, node: str, owner: str | None, mounts: Path = MOUNTS) -> str | None:
    """Why this node's agent is not to read the log; None if it is to."""
    if owner is not None:
        return None if owner == node else f"--log-owner says that {owner} reads it, and this node is {node}"
    kind = file_system(path, mounts)
    if kind in SHARED or _SHARED_BY_FUSE.match(kind):
        return f"it is on a shared file system ({kind}), where every node would read it: say which one, by --log-owner"
    return None


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of file system that a path is on; empty where that can't be known."""
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):  # of two mounts on one place the later hides the earlier
            best, kind = point, after.split()[0]
    return kind
