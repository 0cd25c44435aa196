"""A table of incidents: when, what it was, what it cost. Costs that aren't told stay unknown and are counted so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tachograph_agent.events import LONGEST_DURATION_SECONDS, microseconds
from tachograph_agent.trainers.outage_tables import WHENS, first_event
from tachograph_agent.trainers.table_rows import TableRow
from tachograph_agent.trainers.text import number

from tachograph_collector.report.outages.findings import Listing, Options, OutageReport, Value, hours
from tachograph_collector.report.outages.rates import mtbf_figures
from tachograph_collector.report.outages.reading import Times, When, cell, column
from tachograph_collector.report.outages.words import Role, category_of, role_of
from tachograph_collector.report.text import count, duration, iso

_COST: Final = re.compile(
    r"(?:time_)?(?:lost|loss|downtime|down|outage|duration|dur|cost|delay)(?:_time)?"
    r"(?:[_ (]{1,2}(?P<unit>h|hours?|hrs?|m|min|minutes?|s|sec|seconds?|d|days?)\)?)?(?:_reported|_told)?"
)
_UNIT_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "d": 86_400.0}
_ZONES: Final = ("tz", "tz_text", "zone", "timezone")
_NO_FAILURE: Final = "failure", "planned", "other"


@dataclass(frozen=True, slots=True)
class Incident:
    """One row."""

    when: When | None
    told_when: str
    what: str
    role: Role
    category: str
    cost_s: float | None


def incidents_of(rows: Sequence[TableRow], times: Times) -> tuple[list[Incident], str | None]:
    """The rows as incidents, and the column of their costs if there is one."""
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    event, when = first_event(names), column(rows, WHENS) or "when"
    costs = [name for name in names if _COST.fullmatch(name)]
    cost = next((name for name in costs if _unit(name) is not None), None)
    found = []
    for row in rows:
        what = row.cells.get(event, "")
        found.append(
            Incident(
                when=times.read(row.cells.get(when), cell(row, _ZONES)),
                told_when=row.cells.get(when, ""),
                what=what,
                role=role_of(what),
                category=category_of(row.cells.get("category"), what, row.cells.get("note")),
                cost_s=_cost_s(row, cost),
            )
        )
    return found, cost


def _unit(name: str) -> float | None:
    found = _COST.fullmatch(name)
    return None if found is None or found["unit"] is None else _UNIT_SECONDS[found["unit"][0]]


def _cost_s(row: TableRow, cost: str | None) -> float | None:
    if cost is None:
        return None
    told = number(row.cells.get(cost, ""))
    seconds = None if told is None else told * (_unit(cost) or 1.0)
    return seconds if seconds is not None and 0.0 <= seconds <= LONGEST_DURATION_SECONDS else None


def add_incidents(report: OutageReport, rows: Sequence[TableRow], options: Options) -> None:
    """Counts, reported losses and the mean time between failures."""
    times = Times(options.tz)
    found, cost = incidents_of(rows, times)
    failures = [one for one in found if one.role == "failure"]
    stops = [one for one in found if one.role != "start"]
    report.headline = (
        f"{count(len(failures), 'failure')} and {count(sum(one.role == 'planned' for one in found), 'planned stop')} "
        f"in {count(len(rows), 'row')}"
    )
    _losses(report, stops, cost)
    _time_between(report, found, failures, options)
    kinds: list[Sequence[Value]] = []
    for role in _NO_FAILURE:
        for category in sorted({one.category for one in stops if one.role == role}):
            group = [one for one in stops if (one.role, one.category) == (role, category)]
            told = [one.cost_s for one in group if one.cost_s is not None]
            kinds.append((role, category, len(group), sum(told) if told else None, len(group) - len(told)))
    report.listings.append(
        Listing("by_category", "by category", ("role", "category", "num", "lost_s", "num_unknown"), kinds)
    )
    listed: list[Sequence[Value]] = [
        (_instant(one), one.role, one.category, one.cost_s, one.what[:200]) for one in found
    ]
    report.listings.append(Listing("incidents", "rows", ("when", "role", "category", "lost_s", "what"), listed))
    report.notes += times.notes()
    num_timeless = sum(one.when is None for one in found)
    if num_timeless:
        report.note(f"{count(num_timeless, 'row')} told no time that could be read; they count, but have no place.")
    report.note("Whether a row is a failure or a planned stop, and its category, was taken from its words.")


def _losses(report: OutageReport, stops: Sequence[Incident], cost: str | None) -> None:
    told = [one.cost_s for one in stops if one.cost_s is not None]
    unknown = len(stops) - len(told)
    words = None
    if told:
        words = f"{hours(sum(told))} in {count(sum(one > 0 for one in told), 'incident')}"
        words += f"; of {unknown} more it is unknown" if unknown else ""
    report.figure(
        "lost_reported_s",
        "time lost, as reported",
        sum(told) if told else None,
        words,
        why="no column tells it" if cost is None else f"no row tells '{cost}'",
    )
    report.figure("num_lost_unknown", "rows whose loss is unknown", unknown)


def _time_between(
    report: OutageReport, found: Sequence[Incident], failures: Sequence[Incident], options: Options
) -> None:
    placed = [(one.when, one) for one in found if one.when is not None]
    span_s = options.span_s
    if span_s is None and len(placed) > 1:
        instants = [when.t for when, _ in placed]
        span_s = max(instants) - min(instants)
        report.figure("span_s", "from the first row to the last", span_s, duration(microseconds(span_s)))
        report.note(
            "What happened before the first row and after the last is not in the table (--span DAYS tells more)."
        )
    mtbf_figures(report, len(failures), span_s, why="the table has no times; --span DAYS tells how long was watched")
    begun = next((when for when, one in placed if one.role == "start"), None)
    first = min(
        ((when, one) for when, one in placed if one.role == "failure" and (begun is None or when.t >= begun.t)),
        key=lambda pair: pair[0].t,
        default=None,
    )
    if begun is not None and first is not None:
        between_us = microseconds(first[0].t) - microseconds(begun.t)
        days, rest = divmod(between_us // 1_000_000, 86_400)
        words = f"{days} d {rest // 3600} h {rest // 60 % 60} min {rest % 60} s"
        if begun.is_day or first[0].is_day:
            words = duration(between_us) + ", to the day"
        words += f" (from {_iso(begun.t)} to {_iso(first[0].t)})"
        report.figure("first_failure_after_s", "from the start to the first failure", between_us / 1e6, words)


def _iso(t: float) -> str:
    return iso(microseconds(t))


def _instant(one: Incident) -> str | None:
    if one.when is None:
        return one.told_when or None
    return one.told_when[:10] if one.when.is_day else _iso(one.when.t)  # a day of the table's zone stays that day
