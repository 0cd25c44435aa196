"""What the collector has confirmed of each segment, and which batch is on its way; survives the agent's death.

One JSON file, replaced as a whole (written beside it, synced, renamed). The batch on its way is written down before it
is sent first: an agent that died without having heard the answer sends the very same batch again, under the same name,
so that the collector knows it. What became of a segment's writer is written down too, before it is told: the telling
can be repeated word for word after the agent's death, and is then known as the same event.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1
ENDED = "ended"
DIED = "died"


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes [start, end) of one segment, named by its path below the spool and known by how it begins."""

    segment: str
    start: int
    end: int
    head: str = ""


@dataclass(slots=True)
class Mark:
    """What is known of one segment."""

    head: str = ""
    """A digest of its first line: a file of the same name that begins otherwise is another file."""
    offset: int = 0
    """The collector has stored everything before it."""
    writer: str = ""
    """Empty while its process may write; then ``ENDED``, with a good-bye, or ``DIED``."""
    died_unix_s: float = 0.0
    told: bool = False
    """Whether the death was written into the agent's own file."""

    @property
    def is_settled(self) -> bool:
        """Whether its writer is gone and all is said about that."""
        return self.writer == ENDED or (self.writer == DIED and self.told)


@dataclass(slots=True)
class Positions:
    """Marks by segment. Not thread-safe; one agent owns the file."""

    path: Path
    marks: dict[str, Mark] = field(default_factory=dict)
    pending: tuple[Range, ...] = ()
    """The batch that was sent and whose answer is not known."""
    problem: str = ""
    """Why the file could not be read, if it is there and could not."""

    @classmethod
    def load(cls, path: Path) -> Positions:
        """What the file tells; nothing is confirmed where there is none, or it can't be read.

        Losing it costs sending again what the collector has, which it recognises event by event.
        """
        positions = cls(path)
        try:
            raw = json.loads(path.read_bytes())
            marks = {str(name): _mark(told) for name, told in raw[f"segments.{VERSION}"].items()}
            positions.pending = tuple(
                Range(str(s), int(low), int(high), str(head)) for s, low, high, head in raw["pending"]
            )
            positions.marks = marks
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            positions.problem = f"{path} can't be read ({error}); what is in the spool is sent again"
        return positions

    def save(self) -> None:
        """Write the file; raises ``OSError`` if the disk refuses."""
        raw = {
            f"segments.{VERSION}": {
                name: [mark.head, mark.offset, mark.writer, mark.died_unix_s, mark.told]
                for name, mark in self.marks.items()
            },
            "pending": [[part.segment, part.start, part.end, part.head] for part in self.pending],
        }
        self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, 0o640), "w", encoding="utf-8") as file:
            json.dump(raw, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def confirm(self, ranges: tuple[Range, ...]) -> None:
        """The collector has stored these for good. Ranges of a file that was replaced since change nothing."""
        for part in ranges:
            mark = self.marks.get(part.segment)
            if mark is not None and mark.head == part.head:
                mark.offset = max(part.end, mark.offset)
        self.pending = ()


def _mark(told: list[Any]) -> Mark:
    head, offset, writer, died_unix_s, is_told = told
    return Mark(str(head), int(offset), str(writer), float(died_unix_s), bool(is_told))
