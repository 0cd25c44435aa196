"""``tachograph replay --follow``: a live log's report in the terminal, drawn anew as the log grows, without any agent.

What a look finds new is read and booked; what was read before is not read again. Events go to a temporary file as well,
for the ledger, which goes back where something comes late.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Final, Protocol

import click
from rich.console import Console, Group
from rich.live import Live
from tachograph_agent.events import AnyEvent, decode_lines, encode, microseconds
from tachograph_agent.trainers.files import MissingExtraError, ReadingError
from tachograph_agent.trainers.growing import GrowingLog

from tachograph_collector.cli.booking import Options, refuse_skipped, with_gpus
from tachograph_collector.cli.console import standard_output
from tachograph_collector.cli.detecting import Watch
from tachograph_collector.cli.errors import BadInputError, ExtraMissingError
from tachograph_collector.cli.watching import Collected
from tachograph_collector.ledger import Ledger
from tachograph_collector.report.booked import run_reports
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.terminal import render_run
from tachograph_collector.report.text import count, duration, percent, visible

PERIOD_S: Final = 2.0
AHEAD_US: Final = 120_000_000
_BLOCK_BYTES: Final = 1024 * 1024
_AHEAD: Final = (
    "Times in this log lie ahead of this machine's clock: the report is of the log's last event (--tz ZONE names the "
    "zone)."
)


class View(Protocol):
    """Where the report of a growing log is shown."""

    def show(self, reports: Sequence[RunReport]) -> None:
        """The runs in the log as they stand; none as long as it tells of none."""
        ...


class Following:
    """A growing log's ledger, and what is shown of it. ``unix_clock`` gives the time until which a run goes on."""

    def __init__(self, log: GrowingLog, options: Options, unix_clock: Callable[[], float] = time.time) -> None:
        self.log = log
        self._options = options
        self._unix_clock = unix_clock
        self._past = _Past()
        self._ledger = Ledger(source=self._past)
        self._watch = None
        if options.with_incidents:
            self._watch = Watch(None, options.thresholds, price=options.price, gpus=options.gpus)
        self._last_us = 0
        self._shown: tuple[int, int, int] | None = None
        self.num_events = 0

    def take(self, batch: list[AnyEvent]) -> None:
        """Book what is new."""
        self._past.add(batch)
        self._ledger.add(batch)
        if self._watch is not None:
            self._watch.add(batch)
        self._last_us = max(self._last_us, *(microseconds(event.t) for event in batch))
        self.num_events += len(batch)
        if self._options.strict:
            refuse_skipped(self.log)

    def has_news(self) -> bool:
        """Whether a report would say something else than the last one: new events, or another minute."""
        now_us = self._now_us()
        look = (self.num_events, self.log.skipped_lines, (now_us or 0) // 60_000_000)
        changed, self._shown = look != self._shown, look
        return changed

    def reports(self, *, is_last: bool = False) -> list[RunReport]:
        """The report of every run in the log as of now; of a log without a clock, of its last event."""
        if not self.num_events:
            return []
        now_us = self._now_us()
        reports = run_reports(self._ledger, self.log, now_us, price=self._options.price)
        if self._watch is not None:
            if is_last:
                self._watch.finish()
                for report in reports:
                    self._watch.judge(report.books, report.details)
            elif now_us is not None:
                self._watch.glance(now_us)
            reports = [replace(report, incidents=self._watch.incidents(report.books)) for report in reports]
        if self._options.gpus is not None:
            gpus = self._options.gpus
            reports = [with_gpus(report, gpus) if report.books.gpu is None else report for report in reports]
        return reports

    def _now_us(self) -> int | None:
        if not self.log.has_clock:
            return None
        now_us = microseconds(self._unix_clock())
        if self._last_us > now_us + AHEAD_US:
            if _AHEAD not in self.log.notes:
                self.log.notes.append(_AHEAD)
            return None
        return max(now_us, self._last_us)


class _Past:
    """The events so far, in a temporary file: the ledger's source of what it has folded already."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="tachograph-")  # noqa: SIM115 - it lives as long as the ledger
        weakref.finalize(self, self._file.close)

    def add(self, events: Sequence[AnyEvent]) -> None:
        self._file.seek(0, 2)
        self._file.writelines(encode(event) + b"\n" for event in events)

    def read(self, run: str, since_us: int) -> Iterator[AnyEvent]:
        """Every event of ``run`` so far at or after ``since_us``."""
        at = 0
        while True:
            self._file.seek(at)
            block = self._file.read(_BLOCK_BYTES)
            lines = block[: block.rfind(b"\n") + 1]
            if not lines:
                return
            at += len(lines)
            events: list[AnyEvent] = decode_lines(lines)  # type: ignore[assignment]  # known events are events
            yield from (event for event in events if event.run == run and microseconds(event.t) >= since_us)


def follow(path: str, options: Options, period_s: float = PERIOD_S) -> list[RunReport]:
    """Show the log's report while it grows, until Ctrl-C (or SIGTERM); gives the last one.

    Raises ``BadInputError`` in one sentence where there is nothing to be told.
    """
    console = standard_output()
    try:
        log = GrowingLog(
            path,
            format=options.format,
            tz=options.zone,
            start_unix_seconds=options.start_unix_seconds,
            run=options.run,
            year=options.year,
            pattern=options.pattern,
        )
        following = Following(log, options)
        with _until_told_to_stop() as stop, _view(console, path) as view:
            run(following, view, lambda: stop.wait(period_s))
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    reports = following.reports(is_last=True)
    if not reports:
        told = f"read as {log.format}, and" if log.format is not None else "in no format I know so far;"
        raise BadInputError(f"{path}: {told} no step, save or start was in it; there is no run to be reported")
    return reports


def run(following: Following, view: View, wait: Callable[[], bool]) -> None:
    """Read and show until ``wait`` gives True."""

    def idle() -> bool:
        if following.has_news():
            view.show(following.reports())
        return wait()

    following.log.follow(following.take, idle)


@contextmanager
def _until_told_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, once; a second Ctrl-C interrupts as ever."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def told(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, told)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _view(console: Console, path: str) -> Iterator[View]:
    if not console.is_terminal:
        yield LineView(click.echo)
        sys.stdout.flush()
        return
    # The last report is written once more below, whole, so the live one goes.
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="ellipsis") as live:
        view = LiveView(console, live, path)
        view.show([])
        yield view


class LiveView:
    """The report in the terminal, drawn anew whenever the log has grown or a minute is over."""

    def __init__(self, console: Console, live: Live, path: str) -> None:
        self._console = console
        self._live = live
        self._path = path

    def show(self, reports: Sequence[RunReport]) -> None:
        """Draw the newest run in the log."""
        page = Collected(self._console)
        if reports:
            render_run(reports[-1], page)
        else:
            page.line(f"waiting for what {visible(self._path, 200)} tells of a run")
        more = f"; {count(len(reports) - 1, 'run')} before it" if len(reports) > 1 else ""
        page.line(f"following {visible(self._path, 200)}{more}; Ctrl-C ends this with the whole report", "dim")
        self._live.update(Group(*page.parts), refresh=True)


class LineView:
    """Where there is no terminal: a line for each minute of the newest run, and one when it is over."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._last: tuple[str, int, str] | None = None

    def show(self, reports: Sequence[RunReport]) -> None:
        """Write a line if the run is in a further minute, or its status is another."""
        if not reports:
            return
        report = reports[-1]
        books = report.books
        look = (books.run, books.end_us // 60_000_000, books.status)
        if look == self._last:
            return
        self._last = look
        parts = (
            f"{report.when(books.end_us)}{' UTC' if report.has_clock else ''}",
            visible(books.run, 80),
            books.status,
            f"step {books.steps:,}",
            f"goodput {percent(books.goodput)}",
            f"at risk {duration(books.at_risk_us)}",
            count(books.num_failures, "failure"),
        )
        self._write("  ".join(parts))
        sys.stdout.flush()
