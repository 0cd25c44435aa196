"""The names of all detectors, so that one that is misspelt is told from one that has nothing to say."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

DETECTORS: Final = (
    "checkpoint_backwards", "checkpoint_not_landed", "checkpoint_overdue", "checkpoint_persist", "checkpoint_slow",
    "dead_node", "failure", "grad_norm", "hang", "interval", "job_slow", "loss_spike", "nan", "node_health",
    "periodic_slow", "restart_loop", "restart_phase", "retention", "silent_corruption", "skipped_steps", "straggler",
    "straggler_episode", "straggler_group", "unexplained_loss", "xid",
)  # fmt: skip


def misspelt(name: str) -> str | None:
    """What is wrong with a name that no detector has, with those that are like it; None if one has it."""
    if name in DETECTORS:
        return None
    near = get_close_matches(name.replace("-", "_").lower(), DETECTORS, 3, 0.5)
    return f"no detector has the name {name[:50]!r}; " + (
        f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(DETECTORS)}"
    )
