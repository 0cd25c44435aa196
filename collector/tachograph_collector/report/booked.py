"""A reading, booked: the ledger that its events go into, and one report for each run in it.

``LogSource`` lets the ledger go back to a stretch of the log that it has folded already.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tachograph_agent.events import AnyEvent, microseconds
from tachograph_agent.trainers.base import SkippedLine
from tachograph_agent.trainers.reading import Reading

from tachograph_collector.ledger import Books, Details, Ledger
from tachograph_collector.report.model import LossPoint, RunReport
from tachograph_collector.report.sanity import refuse_decades
from tachograph_collector.report.text import count


class Told(Protocol):
    """What the reading of a log says beside its events."""

    @property
    def notes(self) -> list[str]:
        """What was assumed, and what can't be known; each a sentence."""
        ...

    @property
    def skipped_lines(self) -> int:
        """How many lines could not be read."""
        ...

    @property
    def skips(self) -> list[SkippedLine]:
        """The first few of them."""
        ...

    @property
    def format(self) -> str | None:
        """The log's format."""
        ...

    @property
    def has_clock(self) -> bool:
        """Whether the log tells the time of day."""
        ...


class LogSource:
    """The ledger's ``StepSource`` over a log that is being read: what was fed before, read from the file again."""

    def __init__(self, reading: Reading, until_us: int | None = None) -> None:
        self._reading = reading
        self._until_us = until_us

    def read(self, run: str, since_us: int) -> Iterator[AnyEvent]:
        """Every event of ``run`` fed so far whose ``t`` is at or after ``since_us``, in any order."""
        for batch in self._reading.again(since_us):
            for event in batch:
                if event.run == run and (self._until_us is None or microseconds(event.t) <= self._until_us):
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


def ledger_for(reading: Reading, now_us: int | None) -> Ledger:
    """An empty ledger for a reading; events after ``now_us`` will not be seen."""
    return Ledger(source=LogSource(reading, now_us), until_us=now_us)


def run_reports(
    ledger: Ledger,
    reading: Told,
    now_us: int | None,
    *,
    price: float | None = None,
    losses: Callable[[Books], Sequence[LossPoint]] | None = None,
) -> list[RunReport]:
    """The report of every run in the ledger, in the order in which the log names them.

    Raises ``ReportError`` for a run of decades, which a broken clock makes.
    """
    refuse_decades(ledger, now_us)
    names_in_log = ledger.spans(now_us).keys()
    reports = []
    for run in ledger.runs(now_us):
        books = ledger.books(run, now_us)
        details = ledger.details(run, now_us)
        notes = [*reading.notes, *books_notes(books, details)]
        if run in names_in_log:  # a further run of that name, name#2, has them in common with it
            notes += [f"{count(num, 'event')} set aside: {reason}." for reason, num in ledger.set_aside(run).items()]
        reports.append(
            RunReport(
                books=books,
                details=details,
                notes=notes,
                skipped_lines=reading.skipped_lines,
                skips=reading.skips,
                format=reading.format,
                has_clock=reading.has_clock,
                loss_points=None if losses is None else losses(books),
                price_per_gpu_hour=price,
            )
        )
    return reports


def books_notes(books: Books, details: Details) -> Iterator[str]:
    """What a run's books leave unsaid."""
    if not any(attempt.last_step is not None for attempt in details.attempts):
        yield "No step is in this log: there is no work that could have been kept."
    price = books.price_per_gpu_hour
    if price is not None and not 0 <= price < math.inf:
        yield f"The log tells a price of {price:g} for a GPU-hour, which is none; it is left out (--price names one)."
