"""The saves that a run's present state descends from, and which of them retention has left; many runs at once.

A run's saves are kept as stretches (when training began, how many saves landed), so that thousands of saves are one
row. Of the newest ``present`` all are there; of older ones, the first of each span of ``every_s`` alone.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.model.check import Floats
from tachograph_collector.model.simulate.design import Retention
from tachograph_collector.model.simulate.restarts import Bools
from tachograph_collector.model.simulate.schedule import Schedule, whole_us

Places: TypeAlias = NDArray[np.intp]


class History:
    """The landed saves of ``num_runs`` runs. ``steps``: how many steps the newest holds, 0 before the first."""

    def __init__(self, num_runs: int, schedule: Schedule, retention: Retention) -> None:
        self._schedule = schedule
        self._last = retention.last
        self._every_us = None if retention.every_s is None else max(1, whole_us("retention.every_s", retention.every_s))
        self._training_us = np.zeros((num_runs, 16))
        self._saves = np.zeros((num_runs, 16))
        self._steps_before = np.zeros((num_runs, 16))
        self._length = np.zeros(num_runs, dtype=np.intp)
        self._present = np.zeros(num_runs)
        self.steps = np.zeros(num_runs)
        self.newest_us = np.zeros(num_runs)
        """When the blocking part of the newest save ended."""

    def bank(self, training_us: Floats, landed: Floats) -> None:
        """Add to each run the ``landed`` saves of a stretch whose training began at ``training_us``."""
        which = np.flatnonzero(landed)
        if not len(which):
            return
        landed, training_us = landed[which], training_us[which]
        at = self._length[which]
        if at.max() == self._saves.shape[1]:
            self._grow()
        self._training_us[which, at] = training_us
        self._saves[which, at] = landed
        self._steps_before[which, at] = self.steps[which]
        self._length[which] = at + 1
        self._present[which] = np.minimum(self._present[which] + landed, self._last)
        self.steps[which] += self._schedule.steps_at(landed)
        self.newest_us[which] = training_us + self._schedule.end_us(landed)

    def go_back(self, which: Places, corrupt_us: Floats) -> Bools:
        """Take runs ``which`` back to their newest save that is kept and ended by ``corrupt_us``.

        Gives for each whether there was none, so that it starts from scratch.
        """
        schedule = self._schedule
        found_at = np.full(len(which), -1)
        found_save, found_newer, newer = np.zeros(len(which)), np.zeros(len(which)), np.zeros(len(which))
        at = self._length[which] - 1
        looking = np.flatnonzero(at >= 0)
        while len(looking):
            row, level = which[looking], at[looking]
            begin_us, num = self._training_us[row, level], self._saves[row, level]
            clean = np.minimum(schedule.saves(np.maximum(corrupt_us[looking] - begin_us, 0)), num)
            behind = newer[looking] + num - clean
            is_present = (clean > 0) & (behind < self._present[row])
            save = clean
            if self._every_us is not None:
                rung = self._rung(row, level, begin_us, clean)
                save = np.where(is_present, clean, rung)
            else:
                save = np.where(is_present, clean, 0)
            hit = save > 0
            here = looking[hit]
            found_at[here], found_save[here] = level[hit], save[hit]
            found_newer[here] = newer[here] + (num - save)[hit]
            newer[looking] += num
            at[looking] -= 1
            looking = looking[~hit & (level > 0)]
        self._cut(which, found_at, found_save, found_newer)
        return found_at < 0

    def _rung(self, row: Places, level: Places, begin_us: Floats, save: Floats) -> Floats:
        """The first save, if it is in this stretch, of the span that ``save`` lies in; else 0."""
        assert self._every_us is not None
        schedule = self._schedule
        span_us = np.floor((begin_us + schedule.end_us(save)) / self._every_us) * self._every_us
        first = schedule.first_save(span_us - begin_us)
        below = np.maximum(level - 1, 0)
        before_us = self._training_us[row, below] + schedule.end_us(self._saves[row, below])
        is_first = (first > 1) | (level == 0) | (before_us < span_us)
        return np.where((save > 0) & is_first, first, 0)

    def _cut(self, which: Places, at: Places, save: Floats, newer: Floats) -> None:
        """Forget everything after save number ``save`` of stretch ``at``, and all where ``at`` is -1."""
        level = np.maximum(at, 0)
        scratch = at < 0
        self._length[which] = at + 1
        self._saves[which, level] = save
        self._present[which] = np.where(scratch, 0, np.maximum(self._present[which] - newer, 1))
        self.steps[which] = np.where(scratch, 0, self._steps_before[which, level] + self._schedule.steps_at(save))
        ended_us = self._training_us[which, level] + self._schedule.end_us(save)
        self.newest_us[which] = np.where(scratch, 0, ended_us)

    def _grow(self) -> None:
        """Make room for as many stretches again."""
        for name in ("_training_us", "_saves", "_steps_before"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)], axis=1))
