"""Times as a pattern file says that they are written: by ``strptime``, as Unix or elapsed time, with or without a date.

What is missing is assumed and noted once: the zone and the year as for every log, and the date of a log that tells
times of day alone. There the day is the one of ``--start``; a time of day that falls by more than half a day is past
midnight.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from tachograph_agent.events import LATEST_UNIX_SECONDS
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock, number

UNIX_FORMATS: Final = {"unix": 1.0, "unix_ms": 1e-3, "unix_us": 1e-6, "unix_ns": 1e-9}
ELAPSED: Final = "elapsed"
_DAY_S: Final = 86_400.0
_KNOWN: Final = frozenset("YymdHIMSfpzbBaAj%")
_FULL_YEAR: Final = "%Y"


def format_problem(form: str) -> str | None:
    """What is wrong with ``time.format``; None if nothing is."""
    if form in UNIX_FORMATS or form == ELAPSED:
        return None
    if "%" not in form:
        known = ", ".join([*UNIX_FORMATS, ELAPSED])
        return f"is none; expected {known}, or one like '%Y-%m-%d %H:%M:%S'"
    directives = [piece[:1] for piece in form.replace("%%", "").split("%")[1:]]
    for each in directives:
        if each not in _KNOWN:
            more = "; name the zone by time.zone, or read +01:00 by %z" if each == "Z" else ""
            return f"has %{each}, which is not taken{more}; taken are %{', %'.join(sorted(_KNOWN - {'%'}))}"
        if directives.count(each) > 1 and each != "%":
            return f"has %{each} more than once"
    if not {"H", "I"} & set(directives):
        return "has no hour (%H); minutes can't be told from dates alone"
    if bool({"m", "b", "B"} & set(directives)) != ("d" in directives):
        return "has a month without a day or a day without a month"
    if _has_year(form) and "d" not in directives and "j" not in directives:
        return "has a year but no day"
    try:
        datetime.strptime("", form)  # noqa: DTZ007 - only whether the format itself is sound
    except ValueError as error:
        return None if "does not match format" in str(error) else f"can't be read: {error}"
    return None


def _has_year(form: str) -> bool:
    return _FULL_YEAR in form or "%y" in form


def _has_day(form: str) -> bool:
    return "%d" in form or "%j" in form


class Times:
    """The times in one log, as Unix seconds. Not thread-safe: it remembers the last one."""

    def __init__(self, context: Context, form: str | None, elapsed_s: float = 1.0) -> None:
        self.context = context
        self.clock = Clock(context)
        self.form = form
        self._elapsed_s = elapsed_s
        self._base = context.start_unix_seconds or 0.0
        self._last: float | None = None
        self._day: datetime | None = None

    def read(self, text: str) -> float | None:
        """Unix seconds of a time written as the pattern file says; None if ``text`` is none."""
        if self.form is None:
            return self.clock.find(text)
        text = text.strip()
        if self.form == ELAPSED:
            return self._elapsed(text)
        if self.form in UNIX_FORMATS:
            value = number(text)
            scaled = None if value is None else value * UNIX_FORMATS[self.form]
            return scaled if scaled is not None and 0.0 <= scaled < LATEST_UNIX_SECONDS else None
        if _has_year(self.form):
            told = _parsed(text, self.form)
            return None if told is None else self._unix(told, told.year)
        if _has_day(self.form):
            # A leap year, so that 29 February can be read; the year itself is the clock's to assume.
            told = _parsed(f"2000 {text}", f"{_FULL_YEAR} {self.form}")
            return None if told is None else self._unix(told, self.clock.assumed_year(told.month))
        told = _parsed(text, self.form)
        return None if told is None else self._time_of_day(told)

    def _unix(self, told: datetime, year: int) -> float | None:
        offset = told.utcoffset()
        zone = None if offset is None else timezone(offset)
        second = told.second + told.microsecond / 1e6
        return self.clock.unix_seconds(year, told.month, told.day, told.hour, told.minute, second, zone)

    def _time_of_day(self, told: datetime) -> float | None:
        if self._day is None:
            self._day = self._first_day()
        t = self._on(self._day, told)
        if t is not None and self._last is not None:
            # Whole days: what falls by more than half a day is past midnight, what falls by less came late.
            num_days = math.floor((self._last - t) / _DAY_S + 0.5)
            t = self._on(self._day + timedelta(days=num_days), told) if num_days else t
        self._last = self._last if t is None else t
        return t

    def _on(self, day: datetime, told: datetime) -> float | None:
        return self._unix(told.replace(year=day.year, month=day.month, day=day.day), day.year)

    def _first_day(self) -> datetime:
        zone = self.context.tz or UTC
        if self.context.start_unix_seconds is None:
            self.context.has_clock = False
            self.context.note(
                "Times in this log have no date: its timeline starts on a day 0 (--start DATE places it); a time of "
                "day that falls by more than half a day was taken for the next day's."
            )
            return datetime(1970, 1, 2, tzinfo=UTC)  # a day's grace for zones east of Greenwich
        self.context.note(
            "Times in this log have no date: the day of --start was taken, and for a time of day that falls by more "
            "than half a day the next day."
        )
        return datetime.fromtimestamp(self.context.start_unix_seconds, tz=zone)

    def _elapsed(self, text: str) -> float | None:
        value = _clock_face(text) if ":" in text else number(text)
        if value is None or not 0.0 <= value < 1e12:
            return None
        seconds = value if ":" in text else value * self._elapsed_s
        if self.context.start_unix_seconds is None:
            self.context.has_clock = False
            self.context.note(
                "Times in this log are counted from its start: its timeline starts at 0 (--start places it)."
            )
        if self._last is not None and self._base + seconds < self._last - _DAY_S / 1440:
            self._base = self._last
            self.context.note("Elapsed times began anew in this log: how long it stood still in between is unknown.")
        t = self._base + seconds
        self._last = t if self._last is None else max(self._last, t)
        return t if t < LATEST_UNIX_SECONDS else None


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text.replace(",", ".") if ".%f" in form else text, form)  # noqa: DTZ007 - Clock's
    except (ValueError, OverflowError):
        return None


def _clock_face(text: str) -> float | None:
    """Seconds of ``1-02:03:04``, ``02:03:04.5`` or ``03:04``."""
    days, dash, rest = text.partition("-")
    total = 0.0
    for part in rest.split(":") if dash else text.split(":"):
        value = number(part)
        if value is None or value < 0.0:
            return None
        total = total * 60.0 + value
    whole = number(days) if dash else 0.0
    return None if whole is None else total + whole * _DAY_S
