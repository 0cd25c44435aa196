"""How long the steps of a made-up run take, under the faults that last for a while."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.synthetic import faults as kinds
from tachograph_collector.synthetic.cluster import Cluster
from tachograph_collector.synthetic.faults import NEVER_US
from tachograph_collector.synthetic.noise import Floats, Work

Whole = NDArray[np.int64]


class Pace:
    """Draws each rank's work, and makes of it what a step takes: the slowest rank's, and what all wait for."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._work = Work(cluster, seed)
        self._active: list[tuple[int, kinds.Fault]] = []
        """Faults that last, with when each ends."""

    def begin(self, fault: kinds.Fault, end_us: int) -> None:
        """From now on, up to ``end_us``, this fault slows steps."""
        self._active.append((end_us, fault))

    def end_by(self, now_us: int) -> None:
        """Faults that have ended by now slow nothing more."""
        self._active = [(end_us, fault) for end_us, fault in self._active if end_us > now_us]

    def next_end_us(self, now_us: int) -> int:
        """When the first fault ends after now."""
        return min((end_us for end_us, _ in self._active if end_us > now_us), default=NEVER_US)

    def next(self, num: int, step: int) -> tuple[Floats, Whole]:
        """Of at most ``num`` steps after ``step``: each rank's own work (s), and how long the step takes (us)."""
        work, base = self._work_of(num)
        return work, self._step_us(work, base, step)

    def done(self, num: int) -> None:
        """So many of the steps that were drawn last have been made; the others are drawn again."""
        self._work.done(num)

    def _work_of(self, num: int) -> tuple[Floats, Floats]:
        """Each rank's own work in the next steps, and of it what the step waits for."""
        base = self._work.next(num)
        work = base
        for _, fault in self._active:
            if isinstance(fault, kinds.Straggler):
                base[:, fault.rank] *= fault.ratio
        for _, fault in self._active:
            if isinstance(fault, kinds.HiddenStraggler):
                work = work.copy() if work is base else work
                work[:, fault.rank] *= fault.ratio
        return work, base

    def _step_us(self, work: Floats, base: Floats, step: int) -> Whole:
        cluster = self._cluster
        one = base.max(axis=1) + cluster.step_s * (1 - cluster.busy_part)
        for _, fault in self._active:
            if isinstance(fault, kinds.SlowJob):
                one *= fault.ratio
            elif isinstance(fault, kinds.PeriodicSlow):
                numbers = step + 1 + np.arange(len(one))
                one = np.where(numbers % fault.every_steps == 0, one * fault.ratio, one)
        one = np.maximum(one, work.max(axis=1))
        one_us: Whole = np.rint(one * 1e6).astype(np.int64)
        return one_us
