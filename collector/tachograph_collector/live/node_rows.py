"""Nodes as rows of ``nodes``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tachograph_collector.detect.heard_nodes import Node, whole
from tachograph_collector.store.folded import text_of


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
