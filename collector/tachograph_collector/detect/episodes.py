"""A rank that holds the others up for a few steps only (detection, "Straggler").

It is far above its group in most of a few steps in a row, while the others are not. Every row is looked at once.
"""

from __future__ import annotations

import numpy as np

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.columns import Array
from tachograph_collector.detect.course import Course
from tachograph_collector.detect.settings import Common, Straggler
from tachograph_collector.detect.verdict import Evidence, Verdict
from tachograph_collector.detect.work_rows import EPISODE, STRAGGLER, WorkRows


class Episodes:
    """Tells of brief ones, and keeps in the rows' state which go on. One that is named a straggler is none."""

    def __init__(self, settings: Straggler, common: Common, board: Board, course: Course) -> None:
        self._settings = settings
        self._common = common
        self._board = board
        self._course = course

    def look(self, rows: WorkRows, groups: list[Array], end: int) -> None:
        """Look at the rows up to ``end`` that haven't been looked at."""
        state, settings = rows.state, self._settings
        for row in range(int(np.searchsorted(state.steps, state.brief_done, side="right")), end):
            work = state.work_s[row]
            far = np.zeros(len(state.ranks), dtype=np.bool_)
            excess = np.zeros(len(state.ranks))
            for members in groups:
                mine = work[members]
                heard = ~np.isnan(mine)
                if heard.sum() < settings.least_group:
                    continue
                middle = float(np.median(mine[heard]))
                with np.errstate(invalid="ignore"):
                    over = mine >= settings.episode_ratio * middle
                if over.sum() <= max(1.0, self._common.group_share * heard.sum()):
                    far[members], excess[members] = over, np.where(over, mine - middle, 0.0)
            begins = far & ~state.brief.any(axis=0)
            state.brief_since_us[begins] = state.times_us[row]
            state.brief_cost_s[begins], state.brief_steps[begins] = 0.0, 0
            state.brief_cost_s += excess
            state.brief_steps += far
            state.brief = np.concatenate([state.brief, far[None, :]])[-settings.episode_n :]
            often = state.brief.sum(axis=0) >= settings.episode_k
            for place in np.nonzero(often & far)[0]:
                self._say(rows, int(state.times_us[row]), int(place))
            for one in self._board.open(EPISODE):
                if one.rank is not None and not state.brief[:, rows.column[one.rank]].any():
                    self._say(rows, one.updated_us, rows.column[one.rank], is_final=True)
                    self._board.clear(int(state.times_us[row]), EPISODE, one.subject)
            state.brief_done = int(state.steps[row])

    def _say(self, rows: WorkRows, at_us: int, place: int, *, is_final: bool = False) -> None:
        rank = rows.state.ranks[place]
        node = self._course.nodes.get(rank)
        if any(self._board.open(STRAGGLER, subject) for subject in (f"rank {rank}", f"node {node}")):
            return
        cost_s = float(rows.state.brief_cost_s[place]) * rows.state.every
        num = int(rows.state.brief_steps[place])
        where = "" if node is None else f" on {node}"
        self._board.say(
            at_us,
            Verdict(
                detector=EPISODE,
                subject=f"rank {rank}",
                severity="warning",
                since_us=int(rows.state.brief_since_us[place]),
                summary=f"rank {rank}{where} held the others up for {num} steps: {cost_s:.1f} s in all",
                evidence=Evidence(
                    value=float(num),
                    threshold=float(self._settings.episode_k),
                    num_samples=len(rows.state.brief),
                    unit="steps",
                    more={"cost_s": cost_s, "cost_gpu_hours": self._course.gpu_hours(cost_s)},
                ),
                advice=f"nothing, if it stays at this; see what else ran{where or ' there'} then if it comes again",
                node=node,
                rank=rank,
                cost=self._course.cost(cost_s, "time that the others waited for it"),
            ),
            is_final=is_final,
        )
