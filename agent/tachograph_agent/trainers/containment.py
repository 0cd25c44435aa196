"""A reader's own defect, contained: one sentence with format, file and line instead of whatever was raised.

An adapter promises not to raise on what a log contains. One that does is our mistake; the user learns which line it was
and how to go on, and the error itself is the cause of ``AdapterError``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers import eventlog
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.encodings import decoded
from tachograph_agent.trainers.eventlog import EventLogStream
from tachograph_agent.trainers.files import ReadingError, WholeLines
from tachograph_agent.trainers.trainerlog import TrainerLogStream


class AdapterError(ReadingError):
    """A reader failed on a line that it should have taken or counted as bad: a defect, with the way round it."""


def chunks_of(stream: EventLogStream | TrainerLogStream) -> Iterator[list[AnyEvent]]:
    """The stream's chunks as they come; raises ``AdapterError`` where a reader raises what is no error of the file."""
    try:
        yield from stream.chunks()
    except (ReadingError, OSError, MemoryError):
        raise
    except Exception as error:
        place, name = stream.context.file, eventlog.NAME
        if isinstance(stream, TrainerLogStream):
            place, name = _where(stream), stream.adapter.name
        raise AdapterError(
            f"{place}: the reader of the format {name} failed there ({type(error).__name__}: {str(error)[:200]}); "
            "this is a defect of Tachograph, please report it with that line; without the line, or with another "
            "--format, the log may be readable"
        ) from error


@dataclass(slots=True)
class _Place:
    """The last line that was given to an adapter."""

    file: str
    line_number: int = 0


def _where(stream: TrainerLogStream) -> str:
    """File and line at which the adapter fails when it is given the log line by line; the file if it doesn't then."""
    told = stream.context
    fresh = Context(run=told.run, tz=told.tz, start_unix_seconds=told.start_unix_seconds, year=told.year)
    place = _Place(stream.sources[0].name)
    try:
        for _ in stream.adapter.read(_lines(stream, place), fresh):
            pass
    except Exception:  # noqa: BLE001 - the same failure once more, expected here
        return f"{place.file}, line {place.line_number}"
    return told.file


def _lines(stream: TrainerLogStream, place: _Place) -> Iterator[str]:
    """The lines of all files one by one; ``place`` is where the last one given stands."""
    for source in stream.sources:
        place.file, place.line_number = source.name, 0
        for chunk, too_long in WholeLines(source.blocks(_quiet)):
            lines = [""] if too_long else decoded(chunk).removesuffix("\n").split("\n")
            for line in lines:
                place.line_number += 1
                yield from line.rstrip("\r").split("\r")


def _quiet(_: str) -> None:
    """Say nothing: this is the second reading."""
