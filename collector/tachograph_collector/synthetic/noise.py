"""The random numbers of a made-up run: each rank's own work in each step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.synthetic.cluster import Cluster, Distribution

BLOCK_STEPS = 256
FREEDOM = 4
"""Degrees of freedom of Student's t."""
LEAST = 0.3
"""No step's work is less than this part of its mean, however heavy the tails."""

Floats = NDArray[np.float64]


def draw(rng: np.random.Generator, distribution: Distribution, shape: int | tuple[int, ...]) -> Floats:
    """Numbers of scale one."""
    return rng.standard_t(FREEDOM, shape) if distribution == "student_t" else rng.standard_normal(shape)


class Work:
    """Seconds of own work of each rank, step by step."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = np.random.default_rng([seed, 1])
        noise = cluster.noise
        stages = np.arange(cluster.num_ranks) * cluster.num_stages // cluster.num_ranks
        factor = np.ones(cluster.num_ranks)
        if noise.kind == "pipeline":
            factor -= noise.stage_spread * stages / (cluster.num_stages - 1)
        self._mean = cluster.step_s * cluster.busy_part * factor
        wanders = noise.kind == "moe"
        self._load = noise.imbalance * self._rng.standard_normal(cluster.num_ranks) if wanders else None
        self._rows: Floats = np.zeros((0, cluster.num_ranks))

    def next(self, num_steps: int) -> Floats:
        """Of the next steps, shape (steps, ranks), ``BLOCK_STEPS`` at most; the caller's to change.

        How far it goes on is told by ``done``, so that a step's work doesn't depend on where faults cut the run.
        """
        if not len(self._rows):
            self._rows = self._draw(BLOCK_STEPS)
        return self._rows[:num_steps].copy()

    def done(self, num_steps: int) -> None:
        """So many of them were done."""
        self._rows = self._rows[num_steps:]

    def _draw(self, num_steps: int) -> Floats:
        noise = self._cluster.noise
        shape = (num_steps, self._cluster.num_ranks)
        work: Floats = 1 + noise.relative * draw(self._rng, noise.distribution, shape)
        if self._load is not None:
            loads: Floats = np.sqrt(1 - noise.persistence**2) * noise.imbalance * self._rng.standard_normal(shape)
            load = self._load
            for place in range(num_steps):
                load = loads[place] = noise.persistence * load + loads[place]
            self._load = load
            work += loads
        np.maximum(work, LEAST, out=work)
        work *= self._mean
        return work
