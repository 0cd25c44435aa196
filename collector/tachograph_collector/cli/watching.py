"""Looking at a run again and again: what is asked for, and the two ways of showing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tachograph_collector.cli.incident_words import in_order, short_id, show_table
from tachograph_collector.client import AwayError, ProblemError, Run
from tachograph_collector.client.client import is_unbooked
from tachograph_collector.client.incident_records import Incident
from tachograph_collector.client.records import Minute, RunSummary
from tachograph_collector.client.report import report_of, us
from tachograph_collector.ledger.books import ACCOUNTS, Account
from tachograph_collector.report import palette
from tachograph_collector.report.flagged import GRAVEST_FIRST
from tachograph_collector.report.terminal import Page, render_run
from tachograph_collector.report.text import count, duration, instant, number, percent, visible

RUNNING: Final = "running"
STRIP_MINUTES: Final = 60
NUM_OPEN: Final = 10
NUM_CHANGES: Final = 5


class View(Protocol):
    """Where a watched run is shown."""

    def show(self, summary: RunSummary, latest: list[Minute]) -> None:
        """The run as it stands, and its latest minutes."""
        ...

    def flag(self, changes: Sequence[IncidentChange], are_open: Sequence[Incident]) -> None:
        """What became of incidents since the last look, and those that are open."""
        ...

    def say(self, sentence: str) -> None:
        """Why nothing new is shown."""
        ...


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One incident as it is now, and what became of it."""

    what: str
    """``open``, ``graver``, ``acknowledged``, ``unacknowledged`` or ``over``."""
    incident: Incident


class IncidentWatch:
    """Tells what is new about a run's incidents from look to look."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._since: float | None = None
        self._known: dict[str, Incident] = {}

    def look(self, now: float) -> tuple[list[IncidentChange], list[Incident]]:
        """What changed since the look before, and what is open, the gravest first; ``now`` is the run's own time."""
        self._since = now if self._since is None else self._since
        found = self._run.incidents(since=self._since)
        changes = [change for one in found for change in self._change(one)]
        self._known |= {one.incident_id: one for one in found}
        return changes, in_order([one for one in found if one.is_open])

    def _change(self, one: Incident) -> Iterator[IncidentChange]:
        known = self._known.get(one.incident_id)
        if known is None or one.is_open != known.is_open:
            yield IncidentChange("open" if one.is_open else "over", one)
        elif GRAVEST_FIRST.get(one.severity, 3) < GRAVEST_FIRST.get(known.severity, 3):
            yield IncidentChange("graver", one)
        if (one.acknowledged is None) != (known is None or known.acknowledged is None):
            yield IncidentChange("acknowledged" if one.acknowledged is not None else "unacknowledged", one)


def change_words(change: IncidentChange) -> str:
    """The change in a line."""
    one = change.incident
    words = f"incident {short_id(one.incident_id)} {change.what}"
    if change.what == "acknowledged" and one.acknowledged is not None:
        words += f" by {visible(one.acknowledged.author, 80)}"
    return f"{words}  {visible(one.severity, 20)}: {visible(one.summary, 200)}"


def watch_until_over(run: Run, view: View, wait: Callable[[], None]) -> None:
    """Show the run, wait, and look again, until it is over. What fails on the way is said, and tried again.

    The first look raises what goes wrong, so that a wrong name or address is told at once.
    """
    shown = -1
    seen = False
    incidents = IncidentWatch(run)
    while True:
        try:
            summary = run.summary()
            seen = True
            if summary.stored.version != shown:
                this_minute = summary.end // 60 * 60
                since = max(0.0, this_minute - 60 * (STRIP_MINUTES - 1))
                view.show(summary, list(run.minutes(since=since)))
                shown = summary.stored.version
            view.flag(*incidents.look(summary.end))
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

    def flag(self, changes: Sequence[IncidentChange], are_open: Sequence[Incident]) -> None:  # noqa: ARG002 - the other view draws them
        """Write a line for each change."""
        for change in changes:
            self._said = ""
            self._write(change_words(change))

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
        self._below: RenderableType = Text("")
        self._latest: list[IncidentChange] = []
        self._drawn: list[str] = []

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, summary: RunSummary, latest: list[Minute]) -> None:
        """Draw the report and the strip of the latest minutes."""
        page = Collected(self._console)
        render_run(report_of(summary, [], []), page)
        if latest:
            page.blank()
            page.line(f"the last {len(latest)} minutes, {strip_words(latest)}", "dim")
            page.show(strip(latest, page))
        stands = f"as of {instant(us(summary.stored.as_of), with_seconds=True)} UTC, version {summary.stored.version}"
        page.line(stands + ("; Ctrl-C ends this" if summary.status == RUNNING else ""), "dim")
        self._report = Group(*page.parts)
        self._live.update(Group(self._report, self._below), refresh=True)

    def flag(self, changes: Sequence[IncidentChange], are_open: Sequence[Incident]) -> None:
        """Draw what is open below the report, and what changed last."""
        self._latest = [*self._latest, *changes][-NUM_CHANGES:]
        page = Collected(self._console)
        if are_open:
            page.heading(count(len(are_open), "open incident"))
            show_table(are_open[:NUM_OPEN], page)
        for change in self._latest:
            if not change.incident.is_open:
                page.line(change_words(change), "dim")
        self._below = Group(*page.parts)
        drawn = [each.incident_id for each in are_open]
        if changes or drawn != self._drawn:
            self._live.update(Group(self._report, self._below), refresh=True)
        self._drawn = drawn

    def say(self, sentence: str) -> None:
        """Draw it below the report."""
        page = Collected(self._console)
        page.line(sentence, "yellow")
        self._live.update(Group(self._report, self._below, *page.parts), refresh=True)


class Collected(Page):
    """A page that keeps what it is shown instead of writing it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.parts: list[RenderableType] = []

    def show(self, what: RenderableType) -> None:
        """Keep it."""
        self.parts.append(what)

    def blank(self) -> None:
        """Keep an empty line."""
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
