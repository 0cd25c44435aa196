"""Windows of ranks' work put together, for noise that wanders (detection, "Straggler").

Where work is autocorrelated from step to step, as an uneven load is, the median of twenty steps is as noisy as one
step, and a rank 12 % slower is lost in it. Over eight windows that noise averages out. Each window is kept as what a
rank's work was above its group's median, so that what changes for all changes nothing here; of a rank's windows the
highest and the lowest don't count, so that one bad window makes no slow rank.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field

from tachograph_collector.detect.columns import Array, Flags, Floats
from tachograph_collector.detect.settings import Straggler

MAD_TO_DEVIATION: Final = 1.4826


class LongState(Struct):
    """What is saved."""

    excess: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """The last windows by ranks: work over the group's median, less 1. NaN where it isn't known."""
    begin_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    end_us: int = 0
    """Of the last of them: windows that overlap are not put together."""


def group_over(work: Floats, least: float, settings: Straggler) -> Flags:
    """Who is slow if many are, ``least`` above the median at least.

    Deviations are those of the lower half: of many slow ranks none is in it, where a MAD of all is theirs as much.
    """
    heard = ~np.isnan(work)
    if not heard.any():
        return np.zeros(len(work), dtype=np.bool_)
    middle = float(np.median(work[heard]))
    with np.errstate(invalid="ignore"):
        lower = middle - work[work <= middle]
        spread = max(MAD_TO_DEVIATION * float(np.median(lower)), settings.floor * middle)
        limit = max(settings.ratio * middle, middle + settings.deviations * spread)
        return np.asarray((work >= limit) & (work - middle >= least), dtype=np.bool_)


class LongWindows:
    """Looks at the windows of ``state``, which it adds to."""

    def __init__(self, state: LongState, settings: Straggler) -> None:
        self._state = state
        self._settings = settings
        self.settled: Floats = np.full(state.excess.shape[-1], np.nan)
        """What each rank's work is above its group's, less 1, over all windows; NaN before there are enough."""

    def add(self, value: Floats, groups: list[Array], begin_us: int, end_us: int) -> None:
        """Take a window's medians, a rank each, unless the window overlaps the last that was taken."""
        state, settings = self._state, self._settings
        if begin_us > state.end_us:
            excess = np.full(len(value), np.nan)
            for members in groups:
                mine = value[members]
                heard = mine[~np.isnan(mine)]
                if len(heard) >= settings.least_group and np.median(heard) > 0:
                    excess[members] = mine / np.median(heard) - 1
            state.excess = np.concatenate([state.excess, excess[None, :]])[-settings.long_windows :]
            state.begin_us = np.append(state.begin_us, begin_us)[-settings.long_windows :]
            state.end_us = end_us
        if len(state.excess) >= settings.long_windows:
            self.settled = np.sort(state.excess, axis=0)[1:-1].mean(axis=0)  # NaN is last, and gone if it is one

    def over(self, members: Array, least: float) -> Flags:
        """Which of a group's ranks are slow over all windows, ``least`` (a part of the median) at least."""
        mine = 1 + self.settled[members]
        heard = mine[~np.isnan(mine)]
        if len(heard) < self._settings.least_group:
            return np.zeros(len(members), dtype=np.bool_)
        middle = float(np.median(heard))
        spread = MAD_TO_DEVIATION * float(np.median(np.abs(heard - middle)))
        room = self._settings.long_deviations * max(spread, self._settings.floor * middle)
        with np.errstate(invalid="ignore"):
            over = (mine >= max(self._settings.ratio * middle, middle + room)) & (mine - middle >= least)
        return np.asarray(over, dtype=np.bool_)

    def group_over(self, members: Array, least: float) -> Flags:
        """Which of a group's ranks are slow together over all windows."""
        return group_over(1 + self.settled[members], least, self._settings)

    def since_us(self, places: Array) -> int:
        """Where the stretch began in which these ranks were slow: the window from which on they were so most."""
        told = self._state.excess[:, places].mean(axis=1)
        above = np.nan_to_num(told - float(np.mean(self.settled[places])) / 2)
        from_here = np.cumsum(above[::-1])[::-1]
        return int(self._state.begin_us[int(np.argmax(from_here))])
