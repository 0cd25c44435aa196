"""Tachograph's agent: what runs beside real training. Nothing here imports more than the base install."""

from tachograph_agent.recorder import Recorder

__all__ = ["Recorder"]
