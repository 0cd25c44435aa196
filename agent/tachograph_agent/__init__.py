"""Tachograph's agent: what runs beside real training. Nothing here imports more than the base install."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tachograph_agent.recorder import Recorder

__all__ = ["Recorder"]


def __getattr__(name: str) -> Any:
    """``Recorder`` on demand: whoever only reads logs needs neither sockets nor logging."""
    if name == "Recorder":
        from tachograph_agent.recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
