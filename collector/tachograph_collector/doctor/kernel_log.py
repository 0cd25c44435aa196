"""Whether the kernel's log can be read: Xids, GPUs off the bus, kills for want of memory stand nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tachograph_agent.health.kernel_log import KernelLog

from tachograph_collector.doctor.agents_eyes import through
from tachograph_collector.doctor.finding import Finding
from tachograph_collector.doctor.place import Place


def look(place: Place) -> Iterator[Finding]:  # noqa: ARG001 - every check takes the place
    """Whether this user may; what the agent remembers of it is left alone."""
    with TemporaryDirectory(prefix="tachograph-doctor-") as nothing:
        yield from through(KernelLog(Path(nothing)), "kernel log", "can be read")
