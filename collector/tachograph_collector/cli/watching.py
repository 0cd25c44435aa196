"""Looking at a run again and again: what is asked for, and the two ways of showing it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tachograph_collector.client import AwayError, ProblemError, Run
from tachograph_collector.client.client import is_unbooked
from tachograph_collector.client.records import Minute, RunSummary
from tachograph_collector.client.report import report_of, us
from tachograph_collector.ledger.books import ACCOUNTS, Account
from tachograph_collector.report import palette
from tachograph_collector.report.terminal import Page, render_run
from tachograph_collector.report.text import count, duration, instant, number, percent, visible

RUNNING: Final = "running"
STRIP_MINUTES: Final = 60


class View(Protocol):
    """Where a watched run is shown."""

    def show(self, summary: RunSummary, latest: list[Minute]) -> None:
        """The run as it stands, and its latest minutes."""
        ...

    def say(self, sentence: str) -> None:
        """Why nothing new is shown."""
        ...


def watch_until_over(run: Run, view: View, wait: Callable[[], None]) -> None:
    """Show the run, wait, and look again, until it is over. What fails on the way is said, and tried again.

    The first look raises what goes wrong, so that a wrong name or address is told at once.
    """
    shown = -1
    seen = False
    while True:
        try:
            summary = run.summary()
            seen = True
            if summary.stored.version != shown:
                this_minute = summary.end // 60 * 60
                since = max(0.0, this_minute - 60 * (STRIP_MINUTES - 1))
                view.show(summary, list(run.minutes(since=since)))
                shown = summary.stored.version
            if summary.status != RUNNING:
                return
        except AwayError as error:
            if not seen:
                raise
            view.say(f"{error}; trying again")
        except ProblemError as error:
            if not is_unbooked(error):
                raise
            seen = True
            view.say(f"nothing of {visible(run.name)} is booked yet; looking again")
        wait()


class LineView:
    """A plain line for each minute of the run, and one when it is over."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._minute: int | None = None
        self._said = ""

    def __enter__(self) -> LineView:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""

    def show(self, summary: RunSummary, latest: list[Minute]) -> None:
        """Write a line if the run is in a further minute, or over."""
        minute = int(summary.end // 60)
        if summary.status == RUNNING and minute == self._minute:
            return
        self._minute = minute
        self._said = ""
        label = latest[-1].label if latest else "nothing booked"
        parts = (
            f"{instant(us(summary.end))} UTC",
            visible(summary.run, 80),
            summary.status,
            f"step {number(summary.steps)}",
            f"goodput {percent(summary.goodput)}",
            f"at risk {duration(None if summary.at_risk_s is None else us(summary.at_risk_s))}",
            count(summary.failures, "failure"),
            label,
        )
        self._write("  ".join(parts))

    def say(self, sentence: str) -> None:
        """Write it, once."""
        if sentence != self._said:
            self._write(sentence)
            self._said = sentence


class LiveView:
    """The report in the terminal, drawn anew whenever the books change. The last one stays."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
        self._report: RenderableType = Text("")

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, summary: RunSummary, latest: list[Minute]) -> None:
        """Draw the report and the strip of the latest minutes."""
        page = _Collected(self._console)
        render_run(report_of(summary, [], []), page)
        if latest:
            page.blank()
            page.line(f"the last {len(latest)} minutes, {strip_words(latest)}", "dim")
            page.show(strip(latest, page))
        stands = f"as of {instant(us(summary.stored.as_of), with_seconds=True)} UTC, version {summary.stored.version}"
        page.line(stands + ("; Ctrl-C ends this" if summary.status == RUNNING else ""), "dim")
        self._report = Group(*page.parts)
        self._live.update(self._report, refresh=True)

    def say(self, sentence: str) -> None:
        """Draw it below the report."""
        page = _Collected(self._console)
        page.line(sentence, "yellow")
        self._live.update(Group(self._report, *page.parts), refresh=True)


class _Collected(Page):
    """A page that keeps what it is shown instead of writing it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.parts: list[RenderableType] = []

    def show(self, what: RenderableType) -> None:
        self.parts.append(what)

    def blank(self) -> None:
        self.parts.append(Text(""))


def strip(latest: list[Minute], page: Page) -> Text:
    """A cell a minute, in the colour of its label."""
    cells = Text()
    for account, alike in groupby(latest[-max(1, page.width) :], lambda minute: _account(minute.label)):
        cells.append(page.glyphs[account] * len(list(alike)), palette.LIGHT[account])
    return cells


def strip_words(latest: list[Minute]) -> str:
    """How many of the minutes have which label."""
    counts = {account: sum(minute.label == account for minute in latest) for account in ACCOUNTS}
    return ", ".join(f"{counted} {account}" for account, counted in counts.items() if counted)


def _account(label: str) -> Account:
    return next((account for account in ACCOUNTS if account == label), "restart")
