"""What should be found in a made-up run: one label a fault that it meets, with what counts as finding it."""

from __future__ import annotations

from msgspec import Struct


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
    """``run``, ``rank 7``, ``node n3``, ``group``; any of them. Empty: whatever is named."""
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
