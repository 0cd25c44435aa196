"""From a reading to the reports of its runs: every event into the ledger, the ledger's answers out.

``ReadingSource`` lets the ledger go back to a stretch of the log that it has folded already.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo

from tachograph_agent.events import AnyEvent, Step
from tachograph_agent.trainers.files import MissingExtraError, ReadingError
from tachograph_agent.trainers.reading import Reading, open_log

from tachograph_collector.cli.errors import BadInputError, ExtraMissingError
from tachograph_collector.cli.losscurve import LossCurve
from tachograph_collector.cli.progress import progress_bar
from tachograph_collector.ledger import Ledger
from tachograph_collector.report.model import RunReport


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
        with without_garbage_collection(), progress_bar(reading) as advance:
            for batch in reading.batches():
                ledger.add(batch)
                if options.with_loss:
                    _add_losses(batch, curves)
                if options.strict:
                    refuse_skipped(reading)
                advance()
            if options.strict:
                refuse_skipped(reading)
            return _reports(ledger, reading, curves, options)
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error


def _add_losses(batch: Sequence[AnyEvent], curves: dict[str, LossCurve]) -> None:
    for event in batch:
        if isinstance(event, Step):
            curve = curves.get(event.run)
            if curve is None:
                curve = curves[event.run] = LossCurve()
            curve.add(event)


def _reports(ledger: Ledger, reading: Reading, curves: dict[str, LossCurve], options: Options) -> list[RunReport]:
    return [
        RunReport(
            books=ledger.books(run, options.now_us),
            details=ledger.details(run, options.now_us),
            notes=reading.notes,
            skipped_lines=reading.skipped_lines,
            skips=reading.skips,
            format=reading.format,
            has_clock=reading.has_clock,
            loss_points=curves[run].points() if run in curves else None,
            price_per_gpu_hour=options.price,
        )
        for run in ledger.runs()
    ]
