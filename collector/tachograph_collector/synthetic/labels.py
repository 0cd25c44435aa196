"""What should be found in a made-up run: one label a fault that it meets, with what counts as finding it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tachograph_collector.synthetic import faults as kinds


class Label(Struct, frozen=True, kw_only=True):
    """Times are Unix seconds, as they truly were."""

    fault: str
    """``node-death`` ..."""
    at_s: float
    """When it began."""
    until_s: float | None = None
    """When it was over; None if it stayed, or its end isn't known beforehand."""
    detectors: tuple[str, ...] = ()
    """An incident of any of these finds it. Empty: nothing must be said of it (a short pause)."""
    subjects: tuple[str, ...] = ()
    """``run``, ``rank 7``, ``node n3``; any of them. Empty: whatever is named."""
    node: str | None = None
    rank: int | None = None
    consequences: tuple[str, ...] = ()
    """Detectors that may speak of it besides, without being wrong."""

    def names(self, subject: str, node: str | None = None) -> bool:
        """Whether an incident about this subject is about the right one; a bare node's name is that node."""
        if not self.subjects or subject in self.subjects or f"node {subject}" in self.subjects:
            return True
        return node is not None and subject == node and f"node {node}" in self.subjects

    def finds(self, detector: str, subject: str, found_s: float, node: str | None = None) -> bool:
        """Whether an incident found at ``found_s`` finds the fault."""
        return detector in self.detectors and self.names(subject, node) and found_s >= self.at_s

    def explains(self, detector: str, subject: str, found_s: float, node: str | None = None) -> bool:
        """Whether an incident is right: it finds the fault, or is a consequence of it."""
        if found_s < self.at_s:
            return False
        return detector in self.consequences or self.finds(detector, subject, found_s, node)


_FOUND_BY: Final[dict[type, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    kinds.NodeDeath: (("dead_node",), ("failure", "hang", "job_slow", "straggler", "restart_loop")),
    kinds.FrozenRank: (("hang",), ("failure", "job_slow", "restart_loop")),
    kinds.Crash: (("failure",), ("restart_loop",)),
    kinds.Straggler: (("straggler", "straggler_episode"), ("job_slow", "unexplained_loss")),
    kinds.HiddenStraggler: (("straggler", "straggler_episode"), ("job_slow", "unexplained_loss")),
    kinds.SlowJob: (("job_slow",), ("unexplained_loss",)),
    kinds.PeriodicSlow: (("periodic_slow",), ("unexplained_loss",)),
    kinds.LossSpike: (("loss_spike",), ("grad_norm",)),
    kinds.HiddenNan: (("nan",), ("skipped_steps", "grad_norm", "loss_spike")),
    kinds.CheckpointNeverLands: (("checkpoint_not_landed",), ("checkpoint_overdue",)),
    kinds.SlowSave: (("checkpoint_slow",), ()),
    kinds.ClockJump: (("node_health",), ()),
    kinds.NodePause: ((), ("straggler_episode", "job_slow", "hang")),
    kinds.Xid: (("xid", "node_health"), ("failure",)),
}
"""Which detectors find a fault, and which may speak of it besides."""


def label_of(
    fault: kinds.Fault, at_s: float, *, node: str | None = None, rank: int | None = None, until_s: float | None = None
) -> Label:
    """The label of a fault of one subject: the rank, if there is one, else the node, else the run.

    A frozen rank may also be found as its node's, or as the whole run's hang. A crash stops the run.
    """
    detectors, consequences = _FOUND_BY[type(fault)]
    subjects: tuple[str, ...] = ()
    if not detectors:
        pass
    elif isinstance(fault, kinds.FrozenRank):
        subjects = (f"rank {rank}", "run", f"node {node}")
    elif isinstance(fault, kinds.Crash):
        subjects = ("run",)
    elif rank is not None:
        subjects = (f"rank {rank}",)
    elif node is not None:
        subjects = (f"node {node}",)
    elif not isinstance(fault, kinds.CheckpointNeverLands | kinds.SlowSave):
        subjects = ("run",)
    return Label(
        fault=fault.name,
        at_s=at_s,
        until_s=until_s,
        detectors=detectors,
        subjects=subjects,
        node=node,
        rank=rank,
        consequences=consequences,
    )
