"""Which rank, node or group of ranks is named a straggler, what it costs, and when it is one no more.

A rank that was flagged in most of the last windows is named; of several on one node the node is. One that changes from
window to window is named as rotating, and no rank.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.columns import Array, Flags, Floats
from tachograph_collector.detect.course import Course
from tachograph_collector.detect.settings import Common, Straggler
from tachograph_collector.detect.verdict import Evidence, Severity, Verdict
from tachograph_collector.detect.work_rows import EPISODE, GROUP, STRAGGLER, WorkRows


class Judged(NamedTuple):
    """What a window says of each rank, by its place in the matrices."""

    at_us: int
    window: slice
    """Its rows."""
    value: Floats
    """The rank's work (s), as the window's median."""
    ratio: Floats
    """It over what it is compared with, NaN where there is nothing."""
    excess: Floats
    """It less what it is compared with (s)."""
    step_s: float
    """The usual time of a step in it; NaN where it is unknown."""
    alone: Flags
    """Whether the rank has too few others to compare with, so that it is held against its own past."""


class Culprits:
    """Says what it finds on the board."""

    def __init__(self, settings: Straggler, common: Common, board: Board, course: Course) -> None:
        self._settings = settings
        self._common = common
        self._board = board
        self._course = course

    def name(self, rows: WorkRows, judged: Judged) -> None:
        """Name ranks that were flagged in most of the last windows, or their node; clear those that are calm again."""
        state, settings, at_us = rows.state, self._settings, judged.at_us
        raised = state.flags.sum(axis=0) >= settings.raise_k
        raised &= state.flags[-1]
        ranks = {int(place): state.ranks[int(place)] for place in np.nonzero(raised)[0]}
        by_node = Counter(node for rank in ranks.values() if (node := self._course.nodes.get(rank)) is not None)
        for node, number in by_node.items():
            if number >= 2:
                mine = [place for place, rank in ranks.items() if self._course.nodes.get(rank) == node]
                for place in mine:
                    self._board.clear(at_us, STRAGGLER, f"rank {ranks.pop(place)}", f"named as node {node}")
                self._say(rows, judged, f"node {node}", mine, node)
        for place, rank in ranks.items():
            node_of = self._course.nodes.get(rank)
            if node_of is not None and self._board.open(STRAGGLER, f"node {node_of}"):
                continue
            self._say(rows, judged, f"rank {rank}", [place], node_of)
        for one in self._board.open(EPISODE):
            subjects = (one.subject, f"node {one.node}")
            named = next((each for each in subjects if self._board.open(STRAGGLER, each)), None)
            if named is not None:  # it was no brief one: one thing is said once
                self._board.clear(at_us, EPISODE, one.subject, f"it lasts: named as straggler, {named}")
        for one in self._board.open(STRAGGLER):
            places = (
                [rows.column[one.rank]]
                if one.rank is not None
                else [place for place, rank in enumerate(state.ranks) if self._course.nodes.get(rank) == one.node]
            )
            if one.subject != "run" and all(state.calm[place] >= settings.clear_windows for place in places):
                self._board.clear(at_us, STRAGGLER, one.subject)

    def _say(self, rows: WorkRows, judged: Judged, subject: str, places: list[int], node: str | None) -> None:
        state, at_us, ratio, step_s = rows.state, judged.at_us, judged.ratio, judged.step_s
        settings, course = self._settings, self._course
        worst = max(places, key=lambda place: ratio[place])
        rank = state.ranks[worst]
        impact = None if np.isnan(step_s) or step_s <= 0 else float(judged.excess[worst]) / step_s
        critical = ratio[worst] >= settings.critical_ratio or (impact or 0.0) >= settings.critical_impact
        baseline = float(judged.value[worst] - judged.excess[worst])
        is_alone = bool(judged.alone[worst])
        severity: Severity = "critical" if critical and not is_alone else "warning"
        open_now = self._board.open(STRAGGLER, subject)
        since_us = open_now[0].opened_us if open_now else int(state.since_us[places].min())
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
                detector=STRAGGLER,
                subject=subject,
                severity=severity,
                since_us=since_us,
                summary=summary,
                evidence=Evidence(
                    value=float(judged.value[worst]),
                    baseline=baseline,
                    threshold=(settings.alone_ratio if is_alone else settings.ratio) * baseline,
                    num_samples=int(np.count_nonzero(~np.isnan(state.work_s[judged.window, worst]))),
                    unit="s",
                    more={
                        "ranks": [state.ranks[place] for place in places],
                        **({} if stage is None else {"stage": stage}),
                        "compared_with": "its own past" if is_alone else "its group",
                        "impact_of_step": impact,
                        "cost_gpu_hours": gpu_hours,
                        "num_windows_flagged": int(state.flags[:, worst].sum()),
                    },
                ),
                advice=_drain(f"the node of rank {rank}" if node is None else node, per_day),
                node=node,
                rank=rank if subject.startswith("rank") else None,
                cost=course.cost(lost_s, "steps that are slower for it, times the whole job"),
            ),
        )

    def say_group(
        self, rows: WorkRows, at_us: int, since_us: int, places: Array, num_heard: int, middle: float, impact: float
    ) -> None:
        """Tell of ranks that are slow together: ``places`` of ``num_heard`` whose median work is ``middle`` seconds."""
        open_now = self._board.open(GROUP, "run")
        since_us = open_now[0].opened_us if open_now else since_us
        ranks = [rows.state.ranks[int(place)] for place in places]
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
                advice="look for what they share, such as a pipeline stage, a kind of GPU, a rack or their data",
                cost=self._course.cost(
                    impact * (at_us - since_us) / 1e6, "steps that are slower for the slowest of them, times the job"
                ),
            ),
        )

    def look_whether_it_moves(self, rows: WorkRows, judged: Judged, flagged: Flags) -> None:
        """A culprit that moves about is named as rotating, not as a rank."""
        state, settings, at_us = rows.state, self._settings, judged.at_us
        if not flagged.any():
            state.worst.append(-1)
        else:
            state.worst.append(state.ranks[int(np.nanargmax(np.where(flagged, judged.ratio, -np.inf)))])
        window = settings.raise_n * 2
        del state.worst[:-window]
        culprits = {rank for rank in state.worst if rank >= 0}
        open_now = self._board.open(STRAGGLER)
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
                    detector=STRAGGLER,
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
                    advice="let all ranks collect garbage at the same steps, and see whether data comes in time",
                ),
            )
        elif not culprits:
            self._board.clear(at_us, STRAGGLER, "run")


def _drain(node: str, gpu_hours_a_day: float | None) -> str:
    cost = "" if gpu_hours_a_day is None else f"; to keep it costs {gpu_hours_a_day:.1f} GPU-hours a day"
    return f"drain {node} at the next restart{cost}"
