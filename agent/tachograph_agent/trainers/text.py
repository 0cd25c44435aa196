"""What every trainer's log needs: colour codes and launcher prefixes off, numbers and times of day read.

``clean`` gives the line as the program wrote it; ``number``, ``integer``, ``seconds`` and ``pairs`` read values;
``Clock`` turns the times in a log into Unix seconds and tells the context what it had to assume about zone and year.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from tachograph_agent.events import LONGEST_DURATION_SECONDS
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.zones import HOUR_S, LATE_S, LETTERS, Oddity, hour_of, instant, summer_time_ended

_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_PREFIX: Final = re.compile(
    r"\[rank(?P<rank>\d+)\]: ?"
    r"|\[(?:[a-z]+)?\d+\]: ?"  # torchrun: the local rank, `[default7]:`
    r"|\[\d+,(?P<mpi>\d+)\]<std(?:out|err|diag)>: ?"  # mpirun --tag-output
    r"| *(?P<task>\d+): "  # srun --label
    r"|[A-Za-z][\w.-]*\d[\w.-]* +\| "  # docker compose and its kin, `worker-2 | `
    r"|[A-Za-z][\w.-]*-\d+: "  # pdsh, `worker-2: `
    r"|\([A-Za-z_][^()]*pid=\d+[^()]*\) "  # Ray
)
_ANYWHERE: Final = re.compile(r"\[rank(\d+)\]:|\[Rank (\d+)\]|\[\d+,(\d+)\]<std|[Rr]ank[ :](\d+)\b")


def clean(line: str) -> str:
    """The line without colour codes and without the prefixes that launchers put before it."""
    return split_prefix(line)[0]


def without_colours(line: str) -> str:
    """The line without what moves a terminal's cursor or colours it."""
    return _ANSI.sub("", line) if "\x1b" in line else line


def split_prefix(line: str) -> tuple[str, int | None]:
    """The bare line, and the global rank if a prefix told it (``[rank3]:``, ``srun --label``, MPI's tag).

    Prefixes may stand one behind another; a local rank (``[default7]:``) is taken off, but is no global rank.
    """
    line = without_colours(line)
    rank = None
    start = 0
    while (found := _PREFIX.match(line, start)) is not None and found.end() > start:
        told = found.group("rank") or found.group("mpi") or found.group("task")
        if told is not None and rank is None and len(told) < 10:
            rank = int(told)
        start = found.end()
    return (line[start:] if start else line), rank


def rank_of(line: str) -> int | None:
    """The rank that a line names anywhere (``[rank3]:``, ``[Rank 65]``, ``[1,3]<stdout>``), or None."""
    found = _ANYWHERE.search(line)
    if found is None:
        return None
    told = found.group(found.lastindex or 1)
    return int(told) if len(told) < 10 else None


_TAG: Final = re.compile(r"\[\d+,(\d{1,9})\]<std(?:out|err|diag)>:")


def tagged(line: str) -> list[tuple[int, str]]:
    """The (rank, message) pairs of a line with MPI tags (``[1,3]<stdout>:``) at its front or in its middle.

    Writers that share a pipe break each other's lines: of a message that only got as far as its bracket nothing is
    left, and what follows belongs to the tag nearest before it. A line without tags gives an empty list.
    """
    pieces = _TAG.split(line)
    messages = [(int(rank), message.strip()) for rank, message in zip(pieces[1::2], pieces[2::2], strict=True)]
    return [(rank, message) for rank, message in messages if message.strip("[ ")]


_UNIT_SECONDS: Final = {"": 1.0, "s": 1.0, "sec": 1.0, "secs": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0}
_NUMBER: Final = re.compile(
    r"\s*([-+]?)\s*(?:(nan|inf(?:inity)?)|(\d[\d,]*(?:\.(?: *\d+)?)?|\.\d+)(e[-+]?\d+)?)\s*([a-z%]*)", re.IGNORECASE
)


def number(text: str) -> float | None:
    """The number that ``text`` is: ``5,857``, ``1.2E-03``, ``NaN``, ``-inf``; blanks inside a fraction are zeros.

    A unit or other letters behind it make it no number (``seconds`` takes units); None if it is none.
    """
    try:
        return float(text)
    except ValueError:
        value, rest = _loose(text)
        return None if rest else value


def leading_number(text: str) -> float | None:
    """The number at the beginning of ``text``, whatever follows: ``49.66GiB(52%)`` gives 49.66."""
    return _loose(text)[0]


def integer(text: str) -> int | None:
    """The whole number that ``text`` is (``1,024``, ``12.0``), None if it is none or can't be a count."""
    digits = text.strip().replace(",", "")
    if digits.isascii() and digits.isdigit():
        return int(digits) if len(digits) < 20 and int(digits) < 2**63 else None
    value = number(text)
    if value is None or not math.isfinite(value) or value != int(value) or abs(value) >= 2**63:
        return None
    return int(value)


def seconds(text: str) -> float | None:
    """A duration with its unit (``251.30ms``, ``1.5 s``, ``nanms``) in seconds; a bare number is seconds already."""
    value, unit = _loose(text)
    scale = _UNIT_SECONDS.get(unit.lower())
    return None if value is None or scale is None else value * scale


def _loose(text: str) -> tuple[float | None, str]:
    """The number at the beginning, and the letters and whatever stands behind it."""
    found = _NUMBER.match(text)
    if found is None:
        return None, text
    sign, word, digits, exponent, unit = found.groups()
    if word is not None:
        rest = word[3:] + unit if word.lower() not in {"nan", "inf", "infinity"} else unit
        value = math.nan if word[0] in "nN" else math.inf
    else:
        value = float(digits.replace(",", "").replace(" ", "0") + (exponent or ""))
        rest = unit
    return (-value if sign == "-" else value), (rest + text[found.end() :]).strip()


def pairs(text: str, separator: str = "|") -> dict[str, str]:
    """The ``key: value`` (or ``key=value``) fields of a line, split at ``separator``; the first of a name counts.

    Pieces without a key are left out. Keys and values are stripped, otherwise as written.
    """
    found: dict[str, str] = {}
    for piece in text.split(separator):
        # The last colon divides: a key may hold one (`time (ms): forward`), a value of these formats never does.
        key, colon, value = piece.rpartition(":")
        if not colon:
            key, colon, value = piece.rpartition("=")
        if colon and (key := key.strip()):
            found.setdefault(key, value.strip())
    return found


_MONTHS: Final = {
    name: index
    for index, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_TIME: Final = r"(?P<h{0}>\d\d):(?P<mi{0}>\d\d):(?P<s{0}>\d\d)(?:[.,](?P<f{0}> *\d+))?"
_DATED: Final = re.compile(
    r"(?<!\d)(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _]"
    + _TIME.format("")
    + r"(?: ?(?P<ap>[AP]M)\b)?(?: ?(?P<z>Z\b|UTC\b|GMT\b|[-+]\d\d:?\d\d\b))?"
    + rf"(?: \(?(?P<l>{LETTERS})\b)?"
)
_YEARLESS: Final = re.compile(
    r"\b(?P<mon>[A-Z][a-z]{2}) +(?P<d1>\d{1,2}) "  # syslog, dmesg -T
    + _TIME.format("1")
    + r"(?: (?:[A-Z]{3,4} )?(?P<y1>\d{4})\b)?"
    r"|\b[IWEF](?P<mo2>\d{1,2})(?P<d2>\d\d) "  # glog: month without a leading zero in PyTorch, two-digit day
    + _TIME.format("2")
    + r"|(?<![\d/])(?P<mo3>\d\d)/(?P<d3>\d\d) "  # detectron2
    + _TIME.format("3")
)
_BOOT: Final = re.compile(r"^(?:<\d+>)?\[ *(\d+\.\d{3,9})\]")
LOOK_AHEAD: Final = 200
"""How far into a line a time of day is looked for."""
_MAX_ZONES: Final = 100
UNKNOWN_YEAR: Final = 1972
"""Taken for dates without a year when nobody says one: a leap year, so that 29 February exists."""


def believable(dur_s: float) -> float | None:
    """The duration to the microsecond; None for one longer than anything lasts, which two wrong times make."""
    return round(dur_s, 6) if 0.0 <= dur_s <= LONGEST_DURATION_SECONDS else None


_DAY_S: Final = 86_400.0
ClockPlace = tuple[int | None, int | None, float | None, str | None, float, float, datetime | None]


class Clock:
    """Times of day in a log, as Unix seconds.

    ``find`` looks for a time in a line. A time without a zone is in ``context.tz``, else in UTC, and one without a
    year in ``context.year``, else in the year of the last dated line, else in ``UNKNOWN_YEAR``; each assumption is
    noted once. Not thread-safe: it remembers the last minute, so that a log pays for one calendar look-up a minute.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.year: int | None = context.year
        self._month: int | None = None
        self._last: float | None = None
        self._zones_told: set[timezone] = set()
        self._cached_minute: str | None = None
        self._cached_unix_seconds: float = 0.0
        self._moved_s = 0.0
        self._put_back: datetime | None = None
        self._behind_s = 0.0
        self._without_year_t: float | None = None
        self._has_no_leap_day = False

    def set_back(self, by_s: float) -> None:
        """The clock that wrote the log was set back by so much: what follows is told by the clock as it was."""
        self._behind_s += by_s
        self._cached_minute = None

    def place(self) -> ClockPlace:
        """What the clock remembers of the lines read so far, for ``back_to``."""
        return (
            self.year, self._month, self._last, self._cached_minute, self._cached_unix_seconds, self._moved_s,
            self._put_back,
        )  # fmt: skip

    def back_to(self, place: ClockPlace) -> None:
        """Forget the lines since ``place``: they are read again."""
        (
            self.year, self._month, self._last, self._cached_minute, self._cached_unix_seconds, self._moved_s,
            self._put_back,
        ) = place  # fmt: skip

    def minute(self, text: str) -> float | None:
        """Unix seconds of ``YYYY-MM-DD hh:mm``, exactly 16 characters, in the log's zone; None if no such time."""
        if text != self._cached_minute:
            try:
                start = self.unix_seconds(
                    int(text[:4]), int(text[5:7]), int(text[8:10]), int(text[11:13]), int(text[14:16]), 0.0
                )
            except ValueError:
                return None
            if start is None:
                return None
            self._cached_minute, self._cached_unix_seconds = text, start
        return self._cached_unix_seconds

    def find(self, line: str) -> float | None:
        """Unix seconds of the first time with a date in the first 200 characters of ``line``; None if there is none.

        Read are ISO times (comma or dot, blank-padded fraction, zone), ``dmesg -T`` and syslog, glog (``E419
        10:42:28.85`` is 19 April) and ``[08/30 23:00:05]``.
        """
        if ":" not in line:
            return None
        found = _DATED.search(line, 0, LOOK_AHEAD)
        if found is not None:
            return self._dated(found)
        found = _YEARLESS.search(line, 0, LOOK_AHEAD)
        return None if found is None else self._yearless(found)

    def _dated(self, found: re.Match[str]) -> float | None:
        year, month, day, hour, minute, second, fraction, half, zone, letters = found.group(
            "y", "mo", "d", "h", "mi", "s", "f", "ap", "z", "l"
        )
        if letters is not None and zone is None and self.context.tz is None:
            self.context.note(
                f"Times in this log name the zone {letters}, which is not believed, since people write such letters "
                "in winter and summer alike (--tz ZONE names one)."
            )
        hours = int(hour)
        if half is not None and hours <= 12:
            hours = hours % 12 + (12 if half == "PM" else 0)
        return self.unix_seconds(
            int(year), int(month), int(day), hours, int(minute), _second(second, fraction), _zone(zone)
        )

    def _yearless(self, found: re.Match[str]) -> float | None:
        for form, month_group in (("1", "mon"), ("2", "mo2"), ("3", "mo3")):
            word = found.group(month_group)
            if word is None:
                continue
            month = _MONTHS.get(word.lower()) if form == "1" else int(word)
            if month is None:
                return None
            told = found.group("y1")
            year = int(told) if told is not None else self.assumed_year(month)
            day, hour, minute, second, fraction = found.group(*(name + form for name in ("d", "h", "mi", "s", "f")))
            t = self.unix_seconds(year, month, int(day), int(hour), int(minute), _second(second, fraction))
            return t if t is None or told is not None else self._without_leap_day(t)
        return None

    def assumed_year(self, month: int) -> int:
        """The year of a date without one in that month: over New Year the next, noted once."""
        if self.year is None:
            self.year = UNKNOWN_YEAR
            self.context.note(f"Dates in this log have no year; {UNKNOWN_YEAR} was taken (--year YEAR names another).")
        elif self.context.year is not None and self._month is None:
            self.context.note(f"Dates in this log have no year; {self.year} was taken.")
        if self._month is not None and month - self._month < -6:
            self.year += 1
        elif self._month is not None and month - self._month > 6:  # a straggling line from before New Year
            return self.year - 1
        self._month = month
        return self.year

    def _without_leap_day(self, t: float) -> float:
        """A time of the assumed year, which has a 29 February, where the log goes from the 28th to the 1st of March."""
        march = datetime(UNKNOWN_YEAR, 3, 1, tzinfo=self.context.tz or UTC).timestamp()
        if self.context.year is None and self._without_year_t is not None and not self._has_no_leap_day:
            self._has_no_leap_day = march - 2 * _DAY_S <= self._without_year_t < march - _DAY_S and march <= t
            if self._has_no_leap_day:
                self.context.note(
                    "The log goes from 28 February to 1 March: its year was taken for one without a 29th, and what "
                    "follows is shown a day early."
                )
        self._without_year_t = t
        return t - _DAY_S if self._has_no_leap_day and t >= march else t

    def unix_seconds(
        self,
        year: int,
        month: int,
        day: int,
        hour: int,
        minute: int,
        second: float,
        zone: timezone | None = None,
    ) -> float | None:
        """Unix seconds of a time in ``zone`` (None: the log's); None for one that doesn't exist or is before 1970."""
        try:
            whole = datetime(year, month, day, hour, minute)  # noqa: DTZ001 - its zone comes below
            start, oddity = instant(whole, zone or self.context.tz or UTC, self._last)
        except (ValueError, OverflowError):
            return None
        if start < 0:
            return None
        if zone is None:
            self._note_zone()
            if self.context.tz is None:
                start = self._through_summer_time(whole, start + self._moved_s)
        elif not self._zones_told:
            self._zones_told.add(zone)
        elif zone not in self._zones_told and len(self._zones_told) < _MAX_ZONES:
            self._zones_told.add(zone)
            self.context.note("Times in this log name several zones; each was read in its own.")
        if oddity is not None:
            self._note_oddity(oddity, whole)
        self._last = start
        if self.year is None or self.context.year is None:
            self.year = year
        return start + second + self._behind_s

    def _through_summer_time(self, local: datetime, start: float) -> float:
        """The instant of a time of no known zone, where the log's clock may have been put back by an hour."""
        if self._last is None:
            return start
        if self._put_back is not None and local <= self._put_back < local + timedelta(hours=1):
            # An hour that exists twice: the first, as long as the lines before don't lie after it.
            first = start - HOUR_S
            return first if first >= self._last - LATE_S else start
        if not summer_time_ended(local, self._last - start):
            return start
        self._put_back = datetime.fromtimestamp(self._last - self._moved_s, tz=UTC).replace(tzinfo=None)
        self._moved_s += HOUR_S
        self.context.note(
            f"The times go back by an hour at {self._put_back:%H:%M} on {self._put_back:%Y-%m-%d}, as clocks do when "
            "summer time ends: what follows was moved on by an hour (--tz ZONE does so by the calendar)."
        )
        return start + HOUR_S

    def _note_zone(self) -> None:
        if self.context.tz is None:
            self.context.note("Times in this log name no zone; UTC was taken (--tz ZONE names another).")
        elif self.context.tz_is_own:
            self.context.note("Times in this log name no zone; this machine's was taken (--tz ZONE names another).")

    def _note_oddity(self, oddity: Oddity, local: datetime) -> None:
        zone = self.context.tz
        if oddity == "twice":
            self.context.note(
                f"In {zone} the clock was put back: {hour_of(local)} exists twice. What comes after later times was "
                "taken for the second."
            )
        else:
            self.context.note(
                f"In {zone} the clock was put forward over {hour_of(local)}, and the log has times in that hour: they "
                "were read as if it had not been; another --tz may be right."
            )


def seconds_since_boot(line: str) -> float | None:
    """The kernel's own ``[ 1843.308145]`` at the beginning of a line: no calendar time, only an order."""
    found = _BOOT.match(line)
    return None if found is None else float(found.group(1))


def _second(whole: str, fraction: str | None) -> float:
    """Seconds with their fraction; blanks that pad it stand for zeros (``48. 87263`` is 48.087263)."""
    return float(whole) if fraction is None else float(f"{whole}.{fraction.replace(' ', '0')}")


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text in {"Z", "UTC", "GMT"}:
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if offset >= timedelta(hours=24):
        return UTC
    return timezone(-offset if text[0] == "-" else offset)
