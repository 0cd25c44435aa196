"""A month of a 1,024-GPU run as Megatron's log: replay over one regular expression that is searched in its lines."""

from __future__ import annotations

import sys

import inputs
from figure import Figure, Row, Setting, ratio_row
from measure import TACHOGRAPH, interleaved, peak_bytes

SEARCH = """import re, sys
search = re.compile({pattern}).search
for line in open(sys.argv[1]):
    search(line)"""
PLAIN = r"""r'iteration\s+(\d+)/.*?elapsed time per iteration \(ms\): ([\d.]+).*?lm loss: ([\d.E+-]+)'"""
FASTEST = (
    r"""r'iteration +(\d+)/[^|]*\|[^|]*\| elapsed time per iteration \(ms\): ([\d.]+) \|(?:[^|]*\|){3} """
    r"""lm loss: ([\d.E+-]+)'"""
)


def measure(setting: Setting) -> Figure:
    """Time as a ratio to the plain and to the fastest expression; peak memory at two sizes."""
    small, large = (5, 50) if setting.quick else (50, 500)
    paths = {}
    for megabytes in (small, large):  # the same days, in iterations of a different length
        paths[megabytes] = setting.scratch / f"megatron-{megabytes}.log"
        inputs.in_child("megatron_log", paths[megabytes], megabytes=megabytes, iteration_ms=1880 * large // megabytes)
    beginning = setting.scratch / "megatron-beginning.log"
    inputs.in_child("megatron_log", beginning, megabytes=small)
    path = str(paths[large])
    plain, fastest = SEARCH.format(pattern=PLAIN), SEARCH.format(pattern=FASTEST)
    costs = interleaved(
        {
            "replay": [*TACHOGRAPH, "replay", "--json", path],
            "plain": [sys.executable, "-c", plain, path],
            "fastest": [sys.executable, "-c", fastest, path],
        },
        setting.rounds,
        setting.scratch,
    )
    bare = peak_bytes([], setting.scratch)
    peaks = {size: (peak_bytes(["replay", "--json", str(paths[size])], setting.scratch) - bare) / 1e6 for size in paths}
    shorter = (peak_bytes(["replay", "--json", str(beginning)], setting.scratch) - bare) / 1e6
    rows = [
        ratio_row(
            "`tachograph replay --json`, over searching the plain expression", costs["replay"], costs["plain"], 3.0
        ),
        ratio_row("the same, over the fastest expression that we found", costs["replay"], costs["fastest"]),
        Row(
            f"its peak resident memory above a bare interpreter's, and that of the same days told in {small} MB",
            f"{peaks[large]:.0f} MB and {peaks[small]:.0f} MB",
            "bounded by the run's minutes, not by the log: ≤ 1.5 times",
            peaks[large] <= 1.5 * peaks[small],
        ),
        Row(f"for scale: that of the log's first {small} MB, a tenth of the days", f"{shorter:.0f} MB"),
    ]
    method = (
        f"Generated: {large} MB of the last rank's output, a record an iteration of 1.9 s (500 MB are 30 days), saves, "
        "evaluations, straggler reports, other ranks' warnings, a failure with its watchdogs' messages every eight "
        "hours. Whole processes, start-up included. The reference is one process that runs\n\n"
        + "\n".join("    " + line for line in plain.splitlines())
        + "\n\nThe fastest expression that captures the same counts bars instead of searching:\n\n"
        + f"    {FASTEST}"
    )
    gap = "Most of the time goes into the expression that finds the records of a block, then into numbers and steps."
    return Figure("A month of a 1,024-GPU run from Megatron's log", method, rows, gap)
