"""One or more logs as one stream of events: ``open_log`` recognises and opens them, a ``Reading`` reads them.

Several event logs are parts or ranks of one run: they are merged by time. Several logs of one trainer are parts of one
run, read in the order given (a directory: by name). Memory is bounded by the number of files, not by their length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers import eventlog, outage_tables, registry, rotation, tensorboard
from tachograph_agent.trainers.base import NUM_REPORTED_SKIPS, Context, SkippedLine
from tachograph_agent.trainers.containment import chunks_of
from tachograph_agent.trainers.eventlog import EventLogStream
from tachograph_agent.trainers.files import ReadingError, Source, in_directory
from tachograph_agent.trainers.tensorboard_files import TensorBoardStream
from tachograph_agent.trainers.trainerlog import TrainerLogStream

if TYPE_CHECKING:
    from tachograph_agent.trainers.pattern import PatternLog

__all__ = ["LogFile", "Reading", "ReadingError", "open_log"]

_NUM_FILES_KEPT_OPEN: Final = 100
_NUM_LISTED: Final = 5
_time = attrgetter("t")


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a reading and the format that it is read as."""

    source: Source
    format: str

    @property
    def name(self) -> str:
        """The path as given, or 'standard input'."""
        return self.source.name


Stream = EventLogStream | TrainerLogStream


class Reading:
    """The events of some logs, and what was assumed, skipped and not known while they were read.

    ``batches`` gives the events, ``again`` a stretch of what ``batches`` has given so far. ``notes``, ``skipped_lines``
    and their like are complete once ``batches`` is exhausted. Not thread-safe; one ``batches`` at a time.
    """

    def __init__(self, files: Sequence[LogFile], streams: Sequence[Stream], notes: Sequence[str] = ()) -> None:
        self.files = list(files)
        self._streams = list(streams)
        self._notes = list(notes)
        self._num_whole = [0] * len(streams)
        self._num_in_current = [0] * len(streams)

    @property
    def formats(self) -> list[str]:
        """The formats read, each once, in the order of the files."""
        return list(dict.fromkeys(file.format for file in self.files))

    @property
    def format(self) -> str:
        """The format read, ``megatron`` for instance; several are joined by a plus sign."""
        return "+".join(self.formats)

    @property
    def notes(self) -> list[str]:
        """What was assumed, what can't be known, what was cut off; each a sentence."""
        told = [sentence for stream in self._streams for sentence in stream.context.notes]
        return list(dict.fromkeys([*self._notes, *told]))

    @property
    def skipped_lines(self) -> int:
        """How many lines could not be read."""
        return sum(stream.context.skipped_lines for stream in self._streams)

    @property
    def skips(self) -> list[SkippedLine]:
        """The first few lines that could not be read, with the reason."""
        return [skip for stream in self._streams for skip in stream.context.skips][:NUM_REPORTED_SKIPS]

    @property
    def has_clock(self) -> bool:
        """False if a log tells no time of day: its timeline starts at 0, only durations mean something."""
        return all(stream.context.has_clock for stream in self._streams)

    @property
    def size_bytes(self) -> int:
        """The size of all files as they lie there."""
        return sum(file.source.size_bytes for file in self.files)

    @property
    def bytes_read(self) -> int:
        """How much of ``size_bytes`` has been read, for a progress bar."""
        return sum(file.source.bytes_read for file in self.files)

    def batches(self) -> Iterator[list[AnyEvent]]:
        """All events in batches of some hundreds, nearly in order of time; each call reads from the beginning."""
        for stream in self._streams:
            stream.context.notes.clear()
            stream.context.skips.clear()
            stream.context.counters.clear()
            stream.context.skipped_lines = 0
        self._num_whole = [0] * len(self._streams)
        self._num_in_current = [0] * len(self._streams)
        if len(self._streams) == 1:
            for chunk in chunks_of(self._streams[0]):
                self._num_whole[0] += 1
                if chunk:
                    yield chunk
        else:
            yield from self._merged()

    def again(self, since_us: int) -> Iterator[list[AnyEvent]]:
        """Every event at or after ``since_us`` that the current ``batches`` has given so far, in any order."""
        since = since_us / 1e6 - 1e-6  # a hair earlier: exactness is the filter's below
        for stream, num_whole, num_in_current in zip(self._streams, self._num_whole, self._num_in_current, strict=True):
            chunks = stream.again(num_whole + (num_in_current > 0), since)
            for index, chunk in enumerate(chunks):
                if index == num_whole:
                    chunk = sorted(chunk, key=_time)[:num_in_current]
                late = [event for event in chunk if event.t >= since and round(event.t * 1e6) >= since_us]
                if late:
                    yield late

    def _merged(self) -> Iterator[list[AnyEvent]]:
        """Chunks of all streams merged by time: what is not later than the end of the chunk that ends first goes out.

        Each stream's current chunk is held sorted, so that sorting what goes out is a merge of sorted runs.
        """
        rests = [_chunks_with_events(chunks_of(stream)) for stream in self._streams]
        current: dict[int, list[AnyEvent]] = {}

        def advance(index: int) -> None:
            self._num_in_current[index] = 0
            for num_passed, chunk in rests[index]:
                self._num_whole[index] += num_passed
                current[index] = sorted(chunk, key=_time)
                return
            del current[index]

        for index in range(len(self._streams)):
            current[index] = []
            advance(index)
        while current:
            until = min(chunk[-1].t for chunk in current.values())
            batch: list[AnyEvent] = []
            finished = []
            for index, chunk in current.items():
                start = self._num_in_current[index]
                end = bisect_right(chunk, until, lo=start, key=_time)
                batch += chunk[start:end]
                self._num_in_current[index] = end
                if end == len(chunk):
                    finished.append(index)
            batch.sort(key=_time)
            yield batch
            for index in finished:
                self._num_whole[index] += 1
                advance(index)


def _chunks_with_events(chunks: Iterator[list[AnyEvent]]) -> Iterator[tuple[int, list[AnyEvent]]]:
    """The chunks that hold events, each with the number of empty ones before it."""
    num_empty = 0
    for chunk in chunks:
        if chunk:
            yield num_empty, chunk
            num_empty = 0
        else:
            num_empty += 1


def open_log(
    paths: Sequence[str | Path],
    *,
    format: str | None = None,  # noqa: A002 - the option's name
    tz: tzinfo | None = None,
    start_unix_seconds: float | None = None,
    run: str | None = None,
    year: int | None = None,
    pattern: str | Path | None = None,
) -> Reading:
    """Open logs: files, directories, or ``-`` for standard input; the format is recognised unless it is given.

    ``pattern`` is a pattern file (``docs/patterns.md``) that says what the lines of a log in no known format mean.
    ``run`` names the run of events that name none; without it the first file's (or the directory's) name does. Raises
    ``ReadingError`` in one sentence: nothing there, not readable, empty, or not a format that is known; a table of
    outages alone is an ``OutageTableError``.
    """
    if not paths:
        raise ReadingError("no log was named; give a file, a directory, or - for standard input")
    if format is not None and format not in outage_tables.KINDS:
        registry.known(format)
    own = _own_format(pattern, format)
    forced = format if own is None else own.name
    notes: list[str] = []
    files: list[LogFile] = []
    for path in map(str, paths):
        if path != "-" and Path(path).is_dir():
            files += _directory(path, forced, notes, own)
        else:
            files += _file(path, forced, notes, alone=len(paths) == 1)
    if not files:
        raise ReadingError(f"{', '.join(map(str, paths))}: every file is empty; nothing can be told from them")
    tables = [(file.source, file.format) for file in files if file.format in outage_tables.KINDS]
    if tables:
        raise outage_tables.OutageTableError(tables)
    first = Path(str(paths[0]))
    if len(files) == len(paths) == 1 and (beside := rotation.siblings(str(first))):
        parts = _some([Path(each).name for each in beside])
        notes.append(f"{parts}: may be earlier parts of {first.name}, and were not read; name them too to read all.")
    files, newest = _parts_in_order(files, notes)
    default_run = first.resolve().name if first.is_dir() else newest.source.stem
    options = _Options(run or default_run, tz, start_unix_seconds, year)
    streams: list[Stream] = []
    for name, group in groupby(sorted(files, key=lambda file: file.format), key=lambda file: file.format):
        of_format = list(group)
        if name == eventlog.NAME:
            keep_open = len(of_format) <= _NUM_FILES_KEPT_OPEN
            streams += [
                EventLogStream(file.source, options.context(file.name), keep_open=keep_open) for file in of_format
            ]
        else:
            context = options.context(of_format[0].name)
            sources = [file.source for file in of_format]
            adapter = registry.adapters()[name] if own is None else own
            kind = TensorBoardStream if name == tensorboard.NAME else TrainerLogStream
            streams.append(kind(adapter, sources, context))
    return Reading(files, streams, notes)


def _parts_in_order(files: list[LogFile], notes: list[str]) -> tuple[list[LogFile], LogFile]:
    """The files with each log's rotated parts before it, the oldest first; and the file that names the run.

    A part that alone looks like failure lines is read as what its log is.
    """
    by_path = {file.source.path: file for file in files}
    if len(by_path) < len(files):
        return files, files[0]
    of = rotation.parts(list(by_path))
    newest = by_path[of.get(files[0].source.path, files[0].source.path)]
    if of and any(file.format != eventlog.NAME for file in files):
        names = _some([Path(each).name for each in rotation.oldest_first(list(by_path)) if each in of])
        notes.append(f"{names}: taken for earlier parts of a rotated log, and read before it, the oldest first.")
    for part, log in of.items():
        if by_path[part].format == registry.WEAK:
            by_path[part] = LogFile(by_path[part].source, by_path[log].format)
    return [by_path[path] for path in rotation.oldest_first(list(by_path))], newest


@dataclass(frozen=True, slots=True)
class _Options:
    run: str
    tz: tzinfo | None
    start_unix_seconds: float | None
    year: int | None

    def context(self, file: str) -> Context:
        return Context(run=self.run, file=file, tz=self.tz, start_unix_seconds=self.start_unix_seconds, year=self.year)


def _file(path: str, format: str | None, notes: list[str], *, alone: bool) -> list[LogFile]:  # noqa: A002 - the option's name
    source = Source(path)
    head = source.head()
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        sentence = f"{source.name}: the file is empty; nothing can be told from it"
        if alone:
            raise ReadingError(sentence)
        notes.append(sentence)
        return []
    found = format or outage_tables.recognise(head) or registry.recognise(head)
    if found is None and registry.is_binary(head):
        raise ReadingError(f"{source.name}: a binary file, not a format I know; {_known()}")
    if found is None:
        raise ReadingError(
            f"{source.name}: not a format I know; {_known()}, or force one with --format, or say with "
            "--pattern FILE.toml what its lines mean"
        )
    return [LogFile(source, found)]


def _directory(
    path: str,
    format: str | None,  # noqa: A002 - the option's name
    notes: list[str],
    own: PatternLog | None = None,
) -> list[LogFile]:
    """What is recognised in a directory; what is not is said in a note."""
    files: list[LogFile] = []
    strangers: list[str] = []
    for name in in_directory(path):
        try:
            source = Source(name)
            found = registry.recognise(source.head()) if own is None else _recognise_own(source.head(), own)
        except ReadingError as error:
            notes.append(str(error))
            continue
        if found is None or (format is not None and found != format):
            strangers.append(str(Path(name).relative_to(path)))
        else:
            files.append(LogFile(source, found))
    wanted = f"log in the format {format}" if format else "log in a format I know"
    if not files:
        there = f"{len(strangers)} other files are there, {_some(strangers)}" if strangers else "it holds no files"
        raise ReadingError(f"{path}: a directory without a {wanted} ({there}); {_known()}")
    files = _with_times(path, files, notes)
    if strangers:
        notes.append(f"{path}: {len(strangers)} files there are no {wanted}: {_some(strangers)}.")
    return files


def _own_format(pattern: str | Path | None, format: str | None) -> PatternLog | None:  # noqa: A002 - the option's name
    """The adapter that a pattern file describes."""
    if pattern is None:
        if format == registry.PATTERN:
            raise ReadingError("--format pattern needs a pattern file: give --pattern FILE.toml")
        return None
    if format not in {None, registry.PATTERN}:
        raise ReadingError(f"--format {format} and --pattern {pattern} both say how to read a log; leave out one")
    from tachograph_agent.trainers.pattern import PatternLog
    from tachograph_agent.trainers.pattern_file import load

    return PatternLog(load(pattern))


def _recognise_own(head: bytes, own: PatternLog) -> str | None:
    return own.name if not registry.is_binary(head) and own.sniff(registry.text_of(head)) > 0.0 else None


def _with_times(path: str, files: list[LogFile], notes: list[str]) -> list[LogFile]:
    """The files without those that tell no time of day, where others do: loggers write one training down twice."""
    timeless = [file for file in files if file.format in registry.WITHOUT_CLOCK]
    if all(file.format in registry.WITHOUT_CLOCK | registry.WITHOUT_STEPS for file in files):
        return files
    if timeless:
        told = ", ".join(dict.fromkeys(file.format for file in timeless))
        names = _some([str(Path(file.source.path).relative_to(path)) for file in timeless])
        notes.append(
            f"{path}: logs without times of day ({told}) were left out beside those that have them: {names}; "
            "name one to read it alone."
        )
    return [file for file in files if file.format not in registry.WITHOUT_CLOCK]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NUM_LISTED
    return ", ".join(islice(names, _NUM_LISTED)) + (f" and {more} more" if more > 0 else "")


def _known() -> str:
    return f"known are {', '.join(registry.formats())}"
