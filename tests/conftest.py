"""Fixtures that any test may ask for; each is described where it is made."""

from __future__ import annotations

from collector_process import collector, start_collector

__all__ = ["collector", "start_collector"]
