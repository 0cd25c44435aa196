"""The logs of one trainer, in parts, as one stream: decoded lines in, what the adapter makes of them out in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Adapter, Context
from tachograph_agent.trainers.files import MAX_LINE_BYTES, Source, WholeLines

_NUM_EVENTS_PER_CHUNK: Final = 512


class _FileContext(Context):
    """A context that turns the adapter's count of lines back into a file and a line of it."""

    __slots__ = ("num_before",)
    num_before: int

    def skip(self, line_number: int, reason: str) -> None:
        Context.skip(self, max(1, line_number - self.num_before), reason)


class TrainerLogStream:
    """What an adapter makes of the lines of some files, the parts of one run in their order."""

    def __init__(self, adapter: Adapter, sources: Sequence[Source], context: Context) -> None:
        self.adapter = adapter
        self.sources = list(sources)
        self.context = self._fresh(context)

    def chunks(self) -> Iterator[list[AnyEvent]]:
        """All events, for the first time; what can't be read is counted in the context."""
        return self._chunks(self.context)

    def again(self, num_chunks: int, since: float) -> Iterator[list[AnyEvent]]:  # noqa: ARG002 - all are read again
        """The first ``num_chunks`` chunks again; nothing is said twice in the context."""
        return islice(self._chunks(self._fresh(self.context)), num_chunks)

    def _chunks(self, context: _FileContext) -> Iterator[list[AnyEvent]]:
        context.num_before = 0
        context.file = self.sources[0].name
        events = self.adapter.read(self._lines(context), context)
        while chunk := list(islice(events, _NUM_EVENTS_PER_CHUNK)):
            for event in chunk:
                if not event.run:
                    event.run = context.run
            yield chunk

    def _lines(self, context: _FileContext) -> Iterator[str]:
        """The lines of all files; a carriage return ends one as well, since progress bars are made of them."""
        num_given = 0
        for source in self.sources:
            context.file = source.name
            context.num_before = num_given
            for chunk, too_long in WholeLines(source.blocks(context.note)):
                if too_long:
                    num_given += 1
                    reason = f"a line of {too_long} bytes; the longest that is read has {MAX_LINE_BYTES}"
                    context.skip(num_given, reason)
                    yield ""  # so that the adapter's count of lines stays right
                    continue
                text = chunk.decode("utf-8", errors="replace").removesuffix("\n")
                if num_given == context.num_before:
                    text = text.removeprefix("\ufeff")
                if "\r" not in text:
                    lines = text.split("\n")
                    yield from lines
                    num_given += len(lines)
                    continue
                for line in text.split("\n"):
                    pieces = line.rstrip("\r").split("\r")
                    yield from pieces
                    num_given += len(pieces)
                    context.num_before += len(pieces) - 1

    @staticmethod
    def _fresh(context: Context) -> _FileContext:
        fresh = _FileContext(
            run=context.run,
            file=context.file,
            tz=context.tz,
            start_unix_seconds=context.start_unix_seconds,
            year=context.year,
        )
        fresh.num_before = 0
        return fresh
