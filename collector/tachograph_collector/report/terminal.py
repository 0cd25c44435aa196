"""The report in a terminal: a verdict in one line, then what stands behind it.

Everything is written as plain ``rich`` text, never as markup, and names from logs pass through ``visible``: no log can
colour, link or move anything here. It reads on 60 columns, in a pipe without colours, and in an ASCII locale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS, Account, Interruption
from tachograph_collector.report import palette
from tachograph_collector.report.incident_lines import NUM_SHOWN, incident_words
from tachograph_collector.report.judge_view import MISSING, is_available, judge_view
from tachograph_collector.report.model import RunReport, cost_us
from tachograph_collector.report.text import (
    amount,
    count,
    duration,
    hours,
    percent,
    visible,
)
from tachograph_collector.report.verdict import cause_words, headline, run_line

NUM_RUNS: Final = 50
"""Runs shown; the rest are counted."""
NUM_WORST: Final = 5
NUM_LISTED: Final = 5
"""Anomalies, notes and skipped lines shown each; the rest are counted."""
_LEVELS: Final = {"alarm": "bold red", "advice": "bold yellow", "fine": "bold", "too_little": "bold"}
_SEVERITIES: Final = {"critical": "bold red", "warning": "yellow", "info": ""}
_MOST_COLUMNS: Final = 4
_FEWEST_COLUMNS: Final = 1
_WIDE: Final = 1000
_PLAIN: Final = str.maketrans({"−": "-", "–": "-", "·": "|", "…": "...", "×": "x", "→": "->", "±": "+-"})


def render_terminal(runs: Sequence[RunReport], console: Console, *, with_model: bool = False) -> None:
    """Write the report of every run to ``console``; a log without a run says so.

    ``with_model`` holds each run against the checkpoint model.
    """
    page = Page(console)
    if not runs:
        page.line("No run in this log: it has no step, save, start or end of an attempt or run.")
    for index, run in enumerate(runs[:NUM_RUNS]):
        if index:
            page.blank()
        render_run(run, page, with_model=with_model)
    if len(runs) > NUM_RUNS:
        page.blank()
        page.line(f"and {count(len(runs) - NUM_RUNS, 'more run')}: --json has them all", "bold")


class Page:
    """A console that is told words only, and spells them in ASCII where it must."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.ascii_only = console.options.ascii_only
        self.width = console.width
        # 16 colours can't tell lost from restart apart, so there the glyphs must.
        coloured = console.color_system in {"256", "truecolor"} and not console.no_color
        self.glyphs: dict[Account, str] = palette.ASCII_GLYPHS if self.ascii_only else palette.GLYPHS
        if coloured and not self.ascii_only:
            self.glyphs = dict.fromkeys(ACCOUNTS, "█")

    def text(self, words: str, style: str = "") -> Text:
        """The words as they are, without markup; they fold where a line is too short."""
        if self.ascii_only:
            words = words.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")
        return Text(words, style=style, overflow="fold")

    def line(self, words: str, style: str = "", indent: int = 0) -> None:
        """One paragraph."""
        self.show(Padding(self.text(words, style), (0, 0, 0, indent)) if indent else self.text(words, style))

    def heading(self, words: str) -> None:
        """A heading, set off from what is before it."""
        self.blank()
        self.line(words, "bold")

    def show(self, what: RenderableType) -> None:
        """Anything that rich can draw."""
        self.console.print(what, soft_wrap=False, highlight=False)

    def blank(self) -> None:
        """An empty line."""
        self.console.print()


def render_run(run: RunReport, page: Page, *, with_model: bool = False) -> None:
    """One run's part of the report, onto ``page``."""
    page.line(run_line(run), "dim")
    page.line(headline(run), "bold")
    if run.books.wall_us:
        page.blank()
        page.show(_bar(run, page))
        page.show(_fitting(run, page))
        _subs(run, page)
    _risk(run, page)
    if with_model:
        _model(run, page)
    _interruptions(run, page)
    _incidents(run, page)
    _sentences("Anomalies", [visible(a.detail, 400) + _at(run, a.at_us) for a in run.details.anomalies], page, "yellow")
    _sentences("Notes", [visible(note, 400) for note in run.notes], page)
    _skipped(run, page)


def _bar(run: RunReport, page: Page) -> Text:
    """The four accounts in one line; what is there at all gets at least one cell."""
    width = max(20, min(page.width, 100))
    amounts = [run.books.accounts_us[account] for account in ACCOUNTS]
    bar = Text()
    for account, cells in zip(ACCOUNTS, share_out(amounts, width), strict=True):
        bar.append(page.glyphs[account] * cells, palette.LIGHT[account])
    return bar


def share_out(amounts: Sequence[int], cells: int) -> list[int]:
    """Cells in proportion to the amounts, ``cells`` in all, at least one for every amount above 0."""
    total = sum(amounts)
    if not total:
        return [0] * len(amounts)
    given = [max(1, amount * cells // total) if amount else 0 for amount in amounts]
    largest = max(range(len(amounts)), key=lambda i: amounts[i])
    given[largest] += cells - sum(given)
    return given


def _fitting(run: RunReport, page: Page) -> Table:
    """The accounts with as many columns as the terminal has room for: a number that is cut off is a wrong number."""
    wide = page.console.options.update(width=_WIDE)
    for num_columns in range(_MOST_COLUMNS, _FEWEST_COLUMNS, -1):
        table = _accounts(run, page, num_columns)
        if page.console.measure(table, options=wide).maximum <= page.width:
            return table
    return _accounts(run, page, _FEWEST_COLUMNS)


def _accounts(run: RunReport, page: Page, num_columns: int) -> Table:
    """Each account with its time, share, GPU-hours and money; only the first ``num_columns`` of those."""
    books = run.books
    gpu = run.gpu_hours() if num_columns >= 3 else None
    money = run.money() if num_columns >= 4 else None
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("account", no_wrap=True)
    for title in ("time", "share", *(["GPU-hours"] if gpu else []), *(["money"] if money else []))[:num_columns]:
        table.add_column(title, justify="right", no_wrap=True)

    def row(name: Text, us: int | None, key: str) -> None:
        share = us / books.wall_us if us is not None and books.wall_us else None
        cells = [duration(us) if us is not None else "", percent(share) if share is not None else ""][:num_columns]
        cells += [amount(gpu[key], 1)] if gpu else []
        cells += [amount(money[key], 2)] if money else []
        table.add_row(name, *(page.text(cell) for cell in cells))

    for account in ACCOUNTS:
        name = Text.assemble((page.glyphs[account] * 2, palette.LIGHT[account]), " ", account)
        row(name, books.accounts_us[account], account)
    if gpu and gpu["idle"]:
        row(page.text("   held, idle"), None, "idle")
    row(page.text("   all"), books.wall_us, "held")
    return table


def _subs(run: RunReport, page: Page) -> None:
    lines: list[tuple[str, str]] = []
    for account in ACCOUNTS:
        booked = [(sub, run.books.subs_us.get(f"{account}/{sub}", 0)) for sub in SUB_ACCOUNTS[account]]
        parts = [f"{sub.replace('_', ' ')} {hours(us)}" for sub, us in booked if us]
        if parts and not (len(parts) == 1 and account == "kept"):
            lines.append((account, " · ".join(parts)))
    causes = sorted(run.books.lost_by_cause_us.items(), key=lambda pair: -pair[1])
    if any(us for _, us in causes):
        lines.append(("lost by", " · ".join(f"{cause_words(cause)} {hours(us)}" for cause, us in causes if us)))
    if not lines:
        return
    page.blank()
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, words in lines:
        table.add_row(page.text(name), page.text(words))
    page.show(table)


def _risk(run: RunReport, page: Page) -> None:
    books = run.books
    page.blank()
    if books.at_risk_us is None:
        page.line("At risk: unknown, since this log can't show when a save has landed.")
    elif books.at_risk_us:
        low = f"; if it were lost now, {percent(books.goodput_low)} would be kept" if books.wall_us else ""
        page.line(f"At risk: {duration(books.at_risk_us)} of work that no landed checkpoint covers yet{low}.")
    else:
        page.line("At risk: nothing.")
    minutes = " · ".join(f"{account} {books.num_minutes[account]:,}" for account in ACCOUNTS)
    incomplete = sum(minute.incomplete for minute in run.details.minutes)
    page.line(f"Minutes by label: {minutes}" + (f"; {incomplete:,} of them incomplete" if incomplete else ""), "dim")


def _model(run: RunReport, page: Page) -> None:
    if not is_available():
        page.line(MISSING, "dim")
        return
    view = judge_view(run)
    if view is None:
        return
    page.heading("Against the model")
    page.line(view.sentence, _LEVELS[view.judgement.level])
    for sentence in view.others:
        page.line(f"- {sentence}", indent=2)
    for title, rows in (("measured", view.measured), ("goodput", view.goodput), ("not kept, by cause", view.waste)):
        if rows:
            page.blank()
            page.line(title, "dim")
            _pairs(rows, page)


def _pairs(rows: Sequence[tuple[str, str]], page: Page) -> None:
    """Two columns, the second folding."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(page.text(name), page.text(words))
    page.show(Padding(table, (0, 0, 0, 2)))


def _interruptions(run: RunReport, page: Page) -> None:
    worst = run.worst(NUM_WORST)
    if not worst:
        return
    total = len(run.details.interruptions)
    page.heading(
        f"Worst {len(worst)} of {count(total, 'interruption')}" if total > len(worst) else count(total, "interruption")
    )
    for index, interruption in worst:
        page.show(_interruption(index, interruption, run.when(interruption.at_us), page, timed=run.books.wall_us > 0))


def _interruption(index: int, it: Interruption, when: str, page: Page, *, timed: bool) -> RenderableType:
    """One interruption; where nothing in the log has a length (not ``timed``), what it cost is unknown, not 0 s."""
    what = cause_words(it.category) if it.category or it.how == "failure" else ""
    title = " ".join(word for word in (it.how, what and f"({what})") if word)
    first = page.text(f"{when}  ")
    first.append_text(page.text(title, "bold"))
    first.append_text(page.text(f"  cost {duration(cost_us(it)) if timed else 'unknown'}"))
    lines: list[RenderableType] = [first]
    lost = f"{duration(it.lost_us)} of work lost" if it.lost_us else "no work lost"
    if it.resume_step is not None and it.last_step is not None and it.resume_step < it.last_step:
        lost = lost if timed else "work lost"
        lost += f" (back from step {it.last_step:,} to {it.resume_step:,})"
    phases = " · ".join(
        f"{visible(name, 30).replace('_', ' ')} {hours(us)}" for name, us in palette.phases_in_order(it.phases_us) if us
    )
    until = "" if it.resumed_at_us is not None else ", and no step since"
    restart = f"{duration(it.restart_us)} of restart{f': {phases}' if phases else ''}"
    if not timed:
        restart = "how long it took is not in the log"
    lines.append(page.text(f"{lost}; {restart}{until}"))
    where = [f"node {visible(it.node, 60)}"] if it.node is not None else []
    where += [f"rank {it.rank}"] if it.rank is not None else []
    said = [visible(it.detail, 200)] if it.detail else []
    said += ["inferred, not reported"] if it.inferred else []
    if where or said:
        lines.append(page.text("; ".join([", ".join(where)] * bool(where) + said), "dim"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, justify="right", width=5)
    grid.add_column(overflow="fold")
    grid.add_row(page.text(f"#{index}", "dim"), Group(*lines))
    return grid


def _incidents(run: RunReport, page: Page) -> None:
    if run.incidents is None:
        return
    heading, incidents = incident_words(run)
    page.heading(heading)
    for severity, what, behind in incidents[:NUM_SHOWN]:
        page.line(f"- {what}", _SEVERITIES[severity], indent=2)
        for sentence in behind:
            page.line(sentence, "dim", indent=4)
    if len(incidents) > NUM_SHOWN:
        page.line(
            f"- and {len(incidents) - NUM_SHOWN:,} more: --incidents FILE (or 'tachograph incidents') has them all",
            indent=2,
        )


def _at(run: RunReport, us: int | None) -> str:
    return f" (at {run.when(us, with_seconds=True)})" if us is not None else ""


def _sentences(title: str, sentences: Sequence[str], page: Page, style: str = "") -> None:
    if not sentences:
        return
    page.heading(title)
    for sentence in sentences[:NUM_LISTED]:
        page.line(f"- {sentence}", style, indent=2)
    if len(sentences) > NUM_LISTED:
        page.line(f"- and {len(sentences) - NUM_LISTED:,} more: --json has them all", style, indent=2)


def _skipped(run: RunReport, page: Page) -> None:
    if not run.skipped_lines:
        return
    page.heading(f"{count(run.skipped_lines, 'line')} could not be read and {_were(run.skipped_lines)} skipped")
    for skip in run.skips[:NUM_LISTED]:
        page.line(f"- {visible(skip.file, 80)}, line {skip.line_number:,}: {visible(skip.reason, 200)}", indent=2)


def _were(num: int) -> str:
    return "was" if num == 1 else "were"
