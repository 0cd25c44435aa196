"""A rank that holds the others up (detection, "Straggler").

Step time alone can never name a rank: the collective makes all wait for the slowest. What is compared is a rank's own
work (columns.py), with the ranks of its pipeline stage, as medians over windows. All is done on whole matrices, steps
by ranks, so that it costs little per rank.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from msgspec import Struct, field

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.columns import Array, Flags, Floats, StepColumns
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.long_windows import LongState, LongWindows, group_over
from tachograph_collector.detect.own_past import compared, learnt, named
from tachograph_collector.detect.settings import Common, Straggler
from tachograph_collector.detect.verdict import Evidence, Severity, Verdict

NAME: Final = "straggler"
EPISODE: Final = "straggler_episode"
GROUP: Final = "straggler_group"
MAX_ROWS: Final = 240
"""Of a window; where steps are so short that more would fit, only each n-th step is looked at."""
MAX_RANKS: Final = 131_072
"""Compared of one attempt; of more the rest is left out."""
SLACK_ROWS: Final = 2
"""A window is judged when so many later steps have been heard of, since ranks end a step one after the other."""
NO_STAGE: Final = -1
MAD_TO_DEVIATION: Final = 1.4826


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
        self.state = state
        self._column = {rank: place for place, rank in enumerate(state.ranks)}
        self._alone = np.zeros(len(state.ranks), dtype=np.bool_)
        """Of the window that is judged: which ranks have too few others to compare with."""

    def reset(self, at_us: int) -> None:
        """A new attempt: all baselines start afresh."""
        for name in (NAME, EPISODE, GROUP):
            self._board.clear_all(at_us, name, "attempt ended")
        self.state = StragglerState()
        self._column = {}

    # -- taking rows -------------------------------------------------------------------------------------------------

    def rows(self, columns: StepColumns) -> None:
        """Take records; windows that they complete are judged."""
        if self._course.eligible_step is None:
            self._board.sight(NAME, "eligible", "warm-up")
            return
        which = (columns.step >= self._course.eligible_step) & ~np.isnan(columns.work_s) & (columns.rank >= 0)
        if not which.any():
            if not len(self.state.ranks):
                self._board.sight(NAME, "blind", "no rank tells its own work (busy_s or sections)")
            return
        self._know_ranks(columns)
        which &= np.isin(columns.rank, self.state.ranks) if len(self.state.ranks) >= MAX_RANKS else True
        columns = columns.take(which)
        if self.state.every == 0:
            self._choose_rows()
        if self.state.every > 1:
            columns = columns.take(columns.step // columns.count.astype(np.int64) % self.state.every == 0)
        for part in self._by_new_rows(columns):
            self._fill(part)
            if self.state.num_fresh >= self._settings.window_steps + SLACK_ROWS:
                self._judge()

    def _know_ranks(self, columns: StepColumns) -> None:
        fresh = [int(rank) for rank in np.unique(columns.rank) if rank >= 0 and int(rank) not in self._column]
        fresh = fresh[: MAX_RANKS - len(self.state.ranks)]
        if not fresh:
            return
        state, num = self.state, len(fresh)
        for rank in fresh:
            self._column[rank] = len(state.ranks)
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

    def _choose_rows(self) -> None:
        """Where steps are so short that a window would hold too many, look at each n-th only."""
        per_window = self._settings.window_s / max(self._course.eligible_one_s or 1.0, 1e-6)
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

    def _fill(self, columns: StepColumns) -> None:
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
        place = np.array([self._column[rank] for rank in columns.rank.tolist()], dtype=np.int64)
        state.work_s[row[known], place[known]] = columns.work_s[known]

    # -- judging -----------------------------------------------------------------------------------------------------

    def _window(self) -> slice:
        """The rows of the window that is complete now."""
        state, settings = self.state, self._settings
        end = len(state.steps) - SLACK_ROWS
        since_us = int(state.times_us[end - 1]) - round(settings.window_s * SECOND_US)
        begin = min(end - settings.window_steps, int(np.searchsorted(state.times_us, since_us, side="right")))
        return slice(max(0, begin), end)

    def _judge(self) -> None:
        state, settings = self.state, self._settings
        window = self._window()
        at_us = int(state.times_us[-1])
        groups = self._groups()
        self._episodes(groups, window.stop)
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
        self._alone = np.zeros(len(state.ranks), dtype=np.bool_)
        for members in groups:
            mine = value[members]
            heard = ~np.isnan(mine)
            if heard.sum() < settings.least_group:
                self._alone[members] = len(state.ranks) > 1  # of a lone rank it is said that the job is slow
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
                self._say_group(at_us, since_us, members[together], int(heard.sum()), middle, impact)
                is_group = True
                continue
            settled = ~calm[members] & long.over(members, least_s / middle)
            mine = np.where(settled & ~over, (1 + long.settled[members]) * middle, mine)
            ratio[members], excess[members] = mine / middle, mine - middle
            flagged[members], is_long[members] = over | settled, settled & ~over
        if self._alone.any():
            least_s = 0.0 if np.isnan(step_s) else settings.least_impact * step_s
            own = compared(state.past, np.where(self._alone, value, np.nan), least_s, settings)
            state.past = learnt(state.past, np.where(self._alone, value, np.nan), own)
            flagged |= named(own, self._common.group_share)
            calm |= own.calm
            ratio = np.where(self._alone, value / own.baseline, ratio)
            excess = np.where(self._alone, value - own.baseline, excess)
        if num_judged:
            self._board.evaluated(NAME, num_judged)
            self._board.evaluated(EPISODE, num_judged)
        elif self._alone.any() and len(state.past) > settings.alone_windows:
            self._board.evaluated(NAME)
        elif self._alone.any():
            self._board.sight(NAME, "eligible", "groups are small, and their ranks have too short a past")
        else:
            self._board.sight(NAME, "blind", f"no group has {settings.least_group} ranks that tell their own work")
        self._note_begin(window, flagged & ~is_long, excess, value)
        for place in np.nonzero(is_long & ~state.flags.any(axis=0))[0]:
            state.since_us[place] = long.since_us(np.array([place]))
        state.flags = np.concatenate([state.flags, flagged[None, :]])[-settings.raise_n :]
        state.calm = np.where(calm, state.calm + 1, 0)
        self._raise(at_us, window, value, ratio, excess, step_s)
        self._rotating(at_us, flagged, ratio)
        state.num_calm_groups = 0 if is_group else state.num_calm_groups + 1
        if state.num_calm_groups >= settings.clear_windows:
            self._board.clear(at_us, GROUP, "run")
        for name in ("steps", "times_us", "one_s", "work_s"):
            setattr(state, name, getattr(state, name)[window.start :])

    def _groups(self) -> list[Array]:
        """The ranks of each pipeline stage, as columns."""
        stages = self._course.stages
        of_rank = np.array([_stage(stages.get(rank)) for rank in self.state.ranks])
        return [np.nonzero(of_rank == stage)[0] for stage in np.unique(of_rank)]

    def _raise(self, at_us: int, window: slice, value: Floats, ratio: Floats, excess: Floats, step_s: float) -> None:
        state, settings = self.state, self._settings
        raised = state.flags.sum(axis=0) >= settings.raise_k
        raised &= state.flags[-1]
        ranks = {int(place): state.ranks[int(place)] for place in np.nonzero(raised)[0]}
        by_node = Counter(node for rank in ranks.values() if (node := self._course.nodes.get(rank)) is not None)
        for node, number in by_node.items():
            if number >= 2:
                mine = [place for place, rank in ranks.items() if self._course.nodes.get(rank) == node]
                for place in mine:
                    self._board.clear(at_us, NAME, f"rank {ranks.pop(place)}", f"named as node {node}")
                self._say(at_us, window, f"node {node}", mine, value, ratio, excess, step_s, node)
        for place, rank in ranks.items():
            node_of = self._course.nodes.get(rank)
            if node_of is not None and self._board.open(NAME, f"node {node_of}"):
                continue
            self._say(at_us, window, f"rank {rank}", [place], value, ratio, excess, step_s, node_of)
        for one in self._board.open(EPISODE):
            subjects = (one.subject, f"node {one.node}")
            named = next((each for each in subjects if self._board.open(NAME, each)), None)
            if named is not None:  # it was no brief one: one thing is said once
                self._board.clear(at_us, EPISODE, one.subject, f"it lasts: named as straggler, {named}")
        for one in self._board.open(NAME):
            places = (
                [self._column[one.rank]]
                if one.rank is not None
                else [place for place, rank in enumerate(state.ranks) if self._course.nodes.get(rank) == one.node]
            )
            if one.subject != "run" and all(state.calm[place] >= settings.clear_windows for place in places):
                self._board.clear(at_us, NAME, one.subject)

    def _say(
        self,
        at_us: int,
        window: slice,
        subject: str,
        places: list[int],
        value: Floats,
        ratio: Floats,
        excess: Floats,
        step_s: float,
        node: str | None,
    ) -> None:
        settings, course = self._settings, self._course
        worst = max(places, key=lambda place: ratio[place])
        rank = self.state.ranks[worst]
        impact = None if np.isnan(step_s) or step_s <= 0 else float(excess[worst]) / step_s
        critical = ratio[worst] >= settings.critical_ratio or (impact or 0.0) >= settings.critical_impact
        is_alone = bool(self._alone[worst])
        severity: Severity = "critical" if critical and not is_alone else "warning"
        open_now = self._board.open(NAME, subject)
        since_us = open_now[0].opened_us if open_now else int(self.state.since_us[places].min())
        lost_s = None if impact is None else impact * (at_us - since_us) / 1e6
        gpu_hours = None if lost_s is None else course.gpu_hours(lost_s)
        per_day = None if impact is None else course.gpu_hours(impact * 86_400)
        stage = course.stages.get(rank)
        who = f"rank {rank}" if subject.startswith("rank") else f"{subject} ({len(places)} of its ranks)"
        where = f" on {node}" if node is not None and subject.startswith("rank") else ""
        summary = f"{who}{where} works {(float(ratio[worst]) - 1) * 100:.0f} % longer than "
        summary += "before (no group to compare with)" if is_alone else "its group"
        if impact is not None:
            summary += f" and costs {impact * 100:.0f} % of every step"
        self._board.say(
            at_us,
            Verdict(
                detector=NAME,
                subject=subject,
                severity=severity,
                since_us=since_us,
                summary=summary,
                evidence=Evidence(
                    value=float(value[worst]),
                    baseline=float(value[worst] - excess[worst]),
                    threshold=(settings.alone_ratio if is_alone else settings.ratio)
                    * float(value[worst] - excess[worst]),
                    num_samples=int(np.count_nonzero(~np.isnan(self.state.work_s[window, worst]))),
                    unit="s",
                    more={
                        "ranks": [self.state.ranks[place] for place in places],
                        **({} if stage is None else {"stage": stage}),
                        "compared_with": "its own past" if is_alone else "its group",
                        "impact_of_step": impact,
                        "cost_gpu_hours": gpu_hours,
                        "num_windows_flagged": int(self.state.flags[:, worst].sum()),
                    },
                ),
                advice=None if node is None else _drain(node, per_day),
                node=node,
                rank=rank if subject.startswith("rank") else None,
                cost=course.cost(lost_s, "steps that are slower for it, times the whole job"),
            ),
        )

    def _note_begin(self, window: slice, flagged: Flags, excess: Floats, value: Floats) -> None:
        """Of ranks that were not flagged of late: where in this window they first were more slow than not."""
        state = self.state
        for place in np.nonzero(flagged & ~state.flags.any(axis=0))[0]:
            with np.errstate(invalid="ignore"):
                slow = state.work_s[window, place] >= value[place] - excess[place] / 2
            state.since_us[place] = state.times_us[window][int(np.argmax(slow))]

    def _say_group(
        self, at_us: int, since_us: int, places: Array, num_heard: int, middle: float, impact: float
    ) -> None:
        open_now = self._board.open(GROUP, "run")
        since_us = open_now[0].opened_us if open_now else since_us
        ranks = [self.state.ranks[int(place)] for place in places]
        self._board.say(
            at_us,
            Verdict(
                detector=GROUP,
                subject="run",
                severity="warning",
                since_us=since_us,
                summary=f"{len(ranks)} of {num_heard} ranks work much longer than the others: no one rank is to blame",
                evidence=Evidence(
                    value=float(len(ranks)),
                    baseline=float(num_heard),
                    threshold=self._common.group_share * num_heard,
                    num_samples=num_heard,
                    unit="ranks",
                    more={
                        "ranks": ranks[:64],
                        "median_work_s": middle,
                        "impact_of_step": None if np.isnan(impact) else impact,
                    },
                ),
                cost=self._course.cost(
                    impact * (at_us - since_us) / 1e6, "steps that are slower for the slowest of them, times the job"
                ),
            ),
        )

    def _rotating(self, at_us: int, flagged: Flags, ratio: Floats) -> None:
        """A culprit that moves about is named as rotating, not as a rank."""
        state, settings = self.state, self._settings
        if not flagged.any():
            state.worst.append(-1)
        else:
            state.worst.append(state.ranks[int(np.nanargmax(np.where(flagged, ratio, -np.inf)))])
        window = settings.raise_n * 2
        del state.worst[:-window]
        culprits = {rank for rank in state.worst if rank >= 0}
        open_now = self._board.open(NAME)
        ranks = {one.rank for one in open_now if one.rank is not None}
        nodes = {one.node for one in open_now if one.rank is None and one.node is not None}
        named = ranks | {rank for rank in culprits if self._course.nodes.get(rank) in nodes}
        hosts = Counter(self._course.nodes.get(rank) for rank in culprits)
        # All but one at most: it is the node, and will be named.
        is_one_node = any(host is not None and number >= len(culprits) - 1 for host, number in hosts.items())
        if len(culprits - named) >= settings.rotating_ranks and not is_one_node:
            self._board.say(
                at_us,
                Verdict(
                    detector=NAME,
                    subject="run",
                    severity="warning",
                    since_us=int(state.times_us[0]),
                    summary=f"a slow rank that changes: {len(culprits)} different ones in {len(state.worst)} windows "
                    "(garbage collection or data, rather than a node)",
                    evidence=Evidence(
                        value=float(len(culprits)),
                        threshold=float(settings.rotating_ranks),
                        num_samples=len(state.worst),
                        unit="ranks",
                        more={"ranks": sorted(culprits)},
                    ),
                ),
            )
        elif not culprits:
            self._board.clear(at_us, NAME, "run")

    # -- episodes ----------------------------------------------------------------------------------------------------

    def _episodes(self, groups: list[Array], end: int) -> None:
        """Brief ones: far above the group in most of a few steps in a row, while the others are not."""
        state, settings = self.state, self._settings
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
                self._say_episode(int(state.times_us[row]), int(place))
            for one in self._board.open(EPISODE):
                if one.rank is not None and not state.brief[:, self._column[one.rank]].any():
                    self._say_episode(one.updated_us, self._column[one.rank], is_final=True)
                    self._board.clear(int(state.times_us[row]), EPISODE, one.subject)
            state.brief_done = int(state.steps[row])

    def _say_episode(self, at_us: int, place: int, *, is_final: bool = False) -> None:
        rank = self.state.ranks[place]
        node = self._course.nodes.get(rank)
        if any(self._board.open(NAME, subject) for subject in (f"rank {rank}", f"node {node}")):
            return
        cost_s = float(self.state.brief_cost_s[place]) * self.state.every
        num = int(self.state.brief_steps[place])
        self._board.say(
            at_us,
            Verdict(
                detector=EPISODE,
                subject=f"rank {rank}",
                severity="warning",
                since_us=int(self.state.brief_since_us[place]),
                summary=f"rank {rank} held the others up for {num} steps: {cost_s:.1f} s in all",
                evidence=Evidence(
                    value=float(num),
                    threshold=float(self._settings.episode_k),
                    num_samples=len(self.state.brief),
                    unit="steps",
                    more={"cost_s": cost_s, "cost_gpu_hours": self._course.gpu_hours(cost_s)},
                ),
                node=node,
                rank=rank,
                cost=self._course.cost(cost_s, "time that the others waited for it"),
            ),
            is_final=is_final,
        )


def _stage(stage: int | None) -> int:
    return NO_STAGE if stage is None else stage


def _drain(node: str, gpu_hours_a_day: float | None) -> str:
    cost = "" if gpu_hours_a_day is None else f"; to keep it costs {gpu_hours_a_day:.1f} GPU-hours a day"
    return f"drain {node} at the next restart{cost}"
