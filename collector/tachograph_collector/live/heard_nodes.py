"""What is known of each node of a run from when it was heard, and its row in ``nodes``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct

from tachograph_collector.live.pace import SECOND
from tachograph_collector.store.folded import text_of

INTERVAL_US: Final = 5 * SECOND

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


def node_rows(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Nodes as rows of ``nodes``, without the run they belong to."""
    return [
        {
            "node": text_of(it.node),
            "first_heard_us": it.first_heard_us,
            "last_heard_us": max(it.first_heard_us, it.last_heartbeat_us or 0, it.last_step_us or 0),
            "last_heartbeat_us": it.last_heartbeat_us,
            "interval_us": it.interval_us,
            "state": it.state,
            "state_since_us": it.state_since_us,
            "step": it.step,
            "ranks_alive": len(it.ranks_alive) if isinstance(it.ranks_alive, list) else whole(it.ranks_alive),
            "queue_bytes": it.queue_bytes,
            "dropped": it.dropped,
            "clock_offset_s": it.clock_offset_s,
            "agent_version": it.agent_version,
            "metrics_address": it.metrics_address,
        }
        for it in nodes
    ]
