"""One look by every check, for ``tachograph-agent check``: what can be seen on this node, and what is wrong now."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tachograph_agent.health.conditions import Told
from tachograph_agent.health.finding import Check
from tachograph_agent.health.runner import Health

TIMEOUT_S = 25.0
POLL_S = 0.02


@dataclass(slots=True)
class Seen:
    """What one check says: its ``state`` as in ``Health.states``, ``new`` where it did not come back in time."""

    name: str
    state: str
    told: list[Told] = field(default_factory=list)


def survey(checks: Iterable[Check], timeout_s: float = TIMEOUT_S) -> list[Seen]:
    """Look once with all checks at the same time; takes as long as the slowest, at most ``timeout_s``."""
    healths = {check.name: Health([check], least_every_s=2 * timeout_s) for check in checks}
    seen = {name: Seen(name, "new") for name in healths}
    until_s = time.monotonic() + timeout_s
    waiting = set(healths)
    while waiting and time.monotonic() < until_s:
        for name in sorted(waiting):
            seen[name].told += healths[name].run_due(time.monotonic())
            seen[name].state = healths[name].states()[name]
            if seen[name].state != "new":
                waiting.remove(name)
        if waiting:
            time.sleep(POLL_S)
    return list(seen.values())
