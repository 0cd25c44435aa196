"""How far the collector's books are behind what it has stored."""

from __future__ import annotations

from collections.abc import Iterator

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, ok, warn
from tachograph_collector.doctor.schema import LAG
from tachograph_collector.report.text import visible


def look(asked: Asked) -> Iterator[Finding]:
    """Runs with events that are not booked yet, and since when."""
    parts = asked.ready.told.get("checks")
    told = parts.get(LAG) if isinstance(parts, dict) else None
    if not isinstance(told, dict):
        return
    num_runs, lag_s = told.get("runs_behind", 0), told.get("lag_s", 0.0)
    if told.get("ok", True):
        yield ok("lag", f"the books are {lag_s} s behind, in {num_runs} runs" if num_runs else "every event is booked")
    else:
        yield warn(
            "lag",
            f"{visible(str(told.get('why', '')), 200)}, for {lag_s} s",
            "docs/scaling.md: more --jobs, another replica, or a faster database",
        )
