"""A rank that holds the others up (detection, "Straggler").

Step time alone can never name a rank: the collective makes all wait for the slowest. What is compared is a rank's own
work (columns.py), with the ranks of its pipeline stage, as medians over windows. All is done on whole matrices, steps
by ranks, so that it costs little per rank.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.columns import Array, Flags, Floats, StepColumns
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.culprits import Culprits, Judged
from tachograph_collector.detect.episodes import Episodes
from tachograph_collector.detect.long_windows import LongWindows, group_over
from tachograph_collector.detect.own_past import compared, learnt, named
from tachograph_collector.detect.settings import Common, Straggler
from tachograph_collector.detect.work_rows import EPISODE, GROUP, SLACK_ROWS, STRAGGLER, StragglerState, WorkRows

NO_STAGE: Final = -1
MAD_TO_DEVIATION: Final = 1.4826


def medians(rows: Floats) -> Floats:
    """The median down each column, NaN left out; NaN for a column with fewer than half its rows."""
    ordered = np.sort(rows, axis=0)  # NaN last
    num = np.count_nonzero(~np.isnan(ordered), axis=0)
    low, high = np.maximum(num - 1, 0) // 2, num // 2
    columns = np.arange(rows.shape[1])
    middle = (ordered[low, columns] + ordered[np.minimum(high, len(rows) - 1), columns]) / 2
    middle[num * 2 < len(rows)] = np.nan
    return np.asarray(middle, dtype=np.float64)


class StragglerDetector:
    """Takes the records of all ranks of the running attempt, in order of time."""

    def __init__(
        self, settings: Straggler, common: Common, board: Board, course: Course, state: StragglerState
    ) -> None:
        self._settings = settings
        self._common = common
        self._board = board
        self._course = course
        self._rows = WorkRows(state, settings)
        self._episodes = Episodes(settings, common, board, course)
        self._culprits = Culprits(settings, common, board, course)

    @property
    def state(self) -> StragglerState:
        """What is to be saved."""
        return self._rows.state

    def reset(self, at_us: int) -> None:
        """A new attempt: all baselines start afresh."""
        for name in (STRAGGLER, EPISODE, GROUP):
            self._board.clear_all(at_us, name, "attempt ended")
        self._rows = WorkRows(StragglerState(), self._settings)

    # -- taking rows -------------------------------------------------------------------------------------------------

    def rows(self, columns: StepColumns) -> None:
        """Take records; windows that they complete are judged."""
        if self._course.eligible_step is None:
            self._board.sight(STRAGGLER, "eligible", "warm-up")
            return
        which = (columns.step >= self._course.eligible_step) & ~np.isnan(columns.work_s) & (columns.rank >= 0)
        if not which.any():
            if not len(self.state.ranks):
                self._board.sight(STRAGGLER, "blind", "no rank tells its own work (busy_s or sections)")
            return
        self._rows.know_ranks(columns)
        for part in self._rows.parts(columns.take(which), self._course.eligible_one_s):
            self._rows.fill(part)
            if self._rows.is_due:
                self._judge()

    # -- judging -----------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        state, settings = self.state, self._settings
        window = self._rows.window()
        at_us = int(state.times_us[-1])
        groups = self._groups()
        self._episodes.look(self._rows, groups, window.stop)
        long_enough = (
            int(state.times_us[window.stop - 1]) - int(state.times_us[0]) >= 0.9 * settings.window_s * SECOND_US
        )
        state.num_fresh = SLACK_ROWS
        if not long_enough:
            return
        rows = state.work_s[window]
        step_s = float(np.nanmedian(state.one_s[window])) if not np.isnan(state.one_s[window]).all() else np.nan
        flagged = np.zeros(len(state.ranks), dtype=np.bool_)
        calm, is_long = np.zeros_like(flagged), np.zeros_like(flagged)
        value = medians(rows)
        ratio, excess = np.full(len(value), np.nan), np.full(len(value), np.nan)
        num_judged, is_group = 0, False
        long = LongWindows(state.long, settings)
        long.add(value, groups, int(state.times_us[window.start]), int(state.times_us[window.stop - 1]))
        alone = np.zeros(len(state.ranks), dtype=np.bool_)
        for members in groups:
            mine = value[members]
            heard = ~np.isnan(mine)
            if heard.sum() < settings.least_group:
                alone[members] = len(state.ranks) > 1  # of a lone rank it is said that the job is slow
                continue
            num_judged += 1
            middle = float(np.median(mine[heard]))
            if middle <= 0:
                continue
            spread = MAD_TO_DEVIATION * float(np.median(np.abs(mine[heard] - middle)))
            limit = max(settings.ratio * middle, middle + settings.deviations * max(spread, settings.floor * middle))
            least_s = 0.0 if np.isnan(step_s) else settings.least_impact * step_s
            with np.errstate(invalid="ignore"):
                over = (mine >= limit) & (mine - middle >= least_s)
                calm[members] = mine < settings.clear_ratio * middle
            # A slow group is in the middle and in the deviation that a rank is judged by: it has its own.
            short = max((over, group_over(mine, least_s, settings)), key=np.count_nonzero)
            settled = ~calm[members] & long.group_over(members, least_s / middle)
            together = max((short, settled), key=np.count_nonzero)
            if together.sum() > self._common.group_share * heard.sum():
                since_us = int(state.times_us[0]) if together is short else long.since_us(members[together])
                impact = (float(np.nanmax(mine[together])) - middle) / step_s
                self._culprits.say_group(
                    self._rows, at_us, since_us, members[together], int(heard.sum()), middle, impact
                )
                is_group = True
                continue
            settled = ~calm[members] & long.over(members, least_s / middle)
            mine = np.where(settled & ~over, (1 + long.settled[members]) * middle, mine)
            ratio[members], excess[members] = mine / middle, mine - middle
            flagged[members], is_long[members] = over | settled, settled & ~over
        if alone.any():
            least_s = 0.0 if np.isnan(step_s) else settings.least_impact * step_s
            own = compared(state.past, np.where(alone, value, np.nan), least_s, settings)
            state.past = learnt(state.past, np.where(alone, value, np.nan), own)
            flagged |= named(own, self._common.group_share)
            calm |= own.calm
            ratio = np.where(alone, value / own.baseline, ratio)
            excess = np.where(alone, value - own.baseline, excess)
        if num_judged:
            self._board.evaluated(STRAGGLER, num_judged)
            self._board.evaluated(EPISODE, num_judged)
        elif alone.any() and len(state.past) > settings.alone_windows:
            self._board.evaluated(STRAGGLER)
        elif alone.any():
            self._board.sight(STRAGGLER, "eligible", "groups are small, and their ranks have too short a past")
        else:
            self._board.sight(STRAGGLER, "blind", f"no group has {settings.least_group} ranks that tell their own work")
        self._note_begin(window, flagged & ~is_long, excess, value)
        for place in np.nonzero(is_long & ~state.flags.any(axis=0))[0]:
            state.since_us[place] = long.since_us(np.array([place]))
        state.flags = np.concatenate([state.flags, flagged[None, :]])[-settings.raise_n :]
        state.calm = np.where(calm, state.calm + 1, 0)
        judged = Judged(at_us, window, value, ratio, excess, step_s, alone)
        self._culprits.name(self._rows, judged)
        self._culprits.look_whether_it_moves(self._rows, judged, flagged)
        state.num_calm_groups = 0 if is_group else state.num_calm_groups + 1
        if state.num_calm_groups >= settings.clear_windows:
            self._board.clear(at_us, GROUP, "run")
        self._rows.drop_before(window.start)

    def _groups(self) -> list[Array]:
        """The ranks of each pipeline stage, as columns."""
        stages = self._course.stages
        of_rank = np.array([_stage(stages.get(rank)) for rank in self.state.ranks])
        return [np.nonzero(of_rank == stage)[0] for stage in np.unique(of_rank)]

    def _note_begin(self, window: slice, flagged: Flags, excess: Floats, value: Floats) -> None:
        """Of ranks that were not flagged of late: where in this window they first were more slow than not."""
        state = self.state
        for place in np.nonzero(flagged & ~state.flags.any(axis=0))[0]:
            with np.errstate(invalid="ignore"):
                slow = state.work_s[window, place] >= value[place] - excess[place] / 2
            state.since_us[place] = state.times_us[window][int(np.argmax(slow))]


def _stage(stage: int | None) -> int:
    return NO_STAGE if stage is None else stage
