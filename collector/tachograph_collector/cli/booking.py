"""From a reading to the reports of its runs: every event into the ledger, the ledger's answers out.

``ReadingSource`` lets the ledger go back to a stretch of the log that it has folded already.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

import msgspec
from tachograph_agent.events import AnyEvent, Failure, Health, Step
from tachograph_agent.trainers.files import MissingExtraError, ReadingError
from tachograph_agent.trainers.reading import Reading, open_log

from tachograph_collector.cli.errors import BadInputError, ExtraMissingError
from tachograph_collector.cli.losscurve import LossCurve, LossPoint
from tachograph_collector.cli.progress import progress_bar
from tachograph_collector.cli.sanity import Reach, refuse_decades
from tachograph_collector.ledger import Ledger
from tachograph_collector.ledger.books import Books, GpuHours
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.windows import clip


class ReadingSource:
    """The ledger's ``StepSource`` over a log that is being read: what was fed before, read from the file again."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def read(self, run: str, since_us: int) -> Iterator[AnyEvent]:
        """Every event of ``run`` fed so far whose ``t`` is at or after ``since_us``, in any order."""
        for batch in self._reading.again(since_us):
            for event in batch:
                if event.run == run:
                    yield event


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Events hold no cycles, and looking for some among a million of them takes longer than reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def refuse_skipped(reading: Reading) -> None:
    """What ``--strict`` asks for: a line that can't be read is an error."""
    if reading.skipped_lines:
        first = reading.skips[0]
        raise BadInputError(
            f"{first.file}, line {first.line_number}: {first.reason}; --strict takes no bad line, "
            "without it the line is counted and left out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a log is to be read and looked at; all times in microseconds or seconds since 1970, None for not given."""

    format: str | None = None
    zone: tzinfo | None = None
    start_unix_seconds: float | None = None
    run: str | None = None
    now_us: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    strict: bool = False
    price: float | None = None
    gpus: int | None = None
    with_loss: bool = False


def book(paths: Sequence[str], options: Options) -> list[RunReport]:
    """The report of every run in the logs, in the order in which the log names them.

    Raises ``BadInputError`` (``ExtraMissingError``) in one sentence where there is nothing to be told.
    """
    try:
        reading = open_log(
            paths,
            format=options.format,
            tz=options.zone,
            start_unix_seconds=options.start_unix_seconds,
            run=options.run,
        )
        ledger = Ledger(source=ReadingSource(reading))
        curves: dict[str, LossCurve] = {}
        num_events = 0
        reach = Reach()
        with without_garbage_collection(), progress_bar(reading) as advance:
            for batch in reading.batches():
                num_events += len(batch)
                reach.add(batch)
                ledger.add(batch)
                if options.with_loss:
                    _add_losses(batch, curves)
                if options.strict:
                    refuse_skipped(reading)
                advance()
            if options.strict:
                refuse_skipped(reading)
            if reach.is_suspicious(options.now_us):
                refuse_decades(reading.batches(), options.now_us)
            reports = _reports(ledger, reading, curves, options)
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    if not reports:
        raise BadInputError(_nothing_booked(paths, num_events, reading))
    if options.since_us is not None or options.until_us is not None:
        reports = _windows(reports, options)
    if options.gpus is not None:
        reports = [with_gpus(report, options.gpus) if report.books.gpu is None else report for report in reports]
    return reports


def _nothing_booked(paths: Sequence[str], num_events: int, reading: Reading) -> str:
    """Why a log that could be opened tells of no run."""
    where = ", ".join("standard input" if path == "-" else path for path in paths)
    if num_events:
        kinds: Counter[str] = Counter()
        found = ""
        for batch in reading.batches():
            kinds.update(event.kind for event in batch)
            for event in batch:
                if not found and isinstance(event, Failure | Health) and event.detail:
                    found = f"; the first finding is {event.detail[:200]!r}"
        counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common(5))
        return (
            f"{where}: {num_events} event{'s' if num_events > 1 else ''} ({counts}), "
            f"and no step, save or start among them: there is no run to be booked{found}"
        )
    if not reading.skips:
        return f"{where}: read as {reading.format}, and no event is in it; if it is another format, name it by --format"
    first = reading.skips[0]
    return (
        f"{where}: no event is in it; {reading.skipped_lines} lines could not be read as {reading.format}, "
        f"the first is line {first.line_number}: {first.reason}"
    )


def _windows(reports: Sequence[RunReport], options: Options) -> list[RunReport]:
    """The reports clipped to ``--since`` and ``--until``; a run outside is left out, all outside is an error."""
    window = Window(options.since_us, options.until_us)
    clipped = [clip(report, window) for report in reports]
    found = [report for report in clipped if report is not None]
    if not found:
        times = ", ".join(
            f"{one.books.run} from {_iso(one.books.start_us)} to {_iso(one.books.end_us)}" for one in reports
        )
        since = "the beginning" if window.since_us is None else _iso(window.since_us)
        until = "the end" if window.until_us is None else _iso(window.until_us)
        raise BadInputError(f"nothing lies between {since} and {until}: the log holds {times}; move --since or --until")
    return found


def _iso(us: int) -> str:
    return datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _add_losses(batch: Sequence[AnyEvent], curves: dict[str, LossCurve]) -> None:
    for event in batch:
        if isinstance(event, Step):
            curve = curves.get(event.run)
            if curve is None:
                curve = curves[event.run] = LossCurve()
            curve.add(event)


def _reports(ledger: Ledger, reading: Reading, curves: dict[str, LossCurve], options: Options) -> list[RunReport]:
    reports = []
    for run in ledger.runs(options.now_us):
        books = ledger.books(run, options.now_us)
        details = ledger.details(run, options.now_us)
        notes = list(reading.notes)
        if not any(attempt.last_step is not None for attempt in details.attempts):
            notes.append("No step is in this log: there is no work that could have been kept.")
        reports.append(
            RunReport(
                books=books,
                details=details,
                notes=notes,
                skipped_lines=reading.skipped_lines,
                skips=reading.skips,
                format=reading.format,
                has_clock=reading.has_clock,
                loss_points=_losses(curves, run, books) if options.with_loss else None,
                price_per_gpu_hour=options.price,
            )
        )
    return reports


def _losses(curves: dict[str, LossCurve], run: str, books: Books) -> list[LossPoint]:
    """The losses of a run; those of ``name#2`` stand in the log under ``name``, so they are told by their time."""
    curve = curves.get(run) or curves.get(run.rpartition("#")[0])
    return [] if curve is None else [one for one in curve.points() if books.start_us <= one[0] <= books.end_us]


def with_gpus(report: RunReport, number: int) -> RunReport:
    """The report of a run that held ``number`` GPUs all the time."""
    books = report.books
    booked = {account: number * length for account, length in books.accounts_us.items()}
    gpu = GpuHours(held=number * books.wall_us, idle=0, **booked)
    return replace(report, books=msgspec.structs.replace(books, gpu=gpu))
