"""The check of one disk: free space, free inodes, and whether it turned read-only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tachograph_agent.health.finding import AbsentError, Finding

WARNING_SHARE, CRITICAL_SHARE = 0.05, 0.01
"""Free shares below which it is a finding; of space and of inodes."""


class Disk:
    """Looks at the file system of ``path``, which ``must_write`` says can't be read-only from the first look on."""

    every_s = 60.0
    timeout_s = 20.0

    def __init__(self, path: Path, *, must_write: bool = False) -> None:
        self.path = path
        self.name = f"disk {path}"
        self._was_writable = must_write

    def look(self) -> Iterable[Finding]:
        """What is short."""
        try:
            seen = os.statvfs(self.path)
        except FileNotFoundError as error:
            raise AbsentError(f"no {self.path}") from error
        found = []
        for what, free, whole in (
            ("space", seen.f_bavail, seen.f_blocks - seen.f_bfree + seen.f_bavail),
            ("inodes", seen.f_favail, seen.f_files),
        ):
            if whole <= 0:
                continue  # a file system without a fixed number of them
            share = free / whole
            if share < WARNING_SHARE:
                severity = "critical" if share < CRITICAL_SHARE else "warning"
                detail = f"{share:.1%} of the {what} of {self.path} is free"
                found.append(Finding("disk", severity, detail, round(share, 4), subject=f"{self.path} {what}"))
        is_read_only = bool(seen.f_flag & os.ST_RDONLY)
        if is_read_only and self._was_writable:
            found.append(Finding("disk", "critical", f"{self.path} is read-only", subject=f"{self.path} read-only"))
        self._was_writable = self._was_writable or not is_read_only
        return found
