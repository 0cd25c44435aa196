"""A report of outages in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from tachograph_agent.trainers.outage_tables import KINDS

from tachograph_collector.report.outages.findings import Listing, OutageReport, Value, hours
from tachograph_collector.report.terminal import Page
from tachograph_collector.report.text import UNKNOWN, count, number, percent, visible

SCHEMA: Final = 1
_MOST_ROWS: Final = 20
_SHORT: Final = 20
"""Cells up to this length, an instant's, are kept on one line."""
_SHARES: Final = frozenset({"share", "cpu_share"})


def render_outages(reports: Sequence[OutageReport], console: Console) -> None:
    """Each report: what it is of, figures, listings, notes."""
    page = Page(console)
    for index, report in enumerate(reports):
        if index:
            page.blank()
        page.line(
            f"{visible(report.name)} · {KINDS[report.kind].partition(' (')[0]} · {count(report.num_rows, 'row')}", "dim"
        )
        page.line(visible(report.headline, 400), "bold")
        page.line("Outages only: no step is told, so no minute can be booked as kept or lost.", "dim")
        page.blank()
        _figures(report, page)
        for listing in report.listings:
            _listing(listing, page)
        _sentences("Notes", report.notes, page)
        if report.skipped_lines:
            _sentences(
                f"{count(report.skipped_lines, 'line')} could not be read",
                [f"{skip.file}, line {skip.line_number:,}: {skip.reason}" for skip in report.skips],
                page,
            )


def _figures(report: OutageReport, page: Page) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False, pad_edge=False)
    table.add_column(overflow="fold", max_width=max(24, page.width * 2 // 5))
    table.add_column(overflow="fold")
    for figure in (figure for figure in report.figures if figure.words):
        table.add_row(page.text(visible(figure.label, 120)), page.text(visible(figure.words, 400)))
    page.show(table)


def _listing(listing: Listing, page: Page) -> None:
    page.heading(f"{visible(listing.title)}")
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    for index, name in enumerate(listing.columns):
        numbers = all(not isinstance(row[index], str) for row in listing.rows)
        title = name.removesuffix("_s").replace("num_", "").replace("num", "number").replace("_", " ")
        short = all(len(_cell(name, row[index])) <= _SHORT for row in listing.rows)
        table.add_column(title, justify="right" if numbers else "left", overflow="fold", no_wrap=short)
    for row in listing.rows[:_MOST_ROWS]:
        table.add_row(*(page.text(_cell(name, value)) for name, value in zip(listing.columns, row, strict=True)))
    page.show(Padding(table, (0, 0, 0, 2)))
    if len(listing.rows) > _MOST_ROWS:
        page.line(f"and {len(listing.rows) - _MOST_ROWS:,} more: --json has them all", indent=2)


def _cell(name: str, value: Value) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return visible(value, 200)
    if name in _SHARES:
        return percent(value)
    if name.endswith("_s"):
        return hours(value)
    return number(value, 0 if value == int(value) else 2)


def _sentences(title: str, sentences: Sequence[str], page: Page) -> None:
    if sentences:
        page.heading(title)
        for sentence in sentences:
            page.line(f"- {visible(sentence, 400)}", indent=2)


def outages_json(reports: Sequence[OutageReport]) -> dict[str, Any]:
    """All figures by key (null is unknown; ``words`` has them for people), listings as objects."""
    return {
        "schema": SCHEMA,
        "outages": [
            {
                "name": report.name,
                "kind": report.kind,
                "rows": report.num_rows,
                "headline": report.headline,
                "figures": {figure.key: figure.value for figure in report.figures},
                "words": {figure.key: figure.words for figure in report.figures},
                "listings": {
                    listing.key: [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]
                    for listing in report.listings
                },
                "notes": report.notes,
                "skipped_lines": report.skipped_lines,
                "skips": [
                    {"file": skip.file, "line": skip.line_number, "reason": skip.reason} for skip in report.skips
                ],
            }
            for report in reports
        ],
    }
