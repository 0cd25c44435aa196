"""A window's minutes by columns: only those that its edges cut are looked at one by one."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from tachograph_collector.ledger.books import ACCOUNTS
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.text import MINUTE
from tachograph_collector.store.folded_reader import Minutes


def minutes_within(minutes: Minutes, window: Window) -> tuple[Minutes, Minutes]:
    """The run's minutes that lie whole in the window, and those that its edges cut."""
    since_us = -(2**63) if window.since_us is None else -(-window.since_us // MINUTE) * MINUTE
    until_us = 2**63 - 1 if window.until_us is None else window.until_us // MINUTE * MINUTE
    begin, end = np.searchsorted(minutes.start_us, [since_us, until_us])
    cut = [edge // MINUTE * MINUTE for edge in (window.since_us, window.until_us) if edge is not None and edge % MINUTE]
    inside = minutes.take(slice(int(begin), max(int(begin), int(end)))).of_the_run()
    return inside, minutes.take(np.isin(minutes.start_us, np.array(cut, dtype=np.int64))).of_the_run()


def counted(clipped: RunReport, inside: Minutes) -> RunReport:
    """The report of a window that was clipped with its cut minutes only, with those inside counted too.

    Of ``details.minutes`` only those are kept that are not complete, which is all that is told of them.
    """
    labels = np.bincount(inside.label, minlength=len(ACCOUNTS)).tolist()
    num = {account: clipped.books.num_minutes[account] + labels[place] for place, account in enumerate(ACCOUNTS)}
    some = [minute for minute in clipped.details.minutes if minute.incomplete]
    some += inside.take(inside.incomplete).records()
    return replace(
        clipped,
        books=msgspec.structs.replace(clipped.books, num_minutes=num),
        details=msgspec.structs.replace(clipped.details, minutes=some),
    )
