"""A collector's incidents for the terminal: as a table, and one with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.table import Table

from tachograph_collector.client.flagged import seen
from tachograph_collector.client.incident_records import Incident, IncidentWithNotes, Silence
from tachograph_collector.report.flagged import GRAVEST_FIRST, cost_words, evidence_words, lasted_words
from tachograph_collector.report.terminal import Page
from tachograph_collector.report.text import duration, instant, visible

STYLES: Final = {"critical": "bold red", "warning": "yellow"}
ID_LENGTH: Final = 8
"""So much of an id is shown; any command takes the beginning of one."""


def in_order(found: Sequence[Incident]) -> list[Incident]:
    """What is open, the gravest of it first; then what is over, what began last first."""
    is_open = [one for one in found if one.is_open]
    over = [one for one in found if not one.is_open]
    return [
        *sorted(is_open, key=lambda one: (GRAVEST_FIRST.get(one.severity, 3), one.opened_at)),
        *sorted(over, key=lambda one: -one.opened_at),
    ]


def when(unix_seconds: float) -> str:
    """The instant in UTC."""
    return instant(round(unix_seconds * 1e6))


def state_words(one: Incident) -> str:
    """Whether it is open, whether somebody takes care of it, whether it is silenced."""
    if one.is_withdrawn:
        return "withdrawn"
    words = (
        ["open"] if one.is_open else [f"over after {duration(round(((one.cleared_at or 0) - one.opened_at) * 1e6))}"]
    )
    words += (
        [f"{visible(one.acknowledged.author, 40)} is on it"] if one.acknowledged is not None and one.is_open else []
    )
    words += ["silenced"] if one.is_silenced and one.is_open else []
    words += [one.origin] if one.origin != "live" else []
    return ", ".join(words)


def short_id(one_id: str) -> str:
    """So much of an id as people type."""
    return visible(one_id[:ID_LENGTH])


def show_table(found: Sequence[Incident], page: Page) -> None:
    """A line an incident."""
    table = _table(
        ("id", True), ("severity", True), ("run", False), ("began (UTC)", True), ("what", False), ("state", False)
    )
    for one in found:
        cells = (
            page.text(short_id(one.incident_id), "dim"),
            page.text(visible(one.severity, 20), STYLES.get(one.severity, "") if one.is_open else ""),
            page.text(visible(one.run or "(no name)", 100)),
            page.text(when(one.opened_at)),
            page.text(visible(one.summary, 200)),
            page.text(state_words(one)),
        )
        table.add_row(*cells)
    page.show(table)


def show_one(one: IncidentWithNotes, page: Page) -> None:
    """All that is known of an incident."""
    told = seen(one)
    page.line(f"{visible(one.severity, 20)}: {visible(one.summary, 500)}", STYLES.get(one.severity, "bold"))
    subject = "" if one.subject == "run" else f"{visible(one.subject, 120)} of "
    what = f"{visible(one.detector, 50)}: {subject}run {visible(one.run or '(no name)', 200)}"
    page.line(what + ("" if one.origin == "live" else f" ({one.origin})"))
    found = duration(max(0, round((one.found_at - one.opened_at) * 1e6)))
    page.line(f"began {when(one.opened_at)} UTC, found after {found}, {lasted_words(told)}")
    if one.acknowledged is not None:
        page.line(f"{visible(one.acknowledged.author, 80)} is on it since {when(one.acknowledged.at)} UTC")
    if one.is_silenced and one.is_open:
        page.line("silenced: nobody is told of it ('tachograph silence ls' says until when)")
    if one.is_replayed:
        page.line("in steps that an earlier attempt had done before")
    if one.advice is not None:
        page.line(f"what to do: {visible(one.advice, 500)}", "bold")
    cost = cost_words(told.cost)
    page.line(f"cost: {('none' if one.is_withdrawn else 'unknown') if cost is None else cost}")
    if one.consequence_of is not None:
        page.line(f"follows from: {short_id(one.consequence_of)}")
    where = [f"node {visible(one.node, 80)}"] * (one.node is not None) + [f"rank {one.rank}"] * (one.rank is not None)
    where += [f"attempt {visible(one.attempt, 40)}"] * (one.attempt is not None)
    if where:
        page.line(f"where: {', '.join(where)}")
    _section("evidence", [f"{name}: {value}" for name, value in evidence_words(told.evidence)], page)
    notes = [
        f"{when(note.at)}  {visible(note.author, 80)} {note.what}"
        + ("" if note.text is None else f": {visible(note.text, 2000)}")
        for note in one.notes
    ]
    _section("notes (UTC)", notes, page)
    page.line(f"id {visible(one.incident_id)}", "dim")
    if one.url is not None:
        page.line(visible(one.url, 300), "dim")


def _section(title: str, lines: list[str], page: Page) -> None:
    if lines:
        page.heading(title)
        for line in lines:
            page.line(line, indent=2)


def show_silences(found: Sequence[Silence], page: Page) -> None:
    """A line a silence."""
    table = _table(
        ("id", True),
        ("state", True),
        ("what", False),
        ("from (UTC)", True),
        ("until (UTC)", True),
        ("who", False),
        ("why", False),
    )
    for one in found:
        cells = (
            short_id(one.silence_id),
            visible(one.state, 20),
            about(one),
            when(one.since),
            when(one.until if one.ended_at is None else one.ended_at),
            visible(one.author, 60),
            visible(one.why, 200),
        )
        table.add_row(*(page.text(cell) for cell in cells))
    page.show(table)


def about(one: Silence) -> str:
    """Of which incidents it is."""
    told = (("run", one.run), ("detector", one.detector), ("subject", one.subject), ("node", one.node))
    return ", ".join(f"{name} {visible(value, 80)}" for name, value in told if value is not None)


def _table(*columns: tuple[str, bool]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    for title, is_whole in columns:
        table.add_column(title, no_wrap=is_whole, overflow="fold")
    return table
