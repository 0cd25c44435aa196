"""What to do about a sick node, by the check that its agent tells (docs/health.md has the checks)."""

from __future__ import annotations

from typing import Final

LOOK: Final = "look at the node; leave it out if it fails again"
_LINK: Final = "look at its cable, transceiver and switch port; drain the node at the next restart if errors go on"
_STUCK: Final = "see whether the file system answers on the node: others that wait for it share the cause"
_BY_CHECK: Final = {
    "clock": "see that the node's time service (chrony, NTP) runs and reaches its servers",
    "disk": "free space on that disk, before saves or the agent's spool can't be written",
    "ecc": "watch it: if it comes again, drain the node and test the GPU's memory",
    "gpu_missing": "drain the node; start it anew, and replace the GPU if it doesn't come back",
    "hung_task": _STUCK,
    "ib": _LINK,
    "link": _LINK,
    "machine_check": "drain the node at the next restart, and test its memory and processors",
    "memory": "see what takes the node's memory, such as data loaders, before the kernel kills a rank",
    "nvlink": "drain the node at the next restart if errors go on: they slow collectives down",
    "nvml": "the GPU's driver doesn't answer: drain the node and start it anew",
    "oom": "see what was killed and what had taken the memory: fewer or smaller data loaders help",
    "row_remap": "reset the GPU when the run stops next; replace it where no row is left to remap to",
    "stuck": _STUCK,
    "throttle": "look at the node's fans, power and inlet air: a GPU that is slowed down slows all ranks down",
}


def remedy(check: str) -> str:
    """A sentence for who is woken by it; a general one for a check that is not known."""
    return _BY_CHECK.get(check, LOOK)
