"""Whether this Tachograph and the collector's fit each other."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, ok, warn
from tachograph_collector.report.text import visible


def look(asked: Asked) -> Iterator[Finding]:
    """The two versions; nothing where the collector's isn't told."""
    theirs, ours = asked.version, version("tachograph")
    if theirs is None:
        return
    if _series(theirs) == _series(ours):
        yield ok(
            "version", f"both are {ours}" if theirs == ours else f"{ours} here, {visible(theirs, 40)} there: they fit"
        )
        return
    yield warn(
        "version",
        f"{ours} here, {visible(theirs, 40)} there",
        "upgrade the collector first, then agents: it takes what older ones send",
    )


def _series(told: str) -> list[str]:
    """What two versions must have in common: the first number, before 1.0 the second, too."""
    parts = told.split(".")
    return parts[:2] if parts[0] == "0" else parts[:1]
