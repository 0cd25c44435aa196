"""What the loop lets others see of itself: replaced as a whole, so that any thread reads it whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tachograph_agent.sidecar.liveness import LiveRun


@dataclass(frozen=True, slots=True)
class Status:
    """The agent at one moment."""

    runs: Mapping[tuple[str, int | str | None], LiveRun] = field(default_factory=dict)
    unconfirmed_bytes: int = 0
    """In the spool, and not confirmed by the collector."""
    num_segments: int = 0
    oldest_unix_s: float | None = None
    """When the oldest unconfirmed segment was last written to; None if all is confirmed."""
