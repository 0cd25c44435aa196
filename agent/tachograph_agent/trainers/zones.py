"""Local times as instants: hours that a zone has twice or never, zones told by letters, the zone of this machine."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LATE_S: Final = 600.0
"""Within an hour that exists twice a line may be this much before the one above it without being the second time."""
SET_BACK_S: Final = 86_400.0
"""A clock is set back by a day at most; a line from further back is a broken one, and is alone."""
HOUR_S: Final = 3600.0
LONGEST_STEP_S: Final = 1200.0
LAST_HOUR: Final = 3
SATURDAY: Final = 5
LETTERS: Final = "PST|PDT|MST|MDT|CST|CDT|EST|EDT|CET|CEST|EET|EEST|WET|WEST|BST|IST|JST|KST|AEST|AEDT|HKT|SGT"
"""Zones that people write as letters. They are not believed: some name several zones, and PST is written in May."""

Oddity = Literal["twice", "never"]


def instant(local: datetime, zone: tzinfo, last: float | None) -> tuple[float, Oddity | None]:
    """Unix seconds of a local time, and what is odd about it.

    ``twice``: the clock was put back, and the time exists twice; the first is taken, unless that would be more than
    ``LATE_S`` before ``last``, the instant before it in the log. ``never``: the clock was put forward over it; it is
    read as if it had not been yet. Raises ``ValueError`` or ``OverflowError`` for what no calendar has.
    """
    first = local.replace(tzinfo=zone, fold=0).timestamp()
    if not isinstance(zone, ZoneInfo):  # a fixed offset
        return first, None
    second = local.replace(tzinfo=zone, fold=1).timestamp()
    if first == second:
        return first, None
    if second < first:
        return first, "never"
    return (second if last is not None and first < last - LATE_S else first), "twice"


def summer_time_ended(local: datetime, back_s: float) -> bool:
    """Whether a log of no known zone that goes back by ``back_s`` at this local time does so as summer time ends.

    Clocks are put back by an hour in the small hours of a weekend. So much less than an hour as a step took since the
    line before is still that; files in the wrong order go back by anything, at any time.
    """
    return HOUR_S - LONGEST_STEP_S <= back_s <= HOUR_S and local.hour <= LAST_HOUR and local.weekday() >= SATURDAY


def was_set_back(t: float, last_t: float) -> bool:
    """Whether steps that go on at ``t`` after a record of ``last_t`` tell that the log's clock was set back."""
    return LATE_S < last_t - t <= SET_BACK_S


def set_back_note(by_s: float, step: int) -> str:
    """The sentence for a clock that was set back between two records of training that went on."""
    return (
        f"Times in this log go back by {by_s / HOUR_S:.1f} h at step {step}, while steps went on: the clock was set "
        "back, and what follows is told by the clock as it was before."
    )


def hour_of(local: datetime) -> str:
    """The hour of a local time in words: ``02:00 to 03:00 on 2030-10-27``."""
    begin = local.replace(minute=0)
    return f"{begin:%H:%M} to {begin + timedelta(hours=1):%H:%M} on {begin:%Y-%m-%d}"


def local_zone() -> tzinfo | None:
    """The zone of this process with its changes of summer time; the present offset where none can be found."""
    told = os.environ.get("TZ", "").lstrip(":")
    try:
        if told:
            return ZoneInfo(told) if not told.startswith("/") else _from_file(Path(told))
        return _from_file(Path("/etc/localtime"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo


def _from_file(path: Path) -> ZoneInfo:
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=str(path))
