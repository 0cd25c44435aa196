"""Keeps the spool within its bounds: step samples of closed segments go first, lifecycle events last; a ``gap`` tells.

A segment is never touched while its process writes it, or while lines of it are in memory or on their way. Of a closed
one the lifecycle events are moved into the agent's own file before it is deleted: whatever dies in between, they are
there once or twice, and twice is known as once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tachograph_agent.sidecar.batch import STEP_MARK, whole_lines
from tachograph_agent.sidecar.config import Bounds
from tachograph_agent.sidecar.loop import Loop
from tachograph_agent.spool.follow import Followed

EVERY_S = 5.0
log = logging.getLogger("tachograph.agent")


@dataclass(frozen=True, slots=True)
class Rest:
    """What a segment holds that the collector doesn't have."""

    lifecycle: bytes
    num_lifecycle: int
    num_steps: int
    first_unix_s: float | None


class Keeper:
    """Looks every few seconds whether the spool is within its bounds. One thread, the loop's."""

    def __init__(
        self,
        loop: Loop,
        bounds: Bounds,
        *,
        free_bytes: Callable[[], int] | None = None,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._bounds = bounds
        self._free_bytes = free_bytes or self._ask_free_bytes
        self._unix_clock = unix_clock
        self._next_s = 0.0
        self._is_said = False

    def watch(self, now_s: float) -> None:
        """Look, if it is time to at ``now_s`` (monotonic)."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        self.keep()

    def keep(self) -> int:
        """Delete what must go; gives the bytes that were freed."""
        too_old_unix_s = self._unix_clock() - self._bounds.max_age_s
        freed = 0
        for followed in self._closed():
            if followed.changed_unix_s < too_old_unix_s:
                freed += self._give_up(followed, "older than --max-age")
        over = self._over_bytes()
        if over <= 0:
            self._is_said = False
            return freed
        freed += self._free(over, self._thin)
        over = self._over_bytes()
        if over > 0:
            self._loop.own.turn_the_page()
            self._loop.follower.poll()
            self._loop.liveness.look(self._unix_clock())
            freed += self._free(over, lambda followed: self._give_up(followed, "the spool is full"))
        if self._over_bytes() > 0 and not self._is_said:
            self._is_said = True
            log.warning(
                "the spool is over its bounds and all that is left is being written; raise --max-size, or free the disk"
            )
        return freed

    def _free(self, over: int, how: Callable[[Followed], int]) -> int:
        freed = 0
        for followed in self._closed():
            if freed >= over:
                break
            freed += how(followed)
        return freed

    def _over_bytes(self) -> int:
        size = sum(followed.size for followed in self._loop.follower.followed.values())
        return max(size - self._bounds.max_bytes, self._bounds.min_free_bytes - self._free_bytes() if size else 0)

    def _closed(self) -> list[Followed]:
        """Segments that may be touched, the oldest first."""
        follower, in_use = self._loop.follower, self._loop.segments_in_use()
        found = [
            followed
            for followed in follower.followed.values()
            if followed.name not in in_use
            and followed.mark.is_settled
            and not followed.is_stuck
            and follower.final_size(followed) is not None
        ]
        return sorted(found, key=lambda followed: followed.changed_unix_s)

    def _thin(self, followed: Followed) -> int:
        """Give up a segment's step samples and keep its lifecycle events; 0 where there are no steps."""
        rest = _rest(followed)
        if not rest.num_steps and rest.num_lifecycle:
            return 0
        if rest.lifecycle and not self._loop.own.keep(rest.lifecycle):
            return 0  # no room for what must be kept; another segment may make it
        self._remove(followed, rest.num_steps, 0, rest.first_unix_s, "the spool is full")
        return followed.size - len(rest.lifecycle)

    def _give_up(self, followed: Followed, why: str) -> int:
        rest = _rest(followed)
        self._remove(followed, rest.num_steps, rest.num_lifecycle, rest.first_unix_s, why)
        return followed.size

    def _remove(
        self, followed: Followed, num_steps: int, num_lifecycle: int, since_unix_s: float | None, why: str
    ) -> None:
        dropped = num_steps + num_lifecycle
        who = self._loop.follower.ask_who(followed)
        self._loop.follower.remove(followed)
        if followed.is_stuck or not dropped:
            return
        self._loop.counters.dropped["step"] += num_steps
        self._loop.counters.dropped["lifecycle"] += num_lifecycle
        self._loop.own.write(
            "gap",
            **(who.fields() if who else {}),
            dropped=dropped,
            since=since_unix_s,
            detail=f"{why}: {num_steps} step samples and {num_lifecycle} lifecycle events given up",
        )
        log.warning("%s: events that could not be sent are given up; gap events say how many and whose", why)

    def _ask_free_bytes(self) -> int:
        status = os.statvfs(self._loop.follower.spool)
        return status.f_bavail * status.f_frsize


def _rest(followed: Followed) -> Rest:
    """What is in a segment beyond what is confirmed. Segments are bounded, so one fits into memory."""
    data = os.pread(followed.descriptor, followed.size - followed.mark.offset, followed.mark.offset)
    whole, _ = whole_lines(data[: data.rfind(b"\n") + 1])
    lines = whole.splitlines(keepends=True)
    kept = [line for line in lines if STEP_MARK not in line]
    return Rest(b"".join(kept), len(kept), len(lines) - len(kept), _time(lines[0]) if lines else None)


def _time(line: bytes) -> float | None:
    try:
        spoken = msgspec.json.decode(line).get("t")
    except (msgspec.DecodeError, AttributeError):
        return None
    return float(spoken) if isinstance(spoken, int | float) else None
