"""One log that grows, as events while they come: what ``tachograph replay --follow`` reads, with no agent.

The adapters are those of a replay. They read the log as one stream from its beginning, and what a look adds is all that
is read at that look. A log that was renamed (a rotation) is read to its end before its successor is begun; one that was
cut or written anew is read from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers import eventlog, registry
from tachograph_agent.trainers.base import Context, SkippedLine
from tachograph_agent.trainers.files import HEAD_BYTES, ReadingError
from tachograph_agent.trainers.logtail import MAX_LINE_BYTES, LogTail
from tachograph_agent.trainers.packing import is_packed
from tachograph_agent.trainers.pattern import PatternLog
from tachograph_agent.trainers.pattern_file import load
from tachograph_agent.trainers.zones import local_zone

_MOST_HELD: Final = 512

Read = Callable[[Iterable[str], Context], Iterator[AnyEvent]]


class GrowingLog:
    """Follows one log: ``follow`` hands on its events, and the properties say what a ``Reading`` says. Single-threaded.

    Times without a zone are this machine's where ``tz`` is None, since whoever writes the log is mostly here.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 - the name of the option
        tz: tzinfo | None = None,
        start_unix_seconds: float | None = None,
        run: str | None = None,
        year: int | None = None,
        pattern: str | Path | None = None,
    ) -> None:
        self.path = Path(path)
        if format is not None:
            registry.known(format)
        if self.path.is_dir() or (self.path.exists() and not self.path.is_file()):
            raise ReadingError(f"{path}: only a single file can be followed; name the one that grows")
        self.format = format
        """The log's format; None until it is recognised."""
        self._own: PatternLog | None = None
        if pattern is not None:
            if format not in {None, registry.PATTERN}:
                raise ReadingError(
                    f"--format {format} and --pattern {pattern} both say how to read a log; leave out one"
                )
            self._own, self.format = PatternLog(load(pattern)), registry.PATTERN
        elif format == registry.PATTERN:
            raise ReadingError("--format pattern needs a pattern file: give --pattern FILE.toml")
        self._context = Context(
            run=run or self.path.stem or self.path.name,
            file=str(path),
            tz=tz or local_zone(),
            tz_is_own=tz is None,
            start_unix_seconds=start_unix_seconds,
            year=year,
        )
        self._tail = LogTail(self.path)
        self._stopped = False
        self._held: list[AnyEvent] = []
        self._head = b""

    @property
    def notes(self) -> list[str]:
        """What was assumed so far, and what can't be known; each a sentence."""
        return self._context.notes

    @property
    def skipped_lines(self) -> int:
        """How many lines could not be read so far."""
        return self._context.skipped_lines + self._tail.num_too_long

    @property
    def skips(self) -> list[SkippedLine]:
        """The first few of them, with the reason."""
        return self._context.skips

    @property
    def has_clock(self) -> bool:
        """False if the log tells no time of day."""
        return self._context.has_clock

    def follow(self, take: Callable[[list[AnyEvent]], None], wait: Callable[[], bool]) -> None:
        """Hand the log's events to ``take`` until ``wait`` gives True, then those that its end tells.

        ``wait`` is called whenever there is nothing new. Raises ``ReadingError`` where the log can't be read at all.
        """
        read = self._begin(wait)
        try:
            if read is None:
                return
            for event in read(self._lines(take, wait), self._context):
                event.run = event.run or self._context.run
                self._held.append(event)
            self._hand_on(take)
        finally:
            self._tail.close()

    def _hand_on(self, take: Callable[[list[AnyEvent]], None]) -> None:
        held, self._held = self._held, []
        if held:
            take(held)

    def _lines(self, take: Callable[[list[AnyEvent]], None], wait: Callable[[], bool]) -> Iterator[str]:
        """The lines as they come. When the adapter asks for more, it has told all that it can of those before."""
        num_lost = 0
        while True:
            lines = self._tail.next_lines()
            for line in lines:
                yield line
                if len(self._held) >= _MOST_HELD:
                    self._hand_on(take)
            if lines:
                continue
            self._hand_on(take)
            if self._tail.num_too_long > num_lost:
                num_lost = self._tail.num_too_long
                self._context.note(f"Lines longer than {MAX_LINE_BYTES} bytes are left out.")
            if wait():
                while lines := self._tail.next_lines():
                    yield from lines
                yield from self._tail.rest()
                return

    def _begin(self, wait: Callable[[], bool]) -> Read | None:
        """Wait until the log is there and its format known; None if told to stop before."""
        if not self._tail.open() and self.path.exists():
            raise ReadingError(f"{self.path}: can't be read; permission denied?")
        while not self._is_known():
            if wait():
                return None
            self._tail.open()  # anew each time: another file may have taken its name
        if self.format in registry.NOT_FOLLOWED:
            raise ReadingError(
                f"{self.path}: {self.format} is {registry.NOT_FOLLOWED[self.format]}, so there is nothing to follow; "
                "leave out --follow"
            )
        if self.format == eventlog.NAME:
            return _event_lines
        assert self.format is not None
        return registry.adapters()[self.format].read if self._own is None else self._own.read

    def _is_known(self) -> bool:
        head = self._tail.head(HEAD_BYTES)
        if is_packed(head):
            raise ReadingError(f"{self.path}: compressed, so it doesn't grow; leave out --follow")
        if self.format is not None:
            return self._tail.is_open
        if not head or head == self._head:
            return False
        self._head = head
        is_enough = len(head) >= HEAD_BYTES
        if registry.is_binary(head):
            raise ReadingError(
                f"{self.path}: a binary file, not a format I know; 'tachograph formats' lists those known"
            )
        found = registry.recognise(head)
        if found is not None and (found != registry.WEAK or is_enough):
            self.format = found
        elif is_enough:
            raise ReadingError(
                f"{self.path}: not a format I know; known are {', '.join(registry.formats())}, or force one with "
                "--format, or say with --pattern FILE.toml what its lines mean"
            )
        return self.format is not None


def _event_lines(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    """The events of an event log, line by line."""
    for line_number, line in enumerate(lines, start=1):
        yield from eventlog.events_of(line.encode(), line_number, context)
