"""What all detectors cost: a process of its own, so that its memory is theirs. Prints seconds and bytes.

python bench/detect_load.py live RANKS SECONDS      one step a second told by each rank, looked at each second
python bench/detect_load.py replay STEPS RANKS      a recording from columns
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import numpy as np
from tachograph_agent.events import AttemptStart, CheckpointSaved, CheckpointStart, Heartbeat, RunStart

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from labelled.columns import step_columns, work
from tachograph_collector.detect import Detectors
from tachograph_collector.detect.silence import Silence

RUN, T0 = "r", 1_760_000_000.0
SECOND_US = 1_000_000
CHUNK = 1_000
BEHIND_US = 3_600 * SECOND_US
PER_NODE = 8


def resident_bytes(name: str) -> int:
    """Resident memory, now (``VmRSS``) or at its most (``VmHWM``), as the kernel tells it of this process's own."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def start(num_ranks: int) -> list[RunStart | AttemptStart]:
    """What a run begins with."""
    return [RunStart(t=T0, run=RUN, world_size=num_ranks), AttemptStart(t=T0, run=RUN, attempt=0, resume_step=0)]


def live(num_ranks: int, seconds: int) -> float:
    """Processor seconds of a run's seconds, heartbeats included; the first minute and a half is not counted."""
    rng = np.random.default_rng(1)
    detectors, silence = Detectors(), Silence(RUN, 1)
    detectors.add(start(num_ranks))
    noise = work(rng, "dense", 64, num_ranks)
    spent_s = 0.0
    for second in range(1, seconds + 1):
        t = T0 + second
        busy_s = 0.7 * noise[second % 64][None, :]
        loss = [2.5 + 0.02 * float(rng.standard_normal())]
        columns = step_columns(
            np.array([t]), np.ones(1), work_s=busy_s, loss=loss, norm=[1.0], first_step=second, skew_s=1e-6
        )
        told: list = []
        if second % 300 == 0:
            common = {"run": RUN, "attempt": 0, "rank": 0, "step": second}
            told = [CheckpointStart(t=t + 0.1, **common), CheckpointSaved(t=t + 0.4, dur=0.3, **common)]
        beats = [
            Heartbeat(t=t, run=RUN, attempt=0, node=f"n{node}", interval_s=5.0, step=second, ranks_alive=PER_NODE)
            for node in range(second % 5, num_ranks // PER_NODE, 5)
        ]
        begin_s = process_time()
        detectors.add_steps(RUN, columns)
        if told:
            detectors.add(told)
        now_us = round((t + 1) * SECOND_US)
        for beat in beats:
            silence.hear(now_us, [beat])
        silence.judge(now_us, "0")
        detectors.look(now_us)
        if second > 90:
            spent_s += process_time() - begin_s
    assert not [one for one in detectors.incidents() if one.detector == "straggler"]
    return spent_s / (seconds - 90)


def replay(num_steps: int, num_ranks: int) -> float:
    """Processor seconds for the whole recording, without those that make it up."""
    rng = np.random.default_rng(1)
    detectors = Detectors()
    detectors.add(start(num_ranks))
    spent_s = 0.0
    for first in range(1, num_steps + 1, CHUNK):
        busy_s = 3.0 * work(rng, "dense", CHUNK, num_ranks)
        dur_s = busy_s.max(axis=1) + 1.0
        loss = 2.5 + 0.02 * rng.standard_normal(CHUNK)
        ends_s = T0 + 5.0 * np.arange(first, first + CHUNK)
        columns = step_columns(ends_s, dur_s, work_s=busy_s, loss=loss, first_step=first)
        begin_s = process_time()
        detectors.add_steps(RUN, columns)
        detectors.settle(BEHIND_US)
        spent_s += process_time() - begin_s
    begin_s = process_time()
    detectors.look()
    return spent_s + process_time() - begin_s


if __name__ == "__main__":
    what, one, other = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begin_bytes = resident_bytes("VmRSS")
    took_s = {"live": live, "replay": replay}[what](one, other)
    print(took_s, resident_bytes("VmHWM") - begin_bytes)
