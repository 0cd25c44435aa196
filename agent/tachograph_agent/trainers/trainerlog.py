"""The logs of one trainer, in parts, as one stream: decoded lines in, what the adapter makes of them out in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol, runtime_checkable

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Adapter, Context
from tachograph_agent.trainers.encodings import decoded
from tachograph_agent.trainers.files import MAX_LINE_BYTES, Source, WholeLines
from tachograph_agent.trainers.tidying import Tidying

_NUM_EVENTS_PER_CHUNK: Final = 512


class _FileContext(Context):
    """A context that turns the adapter's count of lines back into a file and a line of it."""

    __slots__ = ("file_begins", "last_file", "num_before")
    num_before: int
    """How much higher the adapter's count is than the number of the line in its file."""
    file_begins: int
    """The adapter's count before the file's first line."""
    last_file: tuple[str, int]
    """Name and ``num_before`` of the file before: of its last line an adapter may only speak in the next file."""

    def begin(self, file: str, num_given: int) -> None:
        """The lines that come now are those of ``file``."""
        self.last_file = (self.file, self.num_before) if num_given else (file, 0)
        self.file = file
        self.num_before = self.file_begins = num_given

    def skip(self, line_number: int, reason: str) -> None:
        this_file = self.file, self.num_before
        self.file, num_before = this_file if line_number > self.file_begins else self.last_file
        Context.skip(self, max(1, line_number - num_before), reason)
        self.file = this_file[0]


@runtime_checkable
class TextAdapter(Protocol):
    """An adapter that is faster with many lines at once."""

    def read_texts(self, texts: Iterable[str], context: Context) -> Iterator[list[AnyEvent]]:
        """What ``read`` gives, from texts of one or more whole lines, without the newline at their end."""
        ...


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
        context.begin(self.sources[0].name, 0)
        for chunk in self._read(context):
            for event in [event for event in chunk if not event.run]:
                event.run = context.run
            yield chunk

    def _read(self, context: _FileContext) -> Iterator[list[AnyEvent]]:
        texts = self._texts(context)
        if not isinstance(self.adapter, TextAdapter):
            events = self.adapter.read((line for text in texts for line in text.split("\n")), context)
            while chunk := list(islice(events, _NUM_EVENTS_PER_CHUNK)):
                yield chunk
            return
        held: list[AnyEvent] = []
        for some in self.adapter.read_texts(texts, context):
            held += some
            if len(held) >= _NUM_EVENTS_PER_CHUNK:
                yield held
                held = []
        if held:
            yield held

    def _texts(self, context: _FileContext) -> Iterator[str]:
        """The lines of all files, some at a time; a carriage return ends one too: progress bars are made of them."""
        num_given = 0
        tidying = Tidying()
        for source in self.sources:
            context.begin(source.name, num_given)
            for chunk, too_long in WholeLines(source.blocks(context.note)):
                if too_long:
                    num_given += 1
                    reason = f"a line of {too_long} bytes; the longest that is read has {MAX_LINE_BYTES}"
                    context.skip(num_given, reason)
                    yield ""  # one line, so that the adapter's count of lines stays right
                    continue
                text = decoded(chunk).removesuffix("\n")
                if num_given == context.file_begins:
                    text = text.removeprefix("\ufeff")
                if "\r" not in text:
                    yield tidying.text(text)
                    num_given += text.count("\n") + 1
                    continue
                for line in text.split("\n"):
                    pieces = tidying.lines(line)
                    yield "\n".join(pieces)
                    num_given += len(pieces)
                    context.num_before += len(pieces) - 1

    @staticmethod
    def _fresh(context: Context) -> _FileContext:
        fresh = _FileContext(
            run=context.run,
            file=context.file,
            tz=context.tz,
            tz_is_own=context.tz_is_own,
            start_unix_seconds=context.start_unix_seconds,
            year=context.year,
        )
        fresh.begin(context.file, 0)
        return fresh
