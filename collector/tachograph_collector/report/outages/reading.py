"""The rows of tables of outages, from files or a pipe, and their times with zones by name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import ClassVar, Final

from tachograph_agent.events import LATEST_UNIX_SECONDS, AnyEvent
from tachograph_agent.trainers import outage_tables
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.files import Source
from tachograph_agent.trainers.table_rows import TableRow, table_rows
from tachograph_agent.trainers.trainerlog import TrainerLogStream

MOST_ROWS: Final = 2_000_000

_ZONES: Final[dict[str, float]] = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3,
    "EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9, "KST": 9,
}  # fmt: skip
"""Hours east of UTC by abbreviation; ambiguous ones (CST, IST) are left out."""
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[T _](\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?)? ?(Z|[A-Z]{3,4}|[-+]\d\d:?\d\d)?"
)
_UNIX: Final = re.compile(r"\d{9,11}(?:\.\d+)?")


class _Rows:
    """Stands where an adapter does, to get decoded lines with files and numbers, and keeps the rows."""

    name: ClassVar[str] = "outages"
    title: ClassVar[str] = "tables of outages"

    def __init__(self) -> None:
        self.found: list[TableRow] = []

    def sniff(self, head: str) -> float:  # noqa: ARG002 - the protocol's
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        for row in table_rows(lines, context, outage_tables.are_columns):
            if len(self.found) >= MOST_ROWS:
                context.skip(row.line_number, f"more than {MOST_ROWS:,} rows")
            else:
                self.found.append(row)
        yield from ()


def rows_of(sources: Sequence[Source], tz: tzinfo | None) -> tuple[list[TableRow], Context]:
    """All rows in the files' order; the context has what was skipped."""
    rows = _Rows()
    stream = TrainerLogStream(rows, sources, Context(run="", file=sources[0].name, tz=tz))
    for _ in stream.chunks():
        pass
    return rows.found, stream.context


@dataclass(frozen=True, slots=True)
class When:
    """An instant in Unix seconds; ``is_day`` if only the day is told (its beginning is meant)."""

    t: float
    is_day: bool


class Times:
    """Reads the times of a table, and keeps what had to be assumed of their zones."""

    def __init__(self, tz: tzinfo | None) -> None:
        self.tz = tz
        self.without_zone = 0
        self.any_time = False
        """A time of day was told: between days alone the zone makes no difference."""
        self.strange_zones: dict[str, None] = {}

    def read(self, text: str | None, zone_text: str | None = None) -> When | None:
        """The instant of ``2030-01-02 03:04:05``, of a day, or of Unix seconds; None if it is none."""
        if text is None:
            return None
        if _UNIX.fullmatch(text):
            return When(float(text), is_day=False)
        found = _TIME.fullmatch(text)
        if found is None:
            return None
        year, month, day, hour, minute, second, zone = found.groups()
        try:
            at = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), tzinfo=UTC)
            at = at.replace(tzinfo=self._zone(zone or zone_text))
            self.without_zone += not (zone or zone_text)
            self.any_time = self.any_time or hour is not None
            t = at.timestamp() + float(second or 0.0)
        except (ValueError, OverflowError):
            return None
        return When(t, hour is None) if 0.0 <= t < LATEST_UNIX_SECONDS and math.isfinite(t) else None

    def _zone(self, name: str | None) -> tzinfo:
        if name is not None:
            told = _ZONES.get(name.upper())
            if told is not None:
                return timezone(timedelta(hours=told))
            if name[0] in "+-" and name[1:].replace(":", "").isdigit():
                digits = name[1:].replace(":", "")
                offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
                return timezone(-offset if name[0] == "-" else offset)
            self.strange_zones[name[:20]] = None
        return self.tz or UTC

    def notes(self) -> Iterator[str]:
        """What was assumed, a sentence each."""
        taken = "UTC was taken (--tz ZONE names another)" if self.tz is None else f"{self.tz} was taken"
        if self.strange_zones:
            names = ", ".join(list(self.strange_zones)[:3])
            yield f"The zone {names} in the table is no name of one that is known; where it stands {taken}."
        elif self.without_zone and self.any_time:
            yield f"Times in the table name no zone; {taken}."


def cell(row: TableRow, names: Sequence[str]) -> str | None:
    """What stands in the first of the columns ``names`` that the row has."""
    return next((row.cells[name] for name in names if name in row.cells), None)


def column(rows: Iterable[TableRow], names: Sequence[str]) -> str | None:
    """The first of the columns ``names`` that any row has."""
    there: Mapping[str, None] = dict.fromkeys(name for row in rows for name in row.cells)
    return next((name for name in names if name in there), None)
