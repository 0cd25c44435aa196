"""Two runs side by side: what ``tachograph diff`` shows.

Runs differ in length, so what decides is shown as shares of their time and as rates; the hours stand below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, median
from typing import Final, Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.terminal import Page
from tachograph_collector.report.text import DAY, UNKNOWN, amount, duration, hours, percent, visible

Kind = Literal["share", "time", "rate", "number"]
_SIGN: Final = {True: "+", False: "−"}


class Row(NamedTuple):
    """One figure of both runs. ``better`` is the sign of a change for the better, 0 where there is no better."""

    section: str
    name: str
    a: float | None
    b: float | None
    kind: Kind
    better: int

    @property
    def change(self) -> float | None:
        """B less A; None if either is unknown."""
        return None if self.a is None or self.b is None else self.b - self.a


def compare(a: RunReport, b: RunReport) -> list[Row]:
    """Every figure of the comparison. Times are microseconds, shares run from 0 to 1, rates are per day."""
    figures_a, figures_b = _figures(a), _figures(b)
    rows = []
    for key, (value, kind, better) in figures_a.items():
        if key not in figures_b:
            continue
        other = figures_b[key][0]
        section, name = key
        if section == "hours" and "/" in name and not value and not other:
            continue
        rows.append(Row(section, name, value, other, kind, better))
    return rows


_Figures = dict[tuple[str, str], tuple[float | None, Kind, int]]


def _figures(run: RunReport) -> _Figures:
    books, details = run.books, run.details
    days = books.wall_us / DAY
    figures: _Figures = {
        ("shares", "goodput"): (books.goodput, "share", 1),
        ("shares", "goodput, at risk lost"): (books.goodput_low, "share", 1),
        ("shares", "GPU goodput"): (books.gpu_goodput, "share", 1),
    }
    for account in ACCOUNTS[1:]:
        figures["shares", account] = (run.share(account), "share", -1)
    stops = [it for it in details.interruptions if it.how != "rollback"]
    came_back = [it.restart_us for it in stops if it.resumed_at_us is not None]
    costly = [it.lost_us for it in details.interruptions]
    figures["interruptions", "interruptions a day"] = (len(details.interruptions) / days if days else None, "rate", -1)
    figures["interruptions", "failures a day"] = (books.num_failures / days if days else None, "rate", -1)
    figures["interruptions", "mean restart"] = (_mean(came_back), "time", -1)
    figures["interruptions", "mean work lost"] = (_mean(costly), "time", -1)
    figures["checkpoints", "interval"] = (_interval(run), "time", 0)
    blocking = [c.blocking_us for c in details.checkpoints if c.state != "failed"]
    figures["checkpoints", "mean cost"] = (_mean(blocking), "time", -1)
    persist = [c.persist_us for c in details.checkpoints if c.persist_us is not None]
    figures["checkpoints", "mean time to landing"] = (_mean(persist), "time", -1)
    if run.incidents is not None:
        real = Counter(one.severity for one in run.incidents if not one.is_withdrawn)
        for severity in ("critical", "warning", "info"):
            figures["incidents", severity] = (real[severity], "number", -1)
    figures["hours", "all"] = (books.wall_us, "time", 0)
    for account in ACCOUNTS:
        better = 1 if account == "kept" else -1
        figures["hours", account] = (books.accounts_us[account], "time", better)
        for sub in SUB_ACCOUNTS[account]:
            figures["hours", f"{account}/{sub}"] = (books.subs_us.get(f"{account}/{sub}", 0), "time", 0)
    gpu, money = run.gpu_hours(), run.money()
    figures["totals", "steps"] = (run.steps, "number", 0)
    figures["totals", "attempts"] = (books.num_attempts, "number", 0)
    figures["totals", "GPU-hours held"] = (gpu["held"] if gpu else None, "number", 0)
    figures["totals", "GPU-hours kept"] = (gpu["kept"] if gpu else None, "number", 0)
    figures["totals", "money"] = (money["held"] if money else None, "number", 0)
    return figures


def _mean(values: Sequence[int]) -> float | None:
    return mean(values) if values else None


def _interval(run: RunReport) -> float | None:
    """Median time between the starts of saves that follow one another in one attempt; None with fewer than two."""
    starts = [
        (c.attempt, c.start_us) for c in run.details.checkpoints if c.start_us is not None and c.state != "failed"
    ]
    gaps = [late - early for (one, early), (other, late) in pairwise(starts) if one == other and late > early]
    return median(gaps) if gaps else None


def verdict(a: RunReport, b: RunReport) -> str:
    """The comparison in a sentence."""
    first, second = a.books.goodput, b.books.goodput
    if first is None or second is None:
        return "Goodput can't be compared: a run of no length has none."
    points = (second - first) * 100
    if abs(points) < 0.05:
        return f"B kept as much of its time as A: {percent(second)}."
    direction = "more" if points > 0 else "less"
    moved = {name: ((b.share(name) or 0) - (a.share(name) or 0)) * 100 for name in ACCOUNTS[1:]}
    main = max(moved, key=lambda name: abs(moved[name]))
    why = f"{main} {_signed(moved[main], 1)} points"
    return f"B kept {abs(points):.1f} points {direction} than A ({percent(first)} to {percent(second)}); mostly: {why}."


def render_diff(a: RunReport, b: RunReport, console: Console) -> None:
    """Write the comparison of A and B to ``console``; a change for the better is green, for the worse red."""
    page = Page(console)
    for letter, run in (("A", a), ("B", b)):
        page.line(f"{letter}  {visible(run.books.run or '(no name)', 60)} · {run.books.status}", "dim")
    page.line(verdict(a, b), "bold")
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("", overflow="fold")
    for title in ("A", "B", "B − A"):
        table.add_column(page.text(title), justify="right", no_wrap=True)
    section = ""
    for row in compare(a, b):
        if row.section != section:
            section = row.section
            table.add_row(page.text(""), "", "", "")
            table.add_row(page.text(section, "bold"), "", "", "")
        sub = "/" in row.name and row.section == "hours"
        name = f"  {row.name.partition('/')[2].replace('_', ' ')}" if sub else row.name
        table.add_row(
            page.text(name, "dim" if sub else ""),
            page.text(_shown(row.a, row.kind)),
            page.text(_shown(row.b, row.kind)),
            _change(row, page),
        )
    page.show(table)


def _shown(value: float | None, kind: Kind) -> str:
    if value is None:
        return UNKNOWN
    if kind == "share":
        return percent(value)
    if kind == "time":
        return hours(round(value))
    if kind == "rate":
        return f"{value:.2f}"
    return amount(value, 0 if float(value).is_integer() else 1)


def _change(row: Row, page: Page) -> Text:
    change = row.change
    if change is None:
        return page.text(UNKNOWN, "dim")
    if row.kind == "share":
        words = f"{_signed(change * 100, 1)} points"
    elif row.kind == "time":
        words = f"{_SIGN[change > 0]}{duration(abs(round(change)))}" if round(change) else "same"
    elif row.kind == "rate":
        words = _signed(change, 2)
    else:
        words = (
            f"{_SIGN[change > 0]}{amount(abs(change), 0 if float(change).is_integer() else 1)}" if change else "same"
        )
    if words.startswith("0"):
        words = "same"
    style = "" if words == "same" or not row.better else "green" if change * row.better > 0 else "red"
    return page.text(words, style)


def _signed(value: float, digits: int) -> str:
    rounded = round(value, digits)
    return f"{_SIGN[rounded > 0]}{abs(rounded):.{digits}f}" if rounded else f"{0:.{digits}f}"
