"""Refuses a run of decades before it is booked: a broken clock, not a run, and every minute of it would take memory.

The ledger sets aside a lone event far from all others; two of them, or a lone start, make a run that lasts from 1970
until today.
"""

from __future__ import annotations

from typing import Final

from tachograph_collector.ledger import Ledger
from tachograph_collector.report.errors import ReportError
from tachograph_collector.report.text import DAY, iso, visible

LONGEST_RUN_US: Final = 5 * 366 * DAY


def refuse_decades(ledger: Ledger, now_us: int | None) -> None:
    """Raise ``ReportError`` if a run in the ledger lasts longer than 5 years; time between its spans doesn't count."""
    for run, spans in ledger.spans(now_us).items():
        if sum(span.end_us - span.start_us for span in spans) <= LONGEST_RUN_US:
            continue
        longest = max(spans, key=lambda span: span.end_us - span.start_us)
        by_now = longest.end_us == now_us
        raise ReportError(
            f"run '{visible(run, 80)}' would last from {iso(longest.start_us)[:10]} to {iso(longest.end_us)[:10]}"
            f"{', the time of --now' if by_now else ''}; no run lasts more than 5 years: check the clocks"
            f"{' and --now' if by_now else ''}, and leave the wrong lines out"
        )
