"""What the agent counts: read by its metrics, its heartbeat and its tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Counts since the agent's start. Written by one thread; readers see each number whole."""

    lines_read: int = 0
    batches_sent: int = 0
    events_stored: int = 0
    events_rejected: int = 0
    batches_refused: int = 0
    retries: int = 0
    bytes_sent: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By class: ``step`` or ``lifecycle``."""
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Health findings by check and severity, each once, however many runs are told of it."""
    deaths: int = 0
    heartbeats_sent: int = 0
    heartbeats_dropped: int = 0
    batches_split: int = 0
    torn_lines: int = 0
    last_stored_unix_s: float | None = None
