"""How the reports put times, shares and other people's names into words.

Names come from logs and are hostile until shown by ``visible``: nothing in them may move the cursor, break a line or
turn the reading direction. Every function says "unknown" for ``None``.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Final

UNKNOWN: Final = "unknown"
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT: Final = datetime.max.replace(tzinfo=UTC)
_LAST_US: Final = (LAST_MOMENT - EPOCH) // timedelta(microseconds=1)
_ALMOST_A_MINUTE: Final = MINUTE - SECOND // 20
_ALMOST_AN_HOUR: Final = HOUR - 3 * SECOND
"""From here on, rounding would say 60 of the smaller unit."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})


def visible(text: object, limit: int = 120, *, ascii_only: bool = False) -> str:
    """The text with control, formatting and unassigned characters as escapes (an ESC as ``x1b`` behind a backslash).

    Longer text is cut to ``limit`` characters, an ellipsis included.
    """
    raw = str(text)
    shown = "".join(
        _escape(char) if (ascii_only and not char.isascii()) or unicodedata.category(char) in _HIDDEN else char
        for char in raw[: limit + 1]
    )
    if len(shown) <= limit:
        return shown
    tail = "..." if ascii_only else "…"
    return shown[: limit - len(tail)] + tail


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def seconds(us: int) -> float:
    """Seconds of whole microseconds, to the microsecond: ``seconds(1_500_000)`` is 1.5."""
    return round(us / SECOND, 6)


def seconds_or_none(us: int | None) -> float | None:
    """Like ``seconds``, and None for None."""
    return None if us is None else seconds(us)


def moment(us: int) -> datetime:
    """The instant as an aware UTC datetime, exact to the microsecond; beyond the year 9999, its last microsecond."""
    return LAST_MOMENT if us > _LAST_US else EPOCH + timedelta(microseconds=us)


def instant(us: int | None, *, with_seconds: bool = False) -> str:
    """The instant in UTC as ``2026-03-01 14:05``; the reader is told the zone once, beside it."""
    if us is None:
        return UNKNOWN
    return moment(us).isoformat(" ", "seconds" if with_seconds else "minutes").removesuffix("+00:00")


def iso(us: int) -> str:
    """The instant as ISO 8601 in UTC: ``2026-03-01T14:05:00Z``."""
    return moment(us).isoformat().replace("+00:00", "Z")


def number(value: float | None, digits: int = 0) -> str:
    """A number with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def amount(value: float | None, digits: int) -> str:
    """A number with thousands separators, without decimals from 10,000 on; what is something is never shown as 0."""
    if value is not None and 0 < value < 10.0**-digits / 2:
        return f"<{10.0**-digits:.{digits}f}"
    return number(value, digits if value is None or abs(value) < 10_000 else 0)


def percent(share: float | None, digits: int = 1) -> str:
    """A share from 0 to 1 as ``78.4 %``; what is not all is never shown as 100 %, nor what is something as 0 %."""
    if share is None:
        return UNKNOWN
    smallest = 10.0**-digits
    value = share * 100
    if 0 < value < smallest / 2:
        return f"<{smallest:.{digits}f} %"
    if 100 - smallest / 2 <= value < 100:
        return f">{100 - smallest:.{digits}f} %"
    return f"{value:.{digits}f} %"


def size(num_bytes: int | None) -> str:
    """A size with one decimal, in the decimal unit that fits: ``0.7 MB``, ``842.5 GB``."""
    if num_bytes is None:
        return UNKNOWN
    value, unit = num_bytes / 1e6, "MB"
    for larger in ("GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{max(value, 0.1) if num_bytes else 0.0:,.1f} {unit}"


def duration(us: int | None) -> str:
    """A duration in its two largest units: ``3 d 4 h``, ``5 h 12 min``, ``4 min 10 s``, ``12.3 s``."""
    if us is None:
        return UNKNOWN
    if us < 0:
        return "−" + duration(-us)
    if us < _ALMOST_A_MINUTE:
        return _short(us)
    for unit, sub, unit_name, sub_name in (
        (MINUTE, SECOND, "min", "s"),
        (HOUR, MINUTE, "h", "min"),
        (DAY, HOUR, "d", "h"),
    ):
        rounded = (us + sub // 2) // sub * sub
        if rounded < {"min": HOUR, "h": DAY}.get(unit_name, rounded + 1):
            whole, rest = divmod(rounded, unit)
            part = f" {rest // sub} {sub_name}" if rest else ""
            return f"{whole:,} {unit_name}{part}"
    raise AssertionError("unreachable: days take any length")


def hours(us: int | None) -> str:
    """A duration in one unit, for sentences: ``11.2 h``, ``42 min``, ``12 s``."""
    if us is None:
        return UNKNOWN
    if us < 0:
        return "−" + hours(-us)
    if us >= _ALMOST_AN_HOUR:
        return f"{us / HOUR:,.1f} h"
    if us >= _ALMOST_A_MINUTE:
        return f"{us / MINUTE:.1f}".removesuffix(".0") + " min"
    return _short(us)


def _short(us: int) -> str:
    if us >= SECOND:
        return f"{us / SECOND:.3g} s"
    if us >= 1_000:
        return f"{us / 1_000:.0f} ms"
    return "<1 ms" if us else "0 s"


def count(num: int, noun: str) -> str:
    """``1 failure``, ``4 failures``."""
    return f"{num:,} {noun}{'' if num == 1 else 's'}"


def joined(parts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
