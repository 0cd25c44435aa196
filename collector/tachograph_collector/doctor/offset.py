"""How far this machine's clock is from the collector's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, fail, ok, warn

WARN_S: Final = 2.0
FAIL_S: Final = 30.0
"""As in the agent's own check of the clock."""


def look(asked: Asked) -> Iterator[Finding]:
    """The offset as NTP has it: the collector's time lies in the middle of the exchange, give or take half of it."""
    now = asked.me.told.get("now")
    if asked.me.status != 200 or not isinstance(now, int | float):
        return
    offset_s, give_or_take_s = now - asked.me.middle_unix_s, asked.me.took_s / 2
    told = f"the collector's clock less this one's is {offset_s:+.3f} s, give or take {give_or_take_s:.3f} s"
    surely_s = max(0.0, abs(offset_s) - give_or_take_s)
    advice = "run chrony or systemd-timesyncd on both: what two nodes tell is ordered by their clocks"
    if surely_s > FAIL_S:
        yield fail("offset", told, advice)
    elif surely_s > WARN_S:
        yield warn("offset", told, advice)
    else:
        yield ok("offset", told)
