"""A made-up run in which a rank is slow for a while, the loss spikes, nobody steps for two minutes, and it ends."""

from __future__ import annotations

import random

from ledger_oracle.build import T0
from tachograph_agent.events import AnyEvent, AttemptStart, RunEnd, RunStart, Step

RUN = "r"
RANKS = 8
STEP_S = 5.0
SLOW_RANK = 5
SLOW_STEPS = range(20, 95)
SPIKE_STEPS = range(110, 113)
LAST_BEFORE_HANG = 130
HANG_S = 150.0
LAST_STEP = 215
WRONG = {("straggler", f"rank {SLOW_RANK}"), ("loss_spike", "run"), ("hang", "run")}
"""What is wrong with it: detector and subject."""


def faulty_run(*, last_step: int = LAST_STEP, ended: bool = True) -> list[AnyEvent]:
    """Its events, in order of time."""
    dice = random.Random(7)
    told: list[AnyEvent] = [
        RunStart(t=T0, run=RUN, world_size=RANKS, price_per_gpu_hour=2.0),
        AttemptStart(t=T0, run=RUN, attempt=0, resume_step=0),
    ]
    t = T0 + 10
    for step in range(1, last_step + 1):
        t += HANG_S if step == LAST_BEFORE_HANG + 1 else STEP_S
        loss = (4.0 if step in SPIKE_STEPS else 2.0) + dice.gauss(0, 0.01)
        for rank in range(RANKS):
            slow = 1.3 if rank == SLOW_RANK and step in SLOW_STEPS else 1.0
            told.append(
                Step(
                    t=round(t + 0.001 * rank, 3),
                    run=RUN,
                    attempt=0,
                    rank=rank,
                    node=f"n{rank}",
                    step=step,
                    dur=STEP_S,
                    busy_s=round(3.5 * slow * (1 + dice.gauss(0, 0.01)), 4),
                    loss=round(loss, 4) if rank == 0 else None,
                )
            )
    if ended:
        told.append(RunEnd(t=t + 2, run=RUN, status="completed"))
    return told
