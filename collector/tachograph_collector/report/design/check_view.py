"""What a run says of a document's numbers, in a terminal: what no longer holds first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tachograph_collector.report.design.check import Finding
from tachograph_collector.report.terminal import Page
from tachograph_collector.report.text import count

_ORDER = ("no longer holds", "can't be judged", "holds")
_STYLES = {"no longer holds": "bold red", "can't be judged": "dim", "holds": ""}


def render_check(title: str, findings: Sequence[Finding], advice: str | None, console: Console) -> None:
    """Write the findings: the verdict in a line, then a table with one row a number."""
    page = Page(console)
    gone = [one for one in findings if one.verdict == "no longer holds"]
    open_ = [one for one in findings if one.verdict == "can't be judged"]
    page.line(title, "dim")
    unjudged = f"; {len(open_)} can't be judged" if open_ else ""
    if gone:
        names = ", ".join(one.name for one in gone)
        page.line(
            f"{count(len(gone), 'number')} of {len(findings)} no longer {'holds' if len(gone) == 1 else 'hold'}: "
            f"{names}{unjudged}.",
            "bold",
        )
    else:
        page.line(
            f"Nothing contradicts the document: {len(findings) - len(open_)} of {len(findings)} numbers "
            f"hold{unjudged}.",
            "bold",
        )
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    for head in ("number", "document", "measured", ""):
        table.add_column(head, overflow="fold")
    for verdict in _ORDER:
        for one in findings:
            if one.verdict == verdict:
                words = f"{one.verdict}: {one.why}" if one.why and verdict == "can't be judged" else one.verdict
                cells = (one.name, one.claimed, one.measured or "unknown", words)
                table.add_row(*(page.text(cell, _STYLES[verdict]) for cell in cells))
    page.show(table)
    if advice:
        page.line(advice)
