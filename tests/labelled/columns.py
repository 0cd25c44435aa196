"""Steps of made-up runs as columns, and the noise of their ranks' work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tachograph_collector.detect.columns import StepColumns

PER_NODE = 8
STAGES = (1.0, 1.15, 1.05, 0.95)
"""How much each pipeline stage works."""


def step_columns(
    ends_s: np.ndarray,
    dur_s: np.ndarray,
    *,
    work_s: np.ndarray | None = None,
    loss: Sequence[float | None] | np.ndarray | None = None,
    norm: Sequence[float | None] | np.ndarray | None = None,
    first_step: int = 1,
    attempt: str = "0",
    num_ranks: int = 1,
    stages: int = 0,
    skew_s: float = 1e-4,
    per_node: int = PER_NODE,
) -> StepColumns:
    """Steps by ranks, in order of time. ``work_s`` is steps by ranks; loss and norm are rank 0's.

    A loss of None is not told. With ``stages`` so many pipeline stages share the ranks, one after the other.
    """
    num = len(ends_s)
    num_ranks = num_ranks if work_s is None else work_s.shape[1]
    size = num * num_ranks
    everyone = np.arange(num_ranks)

    def lead_only(values: Sequence[float | None] | np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        told, has = np.full((num, num_ranks), np.nan), np.zeros((num, num_ranks), dtype=np.bool_)
        if values is not None:
            told[:, 0] = [np.nan if one is None else one for one in values]
            has[:, 0] = [one is not None for one in values]
        return told.ravel(), has.ravel()

    losses, has_loss = lead_only(loss)
    norms, has_norm = lead_only(norm)
    return StepColumns(
        attempt=[attempt],
        attempt_index=np.zeros(size, dtype=np.int64),
        t_us=np.rint((ends_s[:, None] + skew_s * everyone) * 1e6).astype(np.int64).ravel(),
        rank=np.tile(everyone, num).astype(np.int64),
        step=np.repeat(np.arange(first_step, first_step + num), num_ranks).astype(np.int64),
        count=np.ones(size),
        one_s=np.repeat(dur_s, num_ranks),
        dur_s=np.repeat(dur_s, num_ranks),
        work_s=np.full(size, np.nan) if work_s is None else work_s.ravel(),
        loss=losses,
        has_loss=has_loss,
        norm=norms,
        has_norm=has_norm,
        nodes={attempt: {rank: f"n{rank // per_node}" for rank in range(num_ranks)}},
        stages={attempt: {rank: rank * stages // num_ranks if stages else None for rank in range(num_ranks)}},
    )


def work(
    rng: np.random.Generator,
    family: str,
    num_steps: int,
    num_ranks: int,
    *,
    noise: float = 0.02,
    imbalance: float = 0.05,
    persistence: float = 0.9,
) -> np.ndarray:
    """How long each rank works in each step, about 1, steps by ranks.

    ``dense``: independent noise, and ranks that differ by half a percent for good. ``pipeline``: the same, in four
    stages that differ by 15 %. ``moe``: an imbalance that wanders, autocorrelated from step to step, as routing does.
    """
    each = 1 + 0.005 * rng.standard_normal(num_ranks)
    whole = each * (1 + noise * rng.standard_normal((num_steps, num_ranks)))
    if family == "pipeline":
        whole *= np.array(STAGES)[np.arange(num_ranks) * len(STAGES) // num_ranks]
    elif family == "moe":
        wander = np.zeros((num_steps, num_ranks))
        state = imbalance * rng.standard_normal(num_ranks)
        for row in range(num_steps):
            state = persistence * state + np.sqrt(1 - persistence**2) * imbalance * rng.standard_normal(num_ranks)
            wander[row] = state
        whole *= 1 + wander
    return np.maximum(whole, 0.05)


def synchronous(work_s: np.ndarray, t0: float, *, step_s: float, pause_s: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """When each step ended and how long it took: all wait for the slowest, then a fifth of a step is communication."""
    dur_s = work_s.max(axis=1) + 0.2 * step_s
    return t0 + pause_s + np.cumsum(dur_s), dur_s
