"""The event log, read fast: blocks of whole lines decoded at once, one line at a time only where one of them is bad.

``EventLogStream`` gives the events of one file in chunks and remembers of each chunk where it lies and how late its
latest event is, so that ``again`` can go back to a stretch without reading the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec

from tachograph_agent.events import AnyEvent, EventError, decode, decode_lines
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.files import MAX_LINE_BYTES, Source, WholeLines

NAME: Final = "events"
TITLE: Final = "Tachograph's event log (JSON Lines)"
_BOM: Final = b"\xef\xbb\xbf"
_NUM_SNIFFED_LINES: Final = 200
_time = attrgetter("t")


def sniff(head: bytes) -> float:
    """How sure the first 64 KiB are of an event log: the share of lines that look like an object with a kind."""
    lines = [line for line in head.removeprefix(_BOM).split(b"\n")[:_NUM_SNIFFED_LINES] if line.strip()]
    alike = sum(line.lstrip().startswith(b"{") and b'"kind"' in line for line in lines)
    return 0.4 + 0.6 * alike / len(lines) if alike else 0.0


@dataclass(slots=True)
class _Stretch:
    """Where a chunk lies in the uncompressed file, and the time of its latest event, once that has been asked for.

    Most logs are never gone back into, and looking for the latest of a million events is a tenth of reading them.
    """

    offset: int
    length: int
    latest: float = math.inf


class EventLogStream:
    """The events of one event log in chunks of about 64 KiB, in the file's order; ``context`` counts what was bad."""

    def __init__(self, source: Source, context: Context, *, keep_open: bool = True) -> None:
        self.source = source
        self.context = context
        self._keep_open = keep_open
        self._stretches: list[_Stretch] = []
        self._plain: bool | None = None

    def chunks(self) -> Iterator[list[AnyEvent]]:
        """All events, for the first time; what can't be read is counted in the context."""
        line_number = 1
        offset = 0
        self._stretches = []
        blocks = self.source.blocks(self.context.note, keep_open=self._keep_open)
        for lines, too_long in WholeLines(blocks):
            if too_long:
                self.context.skip(
                    line_number, f"a line of {too_long} bytes; the longest that is read has {MAX_LINE_BYTES}"
                )
                events: list[AnyEvent] = []
                line_number += 1
            else:
                events = events_of(lines, line_number, self.context)
                line_number += lines.count(b"\n")
            length = too_long or len(lines)
            self._stretches.append(_Stretch(offset, length, -math.inf if too_long else math.inf))
            offset += length
            yield events

    def again(self, num_chunks: int, since: float) -> Iterator[list[AnyEvent]]:
        """The first ``num_chunks`` chunks again, an empty one for each without an event at or after ``since``."""
        if self._plain is None:
            self._plain = self.source.plain()
        quiet = Context(run=self.context.run, file=self.context.file)
        for stretch, lines in self._lines_again(self._stretches[:num_chunks], since, quiet):
            events = events_of(lines, 1, quiet) if lines else []
            if stretch.latest == math.inf:
                stretch.latest = max(map(_time, events), default=-math.inf)
            yield events

    def _lines_again(
        self, stretches: Sequence[_Stretch], since: float, context: Context
    ) -> Iterator[tuple[_Stretch, bytes]]:
        """The lines of each stretch, none of one that is known to be over before ``since``."""
        if self._plain:
            for stretch in stretches:
                lines = b"" if stretch.latest < since else self.source.at(stretch.offset, stretch.length)
                if lines and len(lines) < stretch.length:
                    self.context.note(f"{self.source.name}: became shorter while it was read; a part is missing")
                yield stretch, lines
            return
        blocks = self.source.blocks(context.note, keep_open=self._keep_open)
        for stretch, (lines, _) in zip(stretches, WholeLines(blocks), strict=False):
            yield stretch, b"" if stretch.latest < since else lines


def events_of(lines: bytes, first_line_number: int, context: Context) -> list[AnyEvent]:
    """The events of some whole lines, the first with that number; those without a run get the context's."""
    try:
        events: list[AnyEvent] = decode_lines(lines)  # type: ignore[assignment]  # known events are events
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        events = _one_by_one(lines, first_line_number, context)
    for event in [event for event in events if not event.run]:
        event.run = context.run
    return events


def _one_by_one(lines: bytes, first_line_number: int, context: Context) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    for line_number, line in enumerate(lines.split(b"\n"), first_line_number):
        try:
            events += decode_lines(line)
            continue
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            line = line.strip().removeprefix(_BOM)
        try:
            if line:
                events.append(decode(line))
        except EventError as error:
            context.skip(line_number, str(error))
    return events
