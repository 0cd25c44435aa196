"""Gradient norms of single ranks that are out of line with the others of their stage, window by window.

A rank's norm is compared with the median of its stage in the same step, and that ratio with what it usually is for this
rank: stages and shards differ lawfully, and stay as they are. Where all ranks tell the same (global) norm nobody is out
of line.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tachograph_collector.detect.columns import Array, StepColumns
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.settings import Common, Corruption

WINDOW_STEPS: Final = 20
LEAST_RANKS: Final = 4
FLOOR: Final = 0.05
"""A robust deviation of the logarithm is no less than this."""
USUAL_WEIGHT: Final = 0.2
"""Of a new window in what is usual."""
MAX_TIMES: Final = 50

Floats: TypeAlias = NDArray[np.float64]


class Outlier(Struct, frozen=True):
    """One step in which one rank was out of line; ``times`` is by its usual norm, infinite where it is no number."""

    rank: int
    step: int
    t_us: int
    times: float


class NormsState(Struct):
    """What is saved."""

    held: dict[str, Array] = field(default_factory=dict)
    """Records of the window that is under way: ``t_us``, ``rank``, ``step``, ``norm``."""
    usual: dict[int, float] = field(default_factory=dict)
    """Logarithm of each rank's norm by its stage's median, as it usually is."""
    outliers: dict[int, list[Outlier]] = field(default_factory=dict)
    window: int | None = None


class Norms:
    """Takes steps in the order of time; tells outliers once the steps of a window are there."""

    def __init__(self, settings: Corruption, common: Common, course: Course, state: NormsState) -> None:
        self._settings = settings
        self._share = common.group_share
        self._course = course
        self.state = state

    def reset(self) -> None:
        """An attempt begins: what is usual is learned anew. What was out of line that day still counts."""
        self.state.held, self.state.usual, self.state.window = {}, {}, None

    def rows(self, steps: StepColumns) -> list[Outlier]:
        """Take records of one attempt; gives what was out of line in windows that are over."""
        state = self.state
        has = steps.has_norm
        if not has.any() or (len(self._course.nodes) < LEAST_RANKS and not state.held):
            return []
        new = {"t_us": steps.t_us[has], "rank": steps.rank[has], "step": steps.step[has], "norm": steps.norm[has]}
        held = {name: np.concatenate([state.held[name], new[name]]) for name in new} if state.held else new
        windows = held["step"] // WINDOW_STEPS
        # The others end a step within one of the first; two steps into the next, a window is whole.
        newest = int(held["step"].max())
        last = (newest - 2) // WINDOW_STEPS
        found: list[Outlier] = []
        for window in np.unique(windows[windows < last]).tolist():
            mine = windows == window
            if state.window is None or window > state.window:
                state.window = window
                found += self._window(*(held[name][mine] for name in ("t_us", "rank", "step", "norm")))
        keep = windows >= last
        state.held = {name: values[keep] for name, values in held.items()}
        return found

    def _window(self, t_us: Array, rank: Array, step: Array, norm: Array) -> list[Outlier]:
        ranks, column = np.unique(rank, return_inverse=True)
        steps, row = np.unique(step, return_inverse=True)
        if len(ranks) < LEAST_RANKS:
            return []
        logs = np.full((len(steps), len(ranks)), np.nan)
        told = np.zeros(logs.shape, dtype=np.bool_)
        with np.errstate(all="ignore"):
            logs[row, column] = np.log(norm)
        told[row, column] = True
        logs[~np.isfinite(logs)] = np.nan
        ratio, deviation = self._ratios(logs, ranks)
        usual = np.array([self.state.usual.get(one, np.nan) for one in ranks.tolist()])
        far = np.abs(ratio - usual)
        limit = np.maximum(math.log(self._settings.norm_ratio), self._settings.norm_deviations * deviation)
        with np.errstate(invalid="ignore"):
            is_out = far > limit
        # No number where others have one.
        is_out |= told & np.isnan(logs) & (np.isnan(logs).sum(axis=1, keepdims=True) <= self._share * told.shape[1])
        is_out &= (is_out.sum(axis=1, keepdims=True) <= self._share * told.sum(axis=1, keepdims=True)) & told
        self._learn(ranks, np.where(is_out, np.nan, ratio), usual)
        eligible = self._course.eligible_step
        found = []
        times = np.full(logs.shape, -1, dtype=np.int64)
        times[row, column] = t_us
        for place, which in np.argwhere(is_out).tolist():
            number = int(steps[place])
            if eligible is None or number < eligible:
                continue
            by = ratio[place, which] - usual[which]
            size = math.exp(min(by, 700.0)) if math.isfinite(by) else math.inf
            found.append(Outlier(int(ranks[which]), number, int(times[place, which]), size))
        return found

    def _ratios(self, logs: Floats, ranks: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Each norm by the median of its stage, and the robust deviation of those of its step."""
        stages = [self._course.stages.get(one) for one in ranks.tolist()]
        ratio = np.full(logs.shape, np.nan)
        deviation = np.full(logs.shape, np.inf)
        for stage in set(stages):
            mine = np.array([one == stage for one in stages])
            if mine.sum() < LEAST_RANKS:
                continue
            part = logs[:, mine]
            enough = np.isfinite(part).sum(axis=1) >= LEAST_RANKS
            if not enough.any():
                continue
            part = part[enough]
            middle = np.nanmedian(part, axis=1, keepdims=True)
            spread = 1.4826 * np.nanmedian(np.abs(part - middle), axis=1, keepdims=True)
            places = np.ix_(enough, mine)
            ratio[places] = part - middle
            deviation[places] = np.maximum(np.broadcast_to(spread, part.shape), FLOOR)
        return ratio, deviation

    def _learn(self, ranks: NDArray[np.int64], ratio: Floats, usual: Floats) -> None:
        has_any = np.isfinite(ratio).any(axis=0)
        if not has_any.any():
            return
        middle = np.nanmedian(ratio[:, has_any], axis=0)
        before = usual[has_any]
        after = np.where(np.isnan(before), middle, (1 - USUAL_WEIGHT) * before + USUAL_WEIGHT * middle)
        self.state.usual.update(zip(ranks[has_any].tolist(), after.tolist(), strict=True))

    def note(self, outlier: Outlier) -> list[Outlier]:
        """Keep an outlier; gives those of its rank within a day, this one included."""
        since_us = outlier.t_us - round(self._settings.norm_within_s * SECOND_US)
        mine = [one for one in self.state.outliers.get(outlier.rank, []) if one.t_us >= since_us]
        mine = [*mine, outlier][-MAX_TIMES:]
        self.state.outliers[outlier.rank] = mine
        return mine
