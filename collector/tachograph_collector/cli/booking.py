"""From the words of a command line to the reports of the runs in some logs, with a sentence for what goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from tachograph_agent.events import AnyEvent, Failure, Health, Step, microseconds
from tachograph_agent.trainers.containment import AdapterError
from tachograph_agent.trainers.files import MissingExtraError, ReadingError
from tachograph_agent.trainers.reading import Reading, open_log

from tachograph_collector.cli.detecting import Watch
from tachograph_collector.cli.errors import BadInputError, DefectError, ExtraMissingError
from tachograph_collector.cli.losscurve import LossCurve
from tachograph_collector.cli.progress import progress_bar
from tachograph_collector.ledger.books import Books, GpuHours
from tachograph_collector.report.booked import Told, ledger_for, run_reports, without_garbage_collection
from tachograph_collector.report.model import LossPoint, RunReport, Window
from tachograph_collector.report.text import SECOND, count, duration, iso, visible
from tachograph_collector.report.windows import clip

if TYPE_CHECKING:
    from tachograph_collector.detect.fleet import FleetSettings

_NUM_FINDINGS: Final = 3
_NUM_QUOTED: Final = 200
"""Characters of each."""


def refuse_skipped(reading: Told) -> None:
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
    pattern: str | None = None
    """A pattern file for a log in no known format."""
    zone: tzinfo | None = None
    year: int | None = None
    start_unix_seconds: float | None = None
    run: str | None = None
    now_us: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    strict: bool = False
    price: float | None = None
    gpus: int | None = None
    with_loss: bool = False
    with_incidents: bool = False
    thresholds: FleetSettings | None = None
    """Of the detectors; None for the defaults."""


def book(paths: Sequence[str], options: Options) -> list[RunReport]:
    """The report of every run in the logs, in the order in which the log names them.

    Raises ``BadInputError`` (``ExtraMissingError``) in one sentence where there is nothing to be told.
    """
    try:
        reading = open_log(
            paths,
            format=options.format,
            tz=options.zone,
            year=options.year,
            start_unix_seconds=options.start_unix_seconds,
            run=options.run,
            pattern=options.pattern,
        )
        ledger = ledger_for(reading, options.now_us)
        curves: dict[str, LossCurve] = {}
        watch = None
        if options.with_incidents:
            watch = Watch(options.now_us, options.thresholds, price=options.price, gpus=options.gpus)
        with without_garbage_collection(), progress_bar(reading) as advance:
            for batch in reading.batches():
                ledger.add(batch)
                if options.with_loss:
                    _add_losses(batch, curves)
                if watch is not None:
                    watch.add(batch)
                if options.strict:
                    refuse_skipped(reading)
                advance()
            if options.strict:
                refuse_skipped(reading)
            losses = partial(_losses, curves) if options.with_loss else None
            reports = run_reports(ledger, reading, options.now_us, price=options.price, losses=losses)
            if watch is not None:
                watch.finish()
                for report in reports:
                    watch.judge(report.books, report.details)
                reports = [replace(report, incidents=watch.incidents(report.books)) for report in reports]
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except AdapterError as error:
        raise DefectError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    if not reports:
        raise BadInputError(_nothing_booked(paths, reading, options.now_us))
    if options.since_us is not None or options.until_us is not None:
        reports = _windows(reports, options)
    if options.gpus is not None:
        reports = [with_gpus(report, options.gpus) if report.books.gpu is None else report for report in reports]
    return reports


def _nothing_booked(paths: Sequence[str], reading: Reading, now_us: int | None) -> str:
    """Why a log that could be opened tells of no run; it is read once more for it."""
    where = ", ".join("standard input" if path == "-" else path for path in paths)
    kinds: Counter[str] = Counter()
    findings: list[str] = []
    first_us: int | None = None
    for batch in reading.batches():
        kinds.update(event.kind for event in batch)
        earliest_us = min(microseconds(event.t) for event in batch)
        first_us = earliest_us if first_us is None else min(first_us, earliest_us)
        findings += [
            _finding(event, reading) for event in batch if isinstance(event, Failure | Health) and event.detail
        ][: _NUM_FINDINGS - len(findings)]
    if first_us is not None and now_us is not None and first_us > now_us:
        return f"{where}: nothing had happened by {iso(now_us)}, the time of --now; the log begins at {iso(first_us)}"
    if kinds:
        counts = ", ".join(f"{number} {visible(kind, 40)}" for kind, number in kinds.most_common(5))
        found = f"; it tells of {'; '.join(findings)}" if findings else ""
        if findings and reading.notes:
            found += f" ({' '.join(reading.notes)})"
        return (
            f"{where}: {count(kinds.total(), 'event')} ({counts}), "
            f"and no step, save or start among them: there is no run to be booked{found}"
        )
    if not reading.skips:
        return f"{where}: read as {reading.format}, and no event is in it; if it is another format, name it by --format"
    first = reading.skips[0]
    return (
        f"{where}: no event is in it; {count(reading.skipped_lines, 'line')} could not be read as {reading.format}, "
        f"the first is line {first.line_number}: {first.reason}"
    )


def _finding(event: Failure | Health, reading: Reading) -> str:
    """What a failure or a finding says, and when it was and for how long where the log tells."""
    lasted = microseconds(event.dur) if event.dur else 0
    told = repr((event.detail or "")[:_NUM_QUOTED])
    if event.unknown_fields and event.unknown_fields.get("undated"):
        told += " at a time that is unknown"
    elif reading.has_clock:
        told += f" {'from' if lasted else 'at'} {iso((microseconds(event.t) - lasted) // SECOND * SECOND)}"
    return f"{told} for {duration(lasted)}" if lasted else told


def _windows(reports: Sequence[RunReport], options: Options) -> list[RunReport]:
    """The reports clipped to ``--since`` and ``--until``; a run outside is left out, all outside is an error."""
    window = Window(options.since_us, options.until_us)
    clipped = [clip(report, window) for report in reports]
    found = [report for report in clipped if report is not None]
    if not found:
        times = ", ".join(
            f"{one.books.run} from {iso(one.books.start_us)} to {iso(one.books.end_us)}" for one in reports
        )
        since = "the beginning" if window.since_us is None else iso(window.since_us)
        until = "the end" if window.until_us is None else iso(window.until_us)
        raise BadInputError(f"nothing lies between {since} and {until}: the log holds {times}; move --since or --until")
    return found


def _add_losses(batch: Sequence[AnyEvent], curves: dict[str, LossCurve]) -> None:
    for event in batch:
        if isinstance(event, Step):
            curve = curves.get(event.run)
            if curve is None:
                curve = curves[event.run] = LossCurve()
            curve.add(event)


def _losses(curves: dict[str, LossCurve], books: Books) -> list[LossPoint]:
    """The losses of a run; those of ``name#2`` stand in the log under ``name``, so they are told by their time."""
    curve = curves.get(books.run) or curves.get(books.run.rpartition("#")[0])
    return [] if curve is None else [one for one in curve.points() if books.start_us <= one[0] <= books.end_us]


def with_gpus(report: RunReport, number: int) -> RunReport:
    """The report of a run that held ``number`` GPUs all the time."""
    books = report.books
    booked = {account: number * length for account, length in books.accounts_us.items()}
    gpu = GpuHours(held=number * books.wall_us, idle=0, **booked)
    return replace(report, books=msgspec.structs.replace(books, gpu=gpu))
