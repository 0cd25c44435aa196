"""``tachograph --help``: what starting costs."""

from __future__ import annotations

import sys

from figure import Figure, Row, Setting
from measure import TACHOGRAPH, interleaved

MOST_S = 0.5


def measure(setting: Setting) -> Figure:
    """Wall-clock time, and as a multiple of a bare interpreter's start."""
    costs = interleaved(
        {"help": [*TACHOGRAPH, "--help"], "bare": [sys.executable, "-c", "pass"]}, 4 * setting.rounds, setting.scratch
    )
    told, bare = costs["help"], costs["bare"]
    measured = (
        f"{told.wall_s:.3f} s (median {told.median_wall_s:.3f} s), {told.wall_s / bare.wall_s:.1f} times a bare "
        f"interpreter's {bare.wall_s:.3f} s"
    )
    return Figure(
        "Start-up",
        "Wall-clock time of the process, over that of `python -c pass`.",
        [Row("`tachograph --help`", measured, "< 0.5 s", told.wall_s < MOST_S)],
        "Commands must import what they need when they are called, and no earlier.",
    )
