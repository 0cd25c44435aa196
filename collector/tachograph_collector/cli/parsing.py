"""What options take: instants, time zones and shares, read into numbers or refused with the value and an example."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from tachograph_agent.events import LATEST_UNIX_SECONDS

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # click 8.1 and 8.2 have no such parameter
    _ParamType = click.ParamType


_MOST_DIGITS: Final = 18


class Zone(_ParamType):
    """The name of a time zone, such as ``Europe/Berlin``."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        """The zone; fails for a name that the zone database doesn't have."""
        if isinstance(value, tzinfo):
            return value
        try:
            return ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(
                f"there is no time zone {value!r}; expected a name of the zone database, such as Europe/Berlin or UTC",
                param,
                ctx,
            )


class Instant(_ParamType):
    """An instant: ISO 8601 or Unix seconds. Without a zone it is taken in ``--tz``, else in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | float:
        """Unix seconds, or a datetime that may still lack its zone (``unix_seconds`` gives it)."""
        if isinstance(value, float | datetime):
            return value
        try:
            number = float(value)
        except ValueError:
            try:
                instant = datetime.fromisoformat(value)
            except ValueError:
                self.fail(f"{value!r} is no time; expected 2026-03-01T12:00:00Z or Unix seconds", param, ctx)
            if instant.year < 1970 or (instant.year == 1970 and instant.replace(tzinfo=UTC).timestamp() < 86_400):
                # a day's grace keeps every zone's offset away from negative Unix seconds
                self.fail(f"{value!r} lies before 2 January 1970, the earliest date that is taken", param, ctx)
            return instant
        if not math.isfinite(number) or not 0 <= number < LATEST_UNIX_SECONDS:
            self.fail(f"{value!r} is no time; Unix seconds go from 0 to the year 9999", param, ctx)
        return number


def unix_seconds(instant: datetime | float | None, zone: tzinfo | None) -> float | None:
    """Unix seconds of what ``Instant`` gave; one without a zone of its own is taken in ``zone``, else in UTC."""
    if not isinstance(instant, datetime):
        return instant
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=zone or UTC)
    return instant.timestamp()


class Share(_ParamType):
    """A share from 0 to 1, or a percentage with its sign: ``0.9`` and ``90%`` are the same."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share, 0 to 1."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = math.nan
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is no share; expected 0 to 1 or a percentage, such as 0.9 or 90%", param, ctx)
        return share


class _Whole(_ParamType):
    """A whole number within bounds; each kind says what it is in its own sentence."""

    low: ClassVar[int]
    high: ClassVar[int]
    expected: ClassVar[str]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).strip()
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else -1
        if not self.low <= number <= self.high:
            self.fail(f"{value!r} is no {self.expected}", param, ctx)
        return number


class NumGpus(_Whole):
    """How many GPUs a run held."""

    name = "number"
    low, high = 1, 1_000_000_000
    expected = "number of GPUs; expected a whole number, 1 to 1000000000"


class Period(_ParamType):
    """How often something is looked at, in seconds."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, from a tenth to an hour."""
        try:
            seconds = float(str(value).strip().removesuffix("s"))
        except ValueError:
            seconds = math.nan
        if not 0.1 <= seconds <= 3600:
            self.fail(f"{value!r} is no period; expected seconds, from 0.1 to 3600", param, ctx)
        return seconds


class Days(_ParamType):
    """A time in days."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Days, from an hour's part of one to ten years."""
        try:
            days = float(str(value).strip().removesuffix("d"))
        except ValueError:
            days = math.nan
        if not 0.04 <= days <= 3650:
            self.fail(f"{value!r} is no number of days; expected 0.04 to 3650, such as 7", param, ctx)
        return days


class NumRuns(_Whole):
    """How many runs are listed."""

    name = "number"
    low, high = 1, 1_000_000
    expected = "number of runs; expected a whole number, 1 to 1000000"


class Year(_Whole):
    """The year of dates that name none."""

    name = "year"
    low, high = 1970, 9998
    expected = "year; expected four digits, such as 2026"


class Price(_ParamType):
    """A price per GPU-hour, not negative."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The price in whatever currency the user thinks in."""
        try:
            price = float(value)
        except ValueError:
            price = math.nan
        if not 0 <= price < math.inf:
            self.fail(f"{value!r} is no price; expected the cost of one GPU for one hour, such as 2.5", param, ctx)
        return price
