"""What the collector has confirmed of each segment, and which batch is on its way; survives the agent's death.

One JSON file, replaced as a whole (written beside it, synced, renamed). The batch on its way is written down before it
is sent first: an agent that died without having heard the answer sends the very same batch again, under the same name,
so that the collector knows it.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

VERSION = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes [start, end) of one segment, named by its path below the spool."""

    segment: str
    start: int
    end: int


@dataclass(slots=True)
class Positions:
    """Confirmed offsets by segment. Not thread-safe; one agent owns the file."""

    path: Path
    confirmed: dict[str, int] = field(default_factory=dict)
    pending: tuple[Range, ...] = ()
    """The batch that was sent and whose answer is not known."""

    @classmethod
    def load(cls, path: Path) -> Positions:
        """What the file tells; nothing is confirmed where there is none, or it can't be read.

        Losing it costs sending again what the collector has, which it recognises event by event.
        """
        positions = cls(path)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            raw = json.loads(path.read_bytes())
            if raw["version"] == VERSION:
                positions.confirmed = {str(name): int(offset) for name, offset in raw["confirmed"].items()}
                positions.pending = tuple(Range(str(name), int(low), int(high)) for name, low, high in raw["pending"])
        return positions

    def save(self) -> None:
        """Write the file; raises ``OSError`` if the disk refuses."""
        raw = {
            "version": VERSION,
            "confirmed": self.confirmed,
            "pending": [[part.segment, part.start, part.end] for part in self.pending],
        }
        beside = self.path.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(raw, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def confirm(self, ranges: tuple[Range, ...]) -> None:
        """The collector has stored these for good."""
        for part in ranges:
            self.confirmed[part.segment] = max(part.end, self.confirmed.get(part.segment, 0))
        self.pending = ()

    def forget(self, segment: str) -> None:
        """The segment is gone."""
        self.confirmed.pop(segment, None)
