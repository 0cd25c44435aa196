"""What a trainer's-log adapter is: it recognises its format, and turns lines into events.

An adapter is a class with a ``name``, a ``title`` and two methods, ``sniff`` and ``read``. It never opens a file, never
asks the clock, never raises on what a log contains. What it had to assume goes into ``context.note`` (said once beside
the answer); a line that should have been a record and could not be read goes into ``context.skip``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import ClassVar, Protocol

from tachograph_agent.events import AnyEvent

NUM_REPORTED_SKIPS = 5


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """One line that could not be read: where it stands and why."""

    file: str
    line_number: int
    reason: str


@dataclass(slots=True)
class Context:
    """What an adapter is told, and where it says what it assumed, skipped and did not know.

    ``run`` names the run; ``tz`` is the zone of local times without one (None: UTC is taken, the adapter notes it);
    ``start_unix_seconds`` places a log without any clock (None: its timeline starts at 0, ``has_clock`` turns False).
    """

    run: str
    file: str = "-"
    tz: tzinfo | None = None
    tz_is_own: bool = False
    """Whether ``tz`` is this machine's, since nobody named one: it is noted where a time needs it."""
    start_unix_seconds: float | None = None
    year: int | None = None
    has_clock: bool = True
    notes: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    skips: list[SkippedLine] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)

    def note(self, sentence: str) -> None:
        """Say once, beside the answer, what was assumed or can't be known."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def skip(self, line_number: int, reason: str) -> None:
        """Count a line that should have been a record; the first few are kept with their reason."""
        self.skipped_lines += 1
        self.counters[reason] += 1
        if len(self.skips) < NUM_REPORTED_SKIPS:
            self.skips.append(SkippedLine(self.file, line_number, reason))


class Adapter(Protocol):
    """One trainer's log format."""

    name: ClassVar[str]
    """What ``--format`` takes, such as ``megatron``."""
    title: ClassVar[str]
    """One line for ``tachograph formats``."""

    def sniff(self, head: str) -> float:
        """How sure the first 64 KiB of a file are of this format: 0 not at all, 1 beyond doubt."""
        ...

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """The events of ``lines`` (decoded, without newline, bounded in length), in the log's order."""
        ...
