"""The spool's disk: room, inodes, read-only; with the agent's own limits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Final

from tachograph_agent.health.disk import Disk

from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.doctor.place import Place

MIN_FREE_BYTES: Final = 512 * 1024**2
"""What an agent leaves free (its --min-free): below it, it deletes step samples."""


def look(place: Place) -> Iterator[Finding]:
    """What is short where the spool is, or would be."""
    where = place.near_spool
    try:
        free = shutil.disk_usage(where).free
        found = list(Disk(where, must_write=place.spool.is_dir()).look())
    except OSError as error:
        yield warn("disk", f"{where} can't be looked at: {(error.strerror or str(error)).lower()}", "check the mount")
        return
    yield ok("disk", f"{free / 1e9:.1f} GB free where {where} is")
    for each in found:
        told = fail if each.severity == "critical" else warn
        yield told("disk", each.detail, "make room, or name another spool: TACHOGRAPH_SPOOL")
    if free < MIN_FREE_BYTES:
        yield warn(
            "disk",
            f"less than {MIN_FREE_BYTES / 1e9:.1f} GB is free",
            "make room: an agent deletes step samples to keep that free (--min-free)",
        )
