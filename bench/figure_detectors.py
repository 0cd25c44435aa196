"""What the detectors cost: live on a large run, and over a long recording."""

from __future__ import annotations

import subprocess
import sys

from figure import Figure, Row, Setting
from measure import HERE, environment

NUM_RANKS, SECONDS = 16_384, 390
NUM_STEPS, REPLAY_RANKS = 100_000, 64


def measure(setting: Setting) -> Figure:
    """Processor time in a process of their own, without making up what they are fed."""
    seconds, num_steps = (150, NUM_STEPS // 10) if setting.quick else (SECONDS, NUM_STEPS)
    live_s, live_bytes = _run(setting, "live", NUM_RANKS, seconds)
    replay_s, replay_bytes = _run(setting, "replay", num_steps, REPLAY_RANKS)
    rows = [
        Row(f"{NUM_RANKS:,} ranks, a step a second: of a core", f"{live_s:.3f}", "≤ 0.5", live_s <= 0.5),
        Row("the same: memory above what it started with", f"{live_bytes / 1e6:.0f} MB"),
        Row(f"{num_steps:,} steps of {REPLAY_RANKS} ranks", f"{replay_s:.1f} s", "≤ 60 s", replay_s <= 60),
        Row("the same: memory above what it started with", f"{replay_bytes / 1e6:.0f} MB"),
    ]
    return Figure(
        "All detectors",
        f"A run of which every rank tells its work each second, with saves each five minutes and heartbeats of 2,048 "
        f"nodes each five seconds, looked at each second: processor time over {seconds - 90} s after the first 90. "
        "Then a recording from columns, in parts of 1,000 steps, judged an hour behind the newest. Making up the steps "
        "is not counted; the memory holds a part of them too.",
        rows,
        "Steps are judged by window and rank in arrays; what is left is what each look costs.",
    )


def _run(setting: Setting, *arguments: str | int) -> tuple[float, int]:
    command = [sys.executable, str(HERE / "detect_load.py"), *map(str, arguments)]
    done = subprocess.run(command, env=environment(setting.scratch), capture_output=True, check=True, text=True)
    took_s, size = done.stdout.split()
    return float(took_s), int(size)
