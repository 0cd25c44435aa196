"""Facts about a run, a row each: goodput where ideal and real duration are told, restarts per time; every number shown.

Where two facts disagree (two starts, two counts of restarts), what follows from each is shown; nothing is averaged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tachograph_agent.trainers.table_rows import TableRow
from tachograph_agent.trainers.text import number

from tachograph_collector.report.outages.findings import Listing, Options, OutageReport, hours
from tachograph_collector.report.outages.reading import Times, When
from tachograph_collector.report.text import count, joined, percent

_DAY: Final = 86_400.0
_IDEAL: Final = re.compile(r"\bideal|\bwithout failures|\bpure training", re.IGNORECASE)
_START: Final = re.compile(r"\bstart(?:ed|s)?\b|\blaunch", re.IGNORECASE)
_END: Final = re.compile(r"\bcomplete[d]?\b|\bfinish|\bend(?:ed|s)?\b", re.IGNORECASE)
_RESTARTS: Final = re.compile(r"\b(?:restart|interruption|failure|crash)", re.IGNORECASE)
_PER_DAY: Final = re.compile(r"\b(?:per|a) day\b", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"(\d{4}-\d\d-\d\d) (?:to|until|-) (\d{4}-\d\d-\d\d)")
_IN_DAYS: Final = re.compile(r"\bin (\d+(?:\.\d+)?) days\b")
_RANGE: Final = re.compile(r"(\d+)\s*[-\u2013]\s*(\d+)")
_UNITS: Final = {"days": _DAY, "day": _DAY, "d": _DAY, "hours": 3600.0, "hour": 3600.0, "h": 3600.0}
_LONGEST_S: Final = 3650 * _DAY


def add_facts(report: OutageReport, rows: Sequence[TableRow], options: Options) -> None:
    """Goodput, restarts per time, and all facts as they stand."""
    times = Times(options.tz)
    starts = _instants(rows, _START, times)
    ends = _instants(rows, _END, times)
    walls = [
        (
            f"from {start_name!r} to {end_name!r}",
            end.t - start.t if not (start.is_day or end.is_day) else _days(start, end),
        )
        for start_name, start in starts
        for end_name, end in ends
        if start.t < end.t <= start.t + _LONGEST_S
    ]
    walls = [(where, wall_s) for where, wall_s in walls if wall_s > 0.0]  # both on one day: unknown how long
    if options.span_s is not None:
        walls = [("as told by --span", options.span_s)]
    report.headline = count(len(rows), "fact")
    _goodput(report, rows, walls)
    _restarts(report, rows, walls)
    report.listings.append(
        Listing(
            "facts",
            "facts",
            ("fact", "value", "unit"),
            [
                (
                    row.cells.get("fact", "")[:120],
                    _shown(row.cells.get("value")),
                    row.cells.get("unit", "")[:60] or None,
                )
                for row in rows
            ],
        )
    )
    report.notes += times.notes()
    if len(walls) > 1:
        report.note("More than one start or end is told: what follows from each is shown, not an average.")


def _shown(value: str | None) -> str | None:
    """A value as it stands; one with semicolons is a list."""
    if value is None:
        return None
    pieces = [piece.strip() for piece in value.split(";")]
    return value[:120] if len(pieces) < 2 else joined(pieces)[:120]


def _instants(rows: Sequence[TableRow], wanted: re.Pattern[str], times: Times) -> list[tuple[str, When]]:
    return [
        (row.cells["fact"][:60], when)
        for row in rows
        if wanted.search(row.cells.get("fact", ""))
        and not _RESTARTS.search(row.cells["fact"])
        and (when := times.read(row.cells.get("value"), _zone(row.cells.get("unit")))) is not None
    ]


def _zone(unit: str | None) -> str | None:
    return unit if unit is not None and re.fullmatch(r"[A-Z]{3,4}", unit) else None


def _days(start: When, end: When) -> float:
    """Whole days between two dates of which one has no time of day."""
    return (end.t // _DAY - start.t // _DAY) * _DAY


def _goodput(report: OutageReport, rows: Sequence[TableRow], walls: Sequence[tuple[str, float]]) -> None:
    ideals = [
        value * _UNITS[unit]
        for row in rows
        if _IDEAL.search(row.cells.get("fact", ""))
        and (unit := row.cells.get("unit", "").lower()) in _UNITS
        and (value := number(row.cells.get("value", ""))) is not None
        and 0.0 < value * _UNITS[unit] < _LONGEST_S
    ]
    if not ideals or not walls:
        why = "no fact tells the ideal duration" if not ideals else "no two facts tell start and end"
        report.figure("goodput", "goodput", None, why=why)
        return
    for ideal_s in ideals:
        for index, (where, wall_s) in enumerate(walls, start=1):
            share = ideal_s / wall_s
            key = "goodput" if len(walls) * len(ideals) == 1 else f"goodput_{index}"
            words = f"{percent(share)}: {ideal_s / _DAY:g} of {wall_s / _DAY:g} days, {where}"
            report.figure(key, "goodput", share if share <= 1 else None, words, why="the ideal is longer than the run")


def _restarts(report: OutageReport, rows: Sequence[TableRow], walls: Sequence[tuple[str, float]]) -> None:
    index = 0
    for row in rows:
        fact, unit, value = row.cells.get("fact", ""), row.cells.get("unit", ""), row.cells.get("value", "")
        nums = _nums(value)
        if not _RESTARTS.search(fact) or "count" not in unit.lower() or nums is None:
            continue
        own = _own_span(fact, unit)
        spans = [(f"{own / _DAY:g} days, as told beside it", own)] if own is not None else walls
        bound = "at most " if "at least" in unit else "about " if "approx" in unit or "about" in unit else ""
        for where, span_s in spans:
            index += 1
            means = [span_s / num for num in nums]
            told = " to ".join(hours(mean) for mean in means)
            over = where if own is not None else f"{span_s / _DAY:g} days, {where}"
            report.figure(
                f"restart_gap_{index}_s",
                "mean time between restarts",
                means[0] if len(means) == 1 else " to ".join(f"{mean:.0f}" for mean in means),
                f"{bound}{told}: {value} ({fact[:80]}) in {over}",
            )
    for row in rows:
        per_day = number(row.cells.get("value", ""))
        if _PER_DAY.search(row.cells.get("fact", "")) and per_day is not None and 0.0 < per_day < 1e6:
            index += 1
            report.figure(
                f"gap_{index}_s", row.cells["fact"][:60], _DAY / per_day, f"one every {hours(_DAY / per_day)}"
            )
    if not index:
        report.figure(
            "restart_gap_s", "mean time between restarts", None, why="no fact counts restarts over a known time"
        )


def _nums(value: str) -> list[int] | None:
    """The count, or both ends of a range, the larger first."""
    found = _RANGE.fullmatch(value.strip())
    if found is not None and len(found[1]) < 10 and len(found[2]) < 10:
        nums = sorted({int(found[1]), int(found[2])}, reverse=True)
        return nums if nums[-1] > 0 else None
    told = number(value)
    return [int(told)] if told is not None and 1 <= told < 1e9 and told == int(told) else None


def _own_span(fact: str, unit: str) -> float | None:
    """How long the fact's own words say it counted."""
    found = _IN_DAYS.search(unit) or _IN_DAYS.search(fact)
    if found is not None:
        days = float(found[1])
        return days * _DAY if 0 < days < 3650 else None
    dates = _BETWEEN.search(fact)
    if dates is None:
        return None
    times = Times(None)
    start, end = times.read(dates[1]), times.read(dates[2])
    days = _days(start, end) if start is not None and end is not None else 0.0
    return days if days > 0.0 else None
