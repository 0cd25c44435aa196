"""A million steps with a hundred restarts, as an event log: replay over merely decoding its lines."""

from __future__ import annotations

import sys

import inputs
from figure import Figure, Row, Setting, ratio_row
from measure import TACHOGRAPH, interleaved, peak_bytes

DECODE = """import sys, msgspec
decode = msgspec.json.Decoder().decode
for line in open(sys.argv[1], 'rb'):
    decode(line)"""
MOST_MEGABYTES = 200.0


def measure(setting: Setting) -> Figure:
    """Time as a ratio, memory above a bare interpreter's."""
    num_steps = 100_000 if setting.quick else 1_000_000
    path = setting.scratch / "events.jsonl"
    size = inputs.in_child("event_log", path, num_steps=num_steps, num_restarts=num_steps // 10_000)
    costs = interleaved(
        {"replay": [*TACHOGRAPH, "replay", "--json", str(path)], "decode": [sys.executable, "-c", DECODE, str(path)]},
        setting.rounds,
        setting.scratch,
    )
    above = (peak_bytes(["replay", "--json", str(path)], setting.scratch) - peak_bytes([], setting.scratch)) / 1e6
    rows = [
        ratio_row("`tachograph replay --json`, over decoding every line", costs["replay"], costs["decode"], 2.5),
        Row(
            "its peak resident memory above a bare interpreter's",
            f"{above:.0f} MB",
            "≤ 200 MB",
            above <= MOST_MEGABYTES,
        ),
    ]
    method = (
        f"{num_steps:,} single-rank steps with {num_steps // 10_000} failures and restarts and a save every 1,000 "
        f"steps, generated ({size / 1e6:.0f} MB). Whole processes, start-up included. The reference is one process "
        "that runs\n\n" + "\n".join("    " + line for line in DECODE.splitlines())
    )
    gap = "Most of the rest is the ledger's folding of the steps; see `python -m cProfile` of the replay."
    return Figure("A million steps from an event log", method, rows, gap)
