"""All checks of a node, wired: the one place that knows which there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tachograph_agent.health.clock import NodeClock
from tachograph_agent.health.disk import Disk
from tachograph_agent.health.finding import Check
from tachograph_agent.health.infiniband import InfiniBand
from tachograph_agent.health.kernel_log import DEVICE, KernelLog
from tachograph_agent.health.memory import Memory
from tachograph_agent.health.nvml import Nvml
from tachograph_agent.health.plugins import plug_ins
from tachograph_agent.health.stuck import StuckProcesses


def node_checks(
    spool: Path,
    state_directory: Path,
    offset_s: Callable[[], float | None],
    disks: Iterable[Path] = (),
    kernel_log: Path = DEVICE,
) -> list[Check]:
    """Every check, plug-ins included. ``disks`` are looked at besides the spool's."""
    kernel = KernelLog(state_directory, kernel_log)
    return [
        kernel,
        Nvml(state_directory),
        InfiniBand(),
        Memory(tells_kills=lambda: not kernel.sees),
        StuckProcesses(),
        NodeClock(offset_s),
        Disk(spool, must_write=True),
        *(Disk(path) for path in disks),
        *plug_ins(),
    ]
