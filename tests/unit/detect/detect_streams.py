"""Made-up runs for the detectors: seeded, and what is wrong with each is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tachograph_agent.events import AnyEvent, AttemptStart, Health, RunStart, Step
from tachograph_collector.detect import Change, Detectors, Incident, Settings

T0 = 1_760_000_000.0
RUN = "r"


@dataclass(frozen=True)
class Slow:
    """``rank`` works ``factor`` times as long from step ``begin`` up to ``end``."""

    rank: int
    factor: float
    begin: int
    end: int = 1_000_000


def ranks(
    num_ranks: int = 8,
    num_steps: int = 200,
    *,
    step_s: float = 5.0,
    noise: float = 0.02,
    imbalance: float = 0.0,
    persistence: float = 0.9,
    slow: Sequence[Slow] = (),
    stage: Callable[[int], int | None] = lambda rank: None,
    stage_factor: Callable[[int], float] = lambda rank: 1.0,
    per_node: int = 4,
    seed: int = 1,
    attempt: int = 0,
    first_step: int = 1,
    t0: float = T0,
) -> list[AnyEvent]:
    """Synchronous training: each rank tells its own work, all end a step together.

    ``noise`` and ``imbalance`` are parts of the work, the latter autocorrelated by ``persistence`` from step to step.
    """
    rng = np.random.default_rng(seed)
    events: list[AnyEvent] = [
        RunStart(t=t0, run=RUN, world_size=num_ranks),
        AttemptStart(t=t0, run=RUN, attempt=attempt, resume_step=first_step - 1),
    ]
    state = np.zeros(num_ranks)
    factors = np.array([stage_factor(rank) for rank in range(num_ranks)])
    t = t0 + 10
    for step in range(first_step, first_step + num_steps):
        state = persistence * state + np.sqrt(1 - persistence**2) * imbalance * rng.standard_normal(num_ranks)
        work = 0.8 * step_s * factors * (1 + state + noise * rng.standard_normal(num_ranks))
        for one in slow:
            if one.begin <= step < one.end:
                work[one.rank] *= one.factor
        dur = float(work.max()) + 0.2 * step_s
        t += dur
        events += [
            Step(
                t=t + 1e-4 * rank,
                run=RUN,
                attempt=attempt,
                rank=rank,
                node=f"n{rank // per_node}",
                step=step,
                dur=dur,
                busy_s=float(work[rank]),
                stage=stage(rank),
            )
            for rank in range(num_ranks)
        ]
    return events


def losses(
    values: Sequence[float | None],
    *,
    norms: Sequence[float | None] | None = None,
    step_s: float = 2.0,
    first_step: int = 1,
    attempt: int = 0,
    t0: float = T0,
) -> list[AnyEvent]:
    """One rank that tells these losses, a step each."""
    return [
        Step(
            t=t0 + step_s * (place + 1),
            run=RUN,
            attempt=attempt,
            rank=0,
            step=first_step + place,
            dur=step_s,
            loss=value,
            grad_norm=None if norms is None else norms[place],
        )
        for place, value in enumerate(values)
    ]


def noisy_loss(num: int, *, scale: float = 0.02, seed: int = 1, heavy: bool = False) -> np.ndarray:
    """A loss that falls from 3.7 to 2.2 with Gaussian or Student-t(4) noise."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_t(4, num) if heavy else rng.standard_normal(num)
    return 2.2 + 1.5 * np.exp(-np.arange(num) / 8000) + scale * noise


def found(events: Sequence[AnyEvent], settings: Settings | None = None) -> list[Incident]:
    """The incidents of a finished log but for failures, which are told to it and have tests of their own."""
    return [one for one in all_found(events, settings) if one.detector != "failure"]


def all_found(events: Sequence[AnyEvent], settings: Settings | None = None) -> list[Incident]:
    """The incidents of a finished log."""
    detectors = Detectors(settings)
    detectors.add(events)
    detectors.look()
    return detectors.incidents()


def live(events: Sequence[AnyEvent], every_s: float, *, restart_every: int = 0) -> list[Change]:
    """What is told when the events come as they happen and somebody looks every so often.

    With ``restart_every`` the collector is restarted after so many looks, from its saved state.
    """
    ordered = sorted(events, key=lambda event: event.t)
    detectors, changes, looks, place = Detectors(), [], 0, 0
    now = ordered[0].t
    while place < len(ordered) or now < ordered[-1].t + 60:
        begin = place
        while place < len(ordered) and ordered[place].t <= now:
            place += 1
        if place > begin:
            detectors.add(ordered[begin:place])
        changes += detectors.look(round(now * 1e6))
        looks += 1
        if restart_every and looks % restart_every == 0:
            saved, detectors = detectors.save(), Detectors()
            detectors.restore(saved)
        now += every_s
    return changes


def sick_in_all_ways() -> list[AnyEvent]:
    """Eight nodes, and in one moment each has four things the matter with it that all of them have."""
    told = ranks(32, 400)
    for node in range(8):
        for check in ("disk", "oom", "link", "ib"):
            detail = f"{check} is bad"
            told.append(Health(t=T0 + 600, run=RUN, node=f"n{node}", check=check, detail=detail, severity="warning"))
    return told
