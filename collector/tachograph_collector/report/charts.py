"""The charts of the page: each takes one run and gives one SVG, or None where the run has nothing to show.

What is drawn is bounded, however long the run: minutes are merged into cells, restarts are cut to the costliest, and a
loss curve is drawn as minimum, median and maximum of as many stretches as the eye can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS, Account, Minute
from tachograph_collector.report import palette, stretches
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish
from tachograph_collector.report.flagged import GRAVEST_FIRST
from tachograph_collector.report.model import RunReport, cost_us
from tachograph_collector.report.text import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    amount,
    count,
    duration,
    hours,
    moment,
    percent,
    visible,
)
from tachograph_collector.report.verdict import cause_words

MAX_BLOCKS: Final = 3_500
"""Rectangles of the strip; beyond it neighbouring minutes share a cell."""
MAX_ROWS: Final = 36
MAX_BINS: Final = 180
MAX_LOSS_BINS: Final = 500
MAX_BARS: Final = 30
MAX_MARKS: Final = 150
_ROW_US: Final = (10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 364 * DAY, 3640 * DAY)
_CELLS_US: Final = tuple(n * MINUTE for n in (1, 2, 5, 10, 30, 60, 180, 720, 1440, 10_080, 40_320))
_TICKS_US: Final = tuple(
    [SECOND * n for n in (1, 2, 5, 10, 15, 30)]
    + [MINUTE * n for n in (1, 2, 5, 10, 15, 30)]
    + [HOUR * n for n in (1, 2, 3, 6, 12)]
    + [DAY * n for n in (1, 2, 5, 7, 14, 28, 91, 182, 364, 3640, 36400)]
)


def strip(run: RunReport, prefix: str) -> tuple[str, str] | None:
    """Every minute of the run in the colour of its label, rows of equal length; the SVG and its caption."""
    minutes = run.details.minutes
    if not minutes:
        return None
    row_us = next((us for us in _ROW_US if _num_rows(minutes, us) <= MAX_ROWS), _ROW_US[-1])
    rows = sorted({minute.start_us // row_us for minute in minutes})[-MAX_ROWS:]
    row_at = {row: index for index, row in enumerate(rows)}
    for cell_us in (us for us in _CELLS_US if us <= row_us):
        blocks = _strip_blocks(minutes, cell_us, row_us, row_at)
        if sum(map(len, blocks.values())) <= MAX_BLOCKS:
            break
    with drawing():
        drawn, axes = figure(0.62 + 0.155 * max(len(rows), 2))
        for account in ACCOUNTS:
            if blocks[account]:
                axes.add_patch(PathPatch(_one_path(blocks[account]), facecolor=STAND_IN[account], linewidth=0))
        marks = [m for m in minutes if m.incomplete and m.start_us // row_us in row_at]
        if marks:
            axes.plot(
                [(m.start_us % row_us + MINUTE / 2) / row_us for m in marks[:500]],
                [row_at[m.start_us // row_us] + 0.5 for m in marks[:500]],
                linestyle="none", marker="|", markersize=5, color=STAND_IN["ink"],
            )  # fmt: skip
        flags = _flags(run, row_us, row_at)
        if flags:
            axes.plot(
                [x for x, _ in flags], [row + 0.5 for _, row in flags], linestyle="none", marker="v", markersize=6,
                markerfacecolor=STAND_IN["ink"], markeredgecolor=STAND_IN["page"], markeredgewidth=0.8,
            )  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(len(rows), 0))
        every = max(1, len(rows) // 18)
        labelled = list(range(0, len(rows), every))
        axes.set_yticks([i + 0.5 for i in labelled], [_row_label(rows[i] * row_us, row_us, run) for i in labelled])
        ticks, names = _row_ticks(row_us)
        axes.set_xticks(ticks, names)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        cell = "one minute" if cell_us == MINUTE else hours(cell_us)
        caption = f"A cell is {cell}, a row {_row_words(row_us)}; where nothing is drawn is not the run's time."
        if len(rows) == MAX_ROWS and _num_rows(minutes, row_us) > MAX_ROWS:
            caption += f" Only the last {MAX_ROWS} rows are shown."
        if marks:
            caption += " A small bar marks a minute of which not everything was heard."
        if flags:
            caption += " A triangle marks the beginning of an incident."
        return finish(drawn, f"The run's minutes by label: {_label_counts(run)}", prefix), caption


def _flags(run: RunReport, row_us: int, row_at: dict[int, int]) -> list[tuple[float, int]]:
    """Where incidents began: (part of the row, row), the gravest if there are too many."""
    real = [one for one in run.incidents or () if not one.is_withdrawn and one.opened_us // row_us in row_at]
    shown = sorted(real, key=lambda one: GRAVEST_FIRST.get(one.severity, 3))[:MAX_MARKS]
    return [(one.opened_us % row_us / row_us, row_at[one.opened_us // row_us]) for one in shown]


def _label_counts(run: RunReport) -> str:
    return ", ".join(f"{run.books.num_minutes[account]:,} {account}" for account in ACCOUNTS)


def _num_rows(minutes: Sequence[Minute], row_us: int) -> int:
    return len({minute.start_us // row_us for minute in minutes})


Block = tuple[float, float, int]
"""(left, right, row), left and right as parts of the row"""


def _strip_blocks(
    minutes: Sequence[Minute], cell_us: int, row_us: int, row_at: dict[int, int]
) -> dict[Account, list[Block]]:
    """Neighbouring cells of one account and row as one block each."""
    blocks: dict[Account, list[Block]] = {account: [] for account in ACCOUNTS}
    last: tuple[Account, int] | None = None
    end = -1
    for start_us, account in _cells(minutes, cell_us):
        row, offset = divmod(start_us, row_us)
        if row not in row_at:
            continue
        left, right = offset / row_us, min((offset + cell_us) / row_us, 1.0)
        if last == (account, row) and end == offset:
            left = blocks[account].pop()[0]
        blocks[account].append((left, right, row_at[row]))
        last, end = (account, row), offset + cell_us
    return blocks


def _one_path(blocks: Sequence[Block]) -> Path:
    """All blocks as one path: a third of the bytes of as many rectangles."""
    vertices: list[tuple[float, float]] = []
    for left, right, row in blocks:
        top, bottom = row + 0.08, row + 0.92
        vertices += [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(blocks)
    return Path(vertices, codes)


def _cells(minutes: Sequence[Minute], cell_us: int) -> list[tuple[int, Account]]:
    """(start, account with the most time) of every cell in which the run has time."""
    if cell_us == MINUTE:
        return [(minute.start_us, minute.label) for minute in minutes]
    sums: dict[int, list[int]] = {}
    for minute in minutes:
        cell = sums.setdefault(minute.start_us // cell_us * cell_us, [0, 0, 0, 0])
        for index, us in enumerate((minute.lost_us, minute.restart_us, minute.checkpoint_us, minute.kept_us)):
            cell[index] += us
    ties: tuple[Account, ...] = ("lost", "restart", "checkpoint", "kept")
    return [(start, ties[cell.index(max(cell))]) for start, cell in sums.items()]


def _row_label(us: int, row_us: int, run: RunReport) -> str:
    if not run.has_clock:
        return f"+{duration(us)}"
    day = f"{moment(us):%b} {moment(us).day:2}"
    return day if row_us >= DAY else f"{day}  {moment(us):%H:%M}"


def _row_words(row_us: int) -> str:
    return {
        10 * MINUTE: "ten minutes", HOUR: "an hour", 6 * HOUR: "six hours", DAY: "a day (UTC)", 7 * DAY: "seven days",
        28 * DAY: "28 days", 364 * DAY: "364 days",
    }.get(row_us, "3,640 days")  # fmt: skip


def _row_ticks(row_us: int) -> tuple[list[float], list[str]]:
    parts, unit, name = {
        10 * MINUTE: (10, 1, "{} min"), HOUR: (6, 10, "{} min"), 6 * HOUR: (6, 1, "+{} h"), DAY: (8, 3, "{:02}:00"),
        7 * DAY: (7, 1, "+{} d"), 28 * DAY: (4, 7, "+{} d"), 364 * DAY: (4, 91, "+{} d"),
    }.get(row_us, (10, 364, "+{} d"))  # fmt: skip
    return [i / parts for i in range(parts + 1)], [name.format(i * unit) for i in range(parts + 1)]


def over_time(run: RunReport, prefix: str) -> tuple[str, str] | None:
    """Shares of the accounts over time, stacked, with the goodput up to each moment; the SVG and its caption."""
    if not run.details.minutes or not run.books.wall_us:
        return None
    starts, booked, stretch_us = stretches.booked(run.details)
    first, last = int(starts[0]), int(starts[-1]) + stretch_us
    bin_us = next((us for us in _TICKS_US if us >= stretch_us and (last - first) / us <= MAX_BINS), _TICKS_US[-1])
    origin = first // bin_us * bin_us
    num_bins = min((last - origin + bin_us - 1) // bin_us, 4 * MAX_BINS)
    index = np.minimum((starts - origin) // bin_us, num_bins - 1)
    sums = np.zeros((num_bins, len(ACCOUNTS)))
    np.add.at(sums, index, booked)
    total = sums.sum(axis=1)
    shares = np.divide(sums, total[:, None], out=np.zeros_like(sums), where=total[:, None] > 0) * 100
    with drawing():
        drawn, axes = figure(2.7)
        edges = np.arange(num_bins + 1) * bin_us + origin
        x = np.repeat(edges, 2)[1:-1] - origin
        base = np.zeros(num_bins)
        for column, account in enumerate(ACCOUNTS):
            top = base + shares[:, column]
            if shares[:, column].any():
                axes.fill_between(
                    x, np.repeat(base, 2), np.repeat(top, 2), color=STAND_IN[account], linewidth=0, label=account
                )
            base = top
        running = np.cumsum(booked[:, 0]) / np.maximum(np.cumsum(booked.sum(axis=1)), 1) * 100
        keep = np.unique(np.linspace(0, len(starts) - 1, 2 * MAX_BINS).astype(int))
        at = starts[keep] + stretch_us - origin
        axes.plot(at, running[keep], color=STAND_IN["page"], linewidth=3.2, solid_joinstyle="round")
        axes.plot(at, running[keep], color=STAND_IN["ink"], linewidth=1.4, solid_joinstyle="round")
        axes.set(ylim=(0, 100), xlim=(0, edges[-1] - origin))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        _time_axis(axes, origin, int(edges[-1]), run)
        each = "second" if bin_us == SECOND else "minute" if bin_us == MINUTE else hours(bin_us)
        caption = f"Share of each {each}; the line is the goodput from the start up to each moment."
        return finish(
            drawn, "Shares of the four accounts over time, and the goodput up to each moment", prefix
        ), caption


def _time_axis(axes: Axes, origin: int, end: int, run: RunReport) -> None:
    """Round UTC instants on an axis that counts microseconds from ``origin``; hours since the start without a clock."""
    span = max(end - origin, 1)
    step = next((us for us in _TICKS_US if span / us <= 8), _TICKS_US[-1])
    if span / step > 20:
        step = span // 8
    ticks = list(range(-(-origin // step) * step, end + 1, step))
    axes.set_xticks([tick - origin for tick in ticks], _tick_names(ticks, step, run))
    axes.tick_params(length=3)


def _tick_names(ticks: list[int], step: int, run: RunReport) -> list[str]:
    names = []
    seen = ""
    for tick in ticks:
        at = moment(tick)
        if not run.has_clock:
            names.append(f"+{duration(tick)}")
            continue
        day = f"{at:%b} {at.day}" if step < 364 * DAY else f"{at.year}"
        clock = f"{at:%H:%M:%S}" if step < MINUTE else f"{at:%H:%M}"
        names.append(day if step >= DAY else clock + (f"\n{day}" if day != seen else ""))
        seen = day
    return names


class Fall(NamedTuple):
    """One row of a waterfall."""

    name: str
    amount: float
    words: str
    """The amount with its unit, as it stands beside the row."""
    role: str
    """What it is, and so its colour."""


def waterfall(rows: Sequence[Fall], title: str, prefix: str) -> str | None:
    """From the first row's amount down to what is left in the last; those two stand whole, the others fall."""
    if len(rows) < 2 or rows[0].amount <= 0:
        return None
    total, last = rows[0].amount, len(rows) - 1
    with drawing():
        drawn, axes = figure(0.35 + 0.27 * len(rows))
        left = total
        for index, row in enumerate(rows):
            whole = index in {0, last}
            start = 0.0 if whole else left - row.amount
            end = start + row.amount
            axes.barh(index, row.amount, left=start, height=0.68, color=STAND_IN[row.role])
            words = f"{'' if whole else '- '}{row.words}  ({percent(row.amount / total)})"
            gap = 0.01 * total
            if whole and end > 0.4 * total:
                colour = STAND_IN["page"]
                axes.text(end - gap, index, words, ha="right", va="center", color=colour, fontweight="bold")
            elif whole or end < 0.3 * total:
                axes.text(end + gap, index, words, ha="left", va="center")
            else:
                axes.text(start - gap, index, words, ha="right", va="center")
            if index:
                axes.plot([left, left], [index - 0.66, index + 0.34], color=STAND_IN["line"], linewidth=0.8)
            if not whole:
                left -= row.amount
        axes.set(ylim=(last + 0.6, -0.6), xlim=(0, total))
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.tick_params(axis="y", length=0, labelcolor=STAND_IN["ink"])
        axes.set_xticks([])
        axes.spines[:].set_visible(False)
        return finish(drawn, title, prefix)


def time_falls(run: RunReport) -> list[Fall]:
    """What each sub-account took of the run's time, down to what was kept."""
    books = run.books
    rows = [("run's time", books.wall_us, "muted")]
    spent: tuple[Account, ...] = ("restart", "lost", "checkpoint")
    for account in spent:
        booked = [(sub, books.subs_us.get(f"{account}/{sub}", 0)) for sub in SUB_ACCOUNTS[account]]
        rows += [(f"{account}: {sub.replace('_', ' ')}", us, account) for sub, us in booked if us]
    rows.append(("kept", books.accounts_us["kept"], "kept"))
    return [Fall(name, float(us), hours(us), role) for name, us, role in rows]


def gpu_falls(run: RunReport) -> list[Fall]:
    """GPU-hours from held to kept; empty where nobody says how many GPUs."""
    gpu = run.gpu_hours()
    if gpu is None:
        return []
    middle = ("idle", "restart", "lost", "checkpoint")
    rows = [("held", gpu["held"], "muted"), *((name, gpu[name], name) for name in middle if gpu[name])]
    rows.append(("kept", gpu["kept"], "kept"))
    return [Fall(name, value, f"{amount(value, 1)} GPU-h", role) for name, value, role in rows]


def anatomy(run: RunReport, prefix: str) -> tuple[str, str, list[str]] | None:
    """What each interruption cost, phase by phase: the SVG, its caption, and the phases in it; the costliest only."""
    chosen = [pair for pair in run.worst(MAX_BARS) if cost_us(pair[1])]
    if not chosen:
        return None
    longest = max(cost_us(interruption) for _, interruption in chosen)
    unit_us, unit = (HOUR, "h") if longest >= 2 * HOUR else (MINUTE, "min") if longest >= 2 * MINUTE else (SECOND, "s")
    phases: dict[str, None] = {}
    with drawing():
        drawn, axes = figure(0.55 + 0.21 * len(chosen))
        names = []
        for row, (index, interruption) in enumerate(chosen):
            what = cause_words(interruption.category) if interruption.category else interruption.how
            at = run.when(interruption.at_us)
            when = f"{at[5:] if run.has_clock else at}  "
            names.append(f"#{index}  {when}{visible(what, 18, ascii_only=True)}")
            parts = [("lost", interruption.lost_us, "lost")]
            parts += [(n, us, f"phase-{n if n in palette.PHASES else 'other'}")
                      for n, us in palette.phases_in_order(interruption.phases_us)]  # fmt: skip
            left = 0.0
            for name, us, role in parts:
                if us:
                    axes.barh(row, us / unit_us, left=left, height=0.72, color=STAND_IN[role])
                    left += us / unit_us
                    phases[name if name == "lost" or name in palette.PHASES else "other"] = None
        axes.set(ylim=(len(chosen) - 0.4, -0.6), xlim=(0, longest / unit_us * 1.01))
        axes.set_yticks(range(len(chosen)), names)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} {unit}"))
        axes.grid(axis="x", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        total = len(run.details.interruptions)
        caption = "Work lost to each, then the way back, phase by phase; worst first."
        if total > len(chosen):
            caption += f" The costliest {len(chosen)} of {total:,}."
        order = [name for name in ("lost", *palette.PHASES) if name in phases]
        title = f"Cost of {len(chosen)} interruptions by phase, worst first"
        return finish(drawn, title, prefix), caption, order


def loss_curve(run: RunReport, prefix: str) -> tuple[str, str] | None:
    """The loss over time, work that was lost in its colour, saves and stops marked; the SVG and its caption."""
    points = run.loss_points
    if not points or not run.details.segments:
        return None
    table: Any = np.array(points, dtype=np.float64)
    within = np.zeros(len(table), dtype=bool)
    for span in run.books.spans:  # a second run of the same name has its points in the same log
        within |= (table[:, 0] >= span.start_us) & (table[:, 0] <= span.end_us)
    table = table[within]
    finite = np.isfinite(table[:, 2])
    num_odd = int((~finite).sum())
    table = table[finite]
    if len(table) < 2:
        return None
    times, losses = table[:, 0], table[:, 2]
    order = np.argsort(times, kind="stable")
    times, losses = times[order], losses[order]
    origin, end = int(times[0]), int(times[-1])
    if end <= origin:
        return None
    thrown_away = _in_lost_time(run, times)
    stops_at = np.array(sorted(it.at_us for it in run.details.interruptions), dtype=np.float64)
    with drawing():
        drawn, axes = figure(3.0)
        for lost, role in ((False, "loss"), (True, "lost")):
            _loss_line(axes, times, losses, thrown_away == lost, origin, end, stops_at, STAND_IN[role])
        low, high = _limits(losses)
        landed = [c for c in run.details.checkpoints if c.landed_us is not None and origin <= c.landed_us <= end]
        every = max(1, -(-len(landed) // MAX_MARKS))
        marks = landed[::every]
        axes.plot(
            [(c.landed_us or 0) - origin for c in marks], [0.025] * len(marks), linestyle="none", marker="|",
            markersize=7, color=STAND_IN["checkpoint"], transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        stops = [it for it in run.details.interruptions if origin <= it.at_us <= end]
        crowded = len(stops) > 25
        for it in sorted(stops, key=lambda it: (-cost_us(it), it.at_us))[:MAX_MARKS]:
            planned = it.how == "planned"
            axes.axvline(
                it.at_us - origin, ymin=0.92 if crowded else 0, color=STAND_IN["muted" if planned else "lost"],
                linewidth=0.8, linestyle=":" if planned else "-", zorder=0,
            )  # fmt: skip
        axes.set(ylim=(low, high), xlim=(0, end - origin))
        axes.set_ylabel("loss")
        axes.grid(axis="y", linewidth=0.5)
        axes.set_axisbelow(True)
        _time_axis(axes, origin, end, run)
        caption = (
            "Median, with the range from minimum to maximum around it; work that was lost is in the colour of lost. "
            f"Ticks below are landed checkpoints{f' (one in {every})' if every > 1 else ''}, "
            f"{'ticks above' if crowded else 'lines'} are stops and rollbacks (dotted: planned"
            f"{f'; the costliest {MAX_MARKS}' if len(stops) > MAX_MARKS else ''})."
        )
        if num_odd:
            caption += f" Not drawn: {count(num_odd, 'value')} that {'is' if num_odd == 1 else 'are'} not finite."
        return finish(drawn, "The loss over time, with checkpoints and rollbacks", prefix), caption


def _in_lost_time(run: RunReport, times: Any) -> Any:
    """For each time, whether the work that ended then was lost."""
    segments = run.details.segments
    ends = np.array([segment.end_us for segment in segments], dtype=np.float64)
    lost = np.array([segment.account == "lost" for segment in segments])
    return lost[np.minimum(np.searchsorted(ends, times, side="left"), len(segments) - 1)]


def _loss_line(
    axes: Axes, times: Any, losses: Any, chosen: Any, origin: int, end: int, stops_at: Any, colour: str
) -> None:
    """Minimum, median and maximum of each stretch of the chosen points, broken at stops.

    Not the mean: a long log comes thinned to its extremes, so that one spike would weigh as much as many steps.
    """
    if not chosen.any():
        return
    num_bins = MAX_LOSS_BINS
    index = np.minimum(((times[chosen] - origin) / (end - origin) * num_bins).astype(np.int64), num_bins - 1)
    values = losses[chosen]
    starts = np.flatnonzero(np.r_[True, np.diff(index) > 0])
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    middle = np.array([np.median(part) for part in np.split(values, starts[1:])])
    at = np.add.reduceat(times[chosen] - origin, starts) / np.diff(np.r_[starts, len(values)])
    # A line goes on over a hole in the telemetry, not over a stop.
    num_stops = np.searchsorted(stops_at - origin, at)
    breaks = (np.diff(num_stops) > 0) & (np.diff(at) > 1.5 * (end - origin) / num_bins)
    marker = "." if len(times) < 100 else ""
    for part in np.split(np.arange(len(at)), np.flatnonzero(breaks) + 1):
        axes.fill_between(at[part], low[part], high[part], color=colour, alpha=0.25, linewidth=0)
        if len(part) == 1 and not marker:  # a stretch of one bin is a dash as wide as the bin
            half = (end - origin) / num_bins / 2
            axes.plot([at[part[0]] - half, at[part[0]] + half], [middle[part[0]]] * 2, color=colour, linewidth=1.3)
        else:
            axes.plot(at[part], middle[part], color=colour, linewidth=1.3, marker=marker)


def _limits(losses: Any) -> tuple[float, float]:
    """A range that shows the curve: all of it, unless a few spikes would flatten the rest."""
    low, high = float(losses.min()), float(losses.max())
    usual = float(np.quantile(losses, 0.995))
    if high - low > 8 * max(usual - low, 1e-12):
        high = low + 2 * (usual - low)
    pad = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return low - pad, high + pad
