"""``tachograph --help`` and ``tachograph-agent --help``: what starting costs."""

from __future__ import annotations

import sys

from figure import Figure, Row, Setting
from measure import TACHOGRAPH, Costs, interleaved

MOST_S = 0.5
MOST_AGENT_S = 0.6
AGENT = [sys.executable, "-c", "import sys; from tachograph_agent.sidecar.main import main; sys.exit(main())"]


def measure(setting: Setting) -> Figure:
    """Wall-clock time, and as a multiple of a bare interpreter's start."""
    costs = interleaved(
        {"help": [*TACHOGRAPH, "--help"], "agent": [*AGENT, "--help"], "bare": [sys.executable, "-c", "pass"]},
        4 * setting.rounds,
        setting.scratch,
    )
    bare = costs["bare"]

    def row(what: str, told: Costs, most_s: float) -> Row:
        measured = (
            f"{told.wall_s:.3f} s (median {told.median_wall_s:.3f} s), {told.wall_s / bare.wall_s:.1f} times a bare "
            f"interpreter's {bare.wall_s:.3f} s"
        )
        return Row(what, measured, f"< {most_s:g} s", told.wall_s < most_s)

    return Figure(
        "Start-up",
        "Wall-clock time of the process, over that of `python -c pass`.",
        [
            row("`tachograph --help`", costs["help"], MOST_S),
            row("`tachograph-agent --help`", costs["agent"], MOST_AGENT_S),
        ],
        "Commands must import what they need when they are called, and no earlier.",
    )
