"""The events of a run that fails a thousand times, for the judge: saves and the last steps before each failure."""

from __future__ import annotations

import random

from inputs import START_UNIX_SECONDS
from tachograph_agent.events import (
    AttemptStart,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    KnownEvent,
    RunEnd,
    RunStart,
    Step,
)

RUN = "bench"
MTBF_S = 43_200.0
INTERVAL_S = 2_240.0
COST_S = 60.0
RESTART_S = 900.0
STEPS = 40
"""An interval; one record tells them all."""


def events(num_failures: int, seed: int = 7) -> list[KnownEvent]:
    """Attempts of exponential length, each ended by a failure; the restart after one can be struck as well."""
    rng = random.Random(seed)
    t, step, saved = float(START_UNIX_SECONDS), 0, 0
    log: list[KnownEvent] = [RunStart(t=t, run=RUN, gpus=1024, world_size=1024, price_per_gpu_hour=2.0)]
    for attempt in range(num_failures):
        strike = t + rng.expovariate(1 / MTBF_S)
        log.append(AttemptStart(t=t + 1, run=RUN, attempt=attempt, resume_step=saved))
        at, step = t + RESTART_S, saved
        while at + INTERVAL_S + COST_S < strike:
            at += INTERVAL_S
            step += STEPS
            log += [
                Step(t=at, run=RUN, attempt=attempt, rank=0, step=step, count=STEPS, dur=INTERVAL_S),
                CheckpointStart(t=at, run=RUN, attempt=attempt, rank=0, step=step),
                CheckpointSaved(t=at + COST_S, run=RUN, attempt=attempt, rank=0, step=step, dur=COST_S),
            ]
            at += COST_S
            saved = step
        one = INTERVAL_S / STEPS
        num = min(STEPS, max(0, int((strike - at) / one)))
        if num:
            done = at + num * one
            log.append(Step(t=done, run=RUN, attempt=attempt, rank=0, step=step + num, count=num, dur=num * one))
        t = max(strike, t + 2)
        log.append(Failure(t=t, run=RUN, attempt=attempt, category="gpu"))
    log.append(RunEnd(t=t + 1, run=RUN, status="failed"))
    return log
