"""Times and windows as a request gives them: Unix seconds or ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Depends, Query

from tachograph_collector.report.model import Window
from tachograph_collector.service.problems import Problem, shown

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_S: Final = -62_135_596_800
_LAST_S: Final = 253_402_300_799
"""The years 1 to 9999."""
_NUMBER: Final = re.compile(r"-?\d{1,12}(\.\d{1,9})?", re.ASCII)
_LOST_PLUS: Final = re.compile(r"(\d) (\d\d:?\d\d)$")
"""A ``+`` of an offset that nobody escaped arrives as a space."""

SHAPE: Final[dict[str, Any]] = {
    "pattern": r"^(-?[0-9]{1,10}(\.[0-9]{1,6})?|[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    r"(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])?)?)$"
}
"""For the OpenAPI: what every client can write. ``time_us`` takes more."""

Since = Annotated[
    str | None,
    Query(
        description="From when on: Unix seconds, or ISO 8601 (UTC unless it says otherwise). Included.",
        examples=["2026-03-01T00:00:00Z"],
        max_length=40,
        json_schema_extra=SHAPE,
    ),
]
Until = Annotated[
    str | None,
    Query(
        description="Until when: Unix seconds, or ISO 8601 (UTC unless it says otherwise). Excluded.",
        examples=["1772409600"],
        max_length=40,
        json_schema_extra=SHAPE,
    ),
]


def time_us(text: str, name: str) -> int:
    """Microseconds since 1970; raises ``Problem`` 422 that names the parameter and what is expected."""
    plain = text.strip()
    us: int | None = None
    if _NUMBER.fullmatch(plain):
        seconds, _, fraction = plain.removeprefix("-").partition(".")
        us = int(seconds) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
        us = -us if plain.startswith("-") else us
    elif plain[:4].isdecimal() and plain[4:5] == "-":
        try:
            at = datetime.fromisoformat(_LOST_PLUS.sub(r"\1+\2", plain))
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
            us = (at - _EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError):
            us = None
    if us is None or not _FIRST_S * 1_000_000 <= us <= _LAST_S * 1_000_000:
        raise Problem(
            422,
            "Invalid time",
            f"{name}={shown(text)} is no time; give Unix seconds such as 1772323200, or ISO 8601 such as "
            "2026-03-01T00:00:00Z, in the years 1 to 9999",
        )
    return us


def window_of(since: Since = None, until: Until = None) -> Window:
    """The window that a request asks for. Raises ``Problem`` 422 for one that ends before it begins."""
    since_us = None if since is None else time_us(since, "since")
    until_us = None if until is None else time_us(until, "until")
    if since_us is not None and until_us is not None and until_us <= since_us:
        raise Problem(
            422,
            "Empty window",
            f"the window ends (until={shown(until)}) before it has begun (since={shown(since)}); exchange them, or "
            "leave one out",
        )
    return Window(since_us, until_us)


AskedWindow = Annotated[Window, Depends(window_of)]
