"""The work of each rank of the running attempt, step by step: what a straggler is found in, and what is saved of it.

Matrices are steps by ranks; of a window that is judged the last rows stay, for the next one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field

from tachograph_collector.detect.columns import Array, StepColumns
from tachograph_collector.detect.course import SECOND_US
from tachograph_collector.detect.long_windows import LongState
from tachograph_collector.detect.settings import Straggler

MAX_ROWS: Final = 240
"""Of a window; where steps are so short that more would fit, only each n-th step is looked at."""
MAX_RANKS: Final = 131_072
"""Compared of one attempt; of more the rest is left out."""
SLACK_ROWS: Final = 2
"""A window is judged when so many later steps have been heard of, since ranks end a step one after the other."""

STRAGGLER: Final = "straggler"
EPISODE: Final = "straggler_episode"
GROUP: Final = "straggler_group"
"""The detectors that look at these rows."""


class StragglerState(Struct):
    """What is saved. Matrices are steps by ranks, in the order of ``ranks``."""

    ranks: list[int] = field(default_factory=list)
    steps: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    times_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """When a row's step was first heard of."""
    work_s: Array = field(default_factory=lambda: np.zeros((0, 0)))
    one_s: Array = field(default_factory=lambda: np.zeros(0))
    every: int = 0
    """Only steps that this divides are looked at; 0 until it is known."""
    num_fresh: int = 0
    """Rows since the last window was judged."""
    flags: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))
    """The last windows by ranks: whether a rank was flagged."""
    since_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Where the stretch began in which a rank was flagged."""
    calm: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Windows in a row that a rank was below the lower threshold."""
    brief: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))
    """The last steps by ranks: whether a rank was far above its group."""
    brief_since_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    brief_cost_s: Array = field(default_factory=lambda: np.zeros(0))
    brief_steps: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    brief_done: int = 0
    """Steps up to this one have been looked at for episodes."""
    num_calm_groups: int = 0
    """Windows in a row in which no group was slow together."""
    past: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Windows by ranks: the work of those in groups too small to compare, in windows in which they weren't slow."""
    long: LongState = field(default_factory=LongState)
    """The last windows put together, in which noise that wanders has settled."""
    worst: list[int] = field(default_factory=list)
    """The rank that was flagged furthest, of each of the last windows in which one was."""


class WorkRows:
    """The rows of ``state``, which it adds to."""

    def __init__(self, state: StragglerState, settings: Straggler) -> None:
        self.state = state
        self.column = {rank: place for place, rank in enumerate(state.ranks)}
        """Where each rank stands in the matrices."""
        self._settings = settings

    def parts(self, columns: StepColumns, one_s: float | None) -> list[StepColumns]:
        """Records of known ranks' work, cut so that no part completes more than one window; ``fill`` takes each.

        ``one_s``: the usual time of a step, None where it is unknown.
        """
        if len(self.state.ranks) >= MAX_RANKS:
            columns = columns.take(np.isin(columns.rank, self.state.ranks))
        if self.state.every == 0:
            self._choose_rows(one_s)
        if self.state.every > 1:
            columns = columns.take(columns.step // columns.count.astype(np.int64) % self.state.every == 0)
        return self._by_new_rows(columns)

    @property
    def is_due(self) -> bool:
        """Whether a window is complete."""
        return self.state.num_fresh >= self._settings.window_steps + SLACK_ROWS

    def know_ranks(self, columns: StepColumns) -> None:
        """Make room for ranks that are heard of for the first time."""
        fresh = [int(rank) for rank in np.unique(columns.rank) if rank >= 0 and int(rank) not in self.column]
        fresh = fresh[: MAX_RANKS - len(self.state.ranks)]
        if not fresh:
            return
        state, num = self.state, len(fresh)
        for rank in fresh:
            self.column[rank] = len(state.ranks)
            state.ranks.append(rank)

        def wider(matrix: Array, fill: float) -> Array:
            shape = (*matrix.shape[:-1], num)
            return np.concatenate([matrix, np.full(shape, fill, dtype=matrix.dtype)], axis=-1)

        state.work_s = wider(state.work_s, np.nan)
        state.flags, state.brief = wider(state.flags, 0), wider(state.brief, 0)
        state.past = wider(state.past, np.nan)
        state.long.excess = wider(state.long.excess, np.nan)
        state.calm, state.since_us = wider(state.calm, 0), wider(state.since_us, 0)
        state.brief_since_us = wider(state.brief_since_us, 0)
        state.brief_cost_s = wider(state.brief_cost_s, 0)
        state.brief_steps = wider(state.brief_steps, 0)

    def _choose_rows(self, one_s: float | None) -> None:
        """Where steps are so short that a window would hold too many, look at each n-th only."""
        per_window = self._settings.window_s / max(one_s or 1.0, 1e-6)
        self.state.every = max(1, int(np.ceil(per_window / MAX_ROWS)))

    def _by_new_rows(self, columns: StepColumns) -> list[StepColumns]:
        """The records, cut so that each part brings at most as many new steps as complete one window."""
        newest = int(self.state.steps[-1]) if len(self.state.steps) else -1
        fresh = np.unique(columns.step[columns.step > newest])
        room = max(1, self._settings.window_steps + SLACK_ROWS - self.state.num_fresh)
        if len(fresh) <= room:
            return [columns]
        cuts = [int(fresh[place]) for place in range(room, len(fresh), self._settings.window_steps)]
        place = np.searchsorted(np.array(cuts), columns.step, side="right")
        return [columns.take(place == one) for one in range(len(cuts) + 1)]

    def fill(self, columns: StepColumns) -> None:
        """Take one part."""
        state = self.state
        if not len(columns):
            return
        newest = int(state.steps[-1]) if len(state.steps) else -1
        fresh, first = np.unique(columns.step, return_index=True)
        is_new = fresh > newest
        if is_new.any():
            added = int(is_new.sum())
            state.steps = np.concatenate([state.steps, fresh[is_new]])
            state.times_us = np.concatenate([state.times_us, columns.t_us[first[is_new]]])
            state.one_s = np.concatenate([state.one_s, columns.one_s[first[is_new]]])
            state.work_s = np.concatenate([state.work_s, np.full((added, len(state.ranks)), np.nan)])
            state.num_fresh += added
        row = np.searchsorted(state.steps, columns.step)
        row = np.minimum(row, len(state.steps) - 1)
        known = state.steps[row] == columns.step
        place = np.array([self.column[rank] for rank in columns.rank.tolist()], dtype=np.int64)
        state.work_s[row[known], place[known]] = columns.work_s[known]

    def window(self) -> slice:
        """The rows of the window that is complete now."""
        state, settings = self.state, self._settings
        end = len(state.steps) - SLACK_ROWS
        since_us = int(state.times_us[end - 1]) - round(settings.window_s * SECOND_US)
        begin = min(end - settings.window_steps, int(np.searchsorted(state.times_us, since_us, side="right")))
        return slice(max(0, begin), end)

    def drop_before(self, row: int) -> None:
        """Let go of the rows before this one."""
        for name in ("steps", "times_us", "one_s", "work_s"):
            setattr(self.state, name, getattr(self.state, name)[row:])
