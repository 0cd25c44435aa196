"""What is known of each node of a run from when it was heard."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from tachograph_collector.detect.course import SECOND_US

INTERVAL_US: Final = 5 * SECOND_US

State = Literal["alive", "suspect", "dead", "lost", "gone"]
"""``lost``: its agent only, its ranks step on. ``gone``: it said good-bye."""


class Node(Struct):
    """One node of the run. Times without ``_t_`` are arrivals, on the database's clock."""

    node: str
    first_heard_us: int
    state: State = "alive"
    state_since_us: int = 0
    last_heartbeat_us: int | None = None
    interval_us: int = INTERVAL_US
    lag_us: int | None = None
    """How much later than they were told its words come, at the least: its clock's offset, and the way."""
    heartbeat_seen: tuple[int, int] | None = None
    """When the last heartbeat came, of a backlog or not, and when it was told."""
    num_steady: int = 0
    """Late heartbeats in a row that came as far apart as they were told: a stream, no backlog."""
    last_step_us: int | None = None
    step_gap_us: int = 0
    step: int | None = None
    ranks_alive: Any = None
    queue_bytes: int | None = None
    dropped: int | None = None
    clock_offset_s: float | None = None
    agent_version: str | None = None
    metrics_address: str | None = None


def whole(value: object) -> int | None:
    """The value if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def word(value: object, otherwise: str | None) -> str | None:
    """The value if it is a text, cut."""
    return value[:200] if isinstance(value, str) else otherwise
