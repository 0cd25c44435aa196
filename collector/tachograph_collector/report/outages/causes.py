"""A table of causes with how often each struck: shares from the counts, held against the percentages printed beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tachograph_agent.trainers.outage_tables import CAUSES, COUNTS
from tachograph_agent.trainers.table_rows import TableRow
from tachograph_agent.trainers.text import integer, number

from tachograph_collector.report.outages.findings import Listing, Options, OutageReport, Value
from tachograph_collector.report.outages.rates import mtbf_figures
from tachograph_collector.report.outages.reading import column
from tachograph_collector.report.outages.words import category_of
from tachograph_collector.report.text import count, percent

_ROUNDING: Final = 0.051
"""Percentage points by which one decimal can differ from the exact share."""
_MOST_PERCENT: Final = 1000.0
_MOST_TOLD: Final = 3


def add_causes(report: OutageReport, rows: Sequence[TableRow], options: Options) -> None:
    """Counts, shares, and what they make of MTBF and rate where span and GPUs are given."""
    num_column = column(rows, COUNTS) or "count"
    cause_column = next((name for name in CAUSES if column(rows, (name,)) and name != num_column), "cause")
    printed_column = next((name for row in rows for name in row.cells if "percent" in name or "%" in name), None)
    counted: list[tuple[TableRow, int]] = []
    for row in rows:
        num = integer(row.cells.get(num_column, ""))
        if num is None or num < 0:
            report.note(f"Line {row.line_number}: '{num_column}' is no count; the row was left out.")
        else:
            counted.append((row, num))
    total = sum(num for _, num in counted)
    report.headline = f"{count(total, 'interruption')} by {count(len(counted), 'cause')}"
    report.figure("num_failures", "interruptions", total)
    mtbf_figures(report, total, options.span_s, why="the table doesn't tell how long was watched (--span DAYS does)")
    _rate(report, total, options)
    _printed(report, counted, total, cause_column, printed_column)
    told = "category" if column(rows, ("category",)) and cause_column != "category" else None
    if told is not None:
        groups: Counter[str] = Counter()
        for row, num in counted:
            groups[row.cells.get(told, "unknown")] += num
        listed: list[Sequence[Value]] = [
            (name[:80], num, num / total if total else None) for name, num in groups.most_common()
        ]
        report.listings.append(
            Listing("by_category", "by the table's categories", ("category", "num", "share"), listed)
        )
    report.listings.append(
        Listing(
            "causes",
            "causes",
            ("cause", "category", "num", "share"),
            [
                (
                    row.cells.get(cause_column, "unknown")[:120],
                    category_of(row.cells.get(cause_column), row.cells.get("category")),
                    num,
                    num / total if total else None,
                )
                for row, num in counted
            ],
        )
    )


def _rate(report: OutageReport, total: int, options: Options) -> None:
    why = "needs --span DAYS and --gpus NUMBER"
    gpu_hours = None
    if options.span_s is not None and options.gpus is not None:
        gpu_hours = options.span_s / 3600 * options.gpus
    rate = total / gpu_hours if gpu_hours else None
    words = None if rate is None or not total else f"{rate:.3g}, one in {(gpu_hours or 0.0) / total:,.0f} GPU-hours"
    report.figure("failures_per_gpu_hour", "interruptions per GPU-hour", rate if total else None, words, why=why)


def _printed(
    report: OutageReport,
    counted: Sequence[tuple[TableRow, int]],
    total: int,
    cause_column: str,
    printed_column: str | None,
) -> None:
    """Printed percentages that don't agree with the counts."""
    if printed_column is None or not total:
        return
    printed = [
        (row, num, value)
        for row, num in counted
        if (value := number(row.cells.get(printed_column, "").removesuffix("%").strip())) is not None
        and 0.0 <= value <= _MOST_PERCENT
    ]
    wrong = [(row, num, value) for row, num, value in printed if abs(value - 100 * num / total) > _ROUNDING]
    report.figure(
        "printed_percent_sum", "sum of the printed percentages", round(sum(value for *_, value in printed), 6)
    )
    report.figure("num_printed_wrong", "printed percentages that disagree with the counts", len(wrong))
    for row, num, value in wrong[:_MOST_TOLD]:
        report.note(
            f"{row.cells.get(cause_column, 'A row')[:80]!r} prints {value:g} %, but {num:,} of {total:,} is "
            f"{percent(num / total)}; shares here come from the counts."
        )
