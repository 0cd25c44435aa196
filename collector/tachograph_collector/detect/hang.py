"""Nobody makes a step (detection, "Hang").

How long is too long depends on what the run is doing: training, the first step of an attempt, a load, a save, an
evaluation. When that moment comes is computed, not looked for, so that a recording that is read at once says what was
said live.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    AttemptStart,
    CheckpointFailed,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    Phase,
    PhaseStart,
    Rollback,
    RunEnd,
    microseconds,
)

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.columns import Array, StepColumns
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.settings import Common, Hang
from tachograph_collector.detect.verdict import Cost, Evidence, Verdict
from tachograph_collector.model.words import span

NAME: Final = "hang"
WITHDRAWN: Final = "withdrawn: steps had gone on, their records were missing"
UNKNOWN_PACE: Final = "withdrawn: the next record was several steps on, and nobody had told how long one takes"
UNANNOUNCED_TIMES: Final = 2.0
"""Where evaluations are told of at their end only, any silence may be one, of up to so many times the longest."""
LEEWAY_US: Final = 5 * SECOND_US
_LOADING: Final = frozenset({"reload", "warmup", "compile"})


class HangState(Struct):
    """What is saved."""

    doing: str = "nothing"
    """``nothing`` (not armed), ``start`` (processes are up), ``load``, ``train``, ``save`` or ``eval``."""
    since_us: int = 0
    """The last sign of it."""
    intervals_s: list[float] = field(default_factory=list)
    strides: list[float] = field(default_factory=list)
    """Of the last records: how many steps on from the one before, for each step that it tells the time of."""
    saves_s: list[float] = field(default_factory=list)
    evals_s: list[float] = field(default_factory=list)
    unannounced_s: list[float] = field(default_factory=list)
    """Evaluations that were told of at their end only: until then they look like a hang."""
    save_start_us: int | None = None
    eval_start_us: int | None = None
    ranks: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    steps: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The last step of each of ``ranks``."""
    is_said: bool = False
    said_us: int = 0
    """When it was; it is renewed so many times ``common.update_s`` later."""
    said_limit_s: float = 0.0


class HangDetector:
    """Takes what happens in order of time; ``advance`` says how far time has come without anything."""

    def __init__(self, settings: Hang, common: Common, board: Board, course: Course, state: HangState) -> None:
        self._settings = settings
        self._common = common
        self._board = board
        self._course = course
        self.state = state

    def reset(self, at_us: int) -> None:
        """A new attempt: what was usual before says nothing now."""
        self._alive(at_us, "attempt ended")
        before = self.state
        self.state = HangState(
            doing="start",
            since_us=at_us,
            saves_s=before.saves_s,
            evals_s=before.evals_s,
            unannounced_s=before.unannounced_s,
        )

    def limit_s(self) -> float | None:
        """How long what goes on now may go on without a sign; None where nothing is expected."""
        state, settings = self.state, self._settings
        match state.doing:
            case "train":
                if not state.intervals_s:
                    return settings.first_step_s
                p95_s = float(np.quantile(state.intervals_s, 0.95))
                longest_s = max(state.intervals_s)
                sparseness = max(1.0, _median(state.strides))
                steps_s = sparseness * max(
                    settings.least_s, settings.p95_times * p95_s, settings.longest_times * longest_s
                )
                return max(steps_s, UNANNOUNCED_TIMES * max(state.unannounced_s, default=0.0))
            case "start":
                return settings.first_step_s
            case "load":
                return settings.startup_s
            case "save":
                return max(settings.save_s, settings.save_times * _median(state.saves_s))
            case "eval":
                return max(settings.eval_s, settings.eval_times * _median(state.evals_s))
            case _:
                return None

    def advance(self, to_us: int, not_before_us: int = 0) -> None:
        """Nothing happened until ``to_us``. Silence counts from ``not_before_us`` where that is after the last sign."""
        if self.state.is_said:
            self._renew(to_us)
            return
        limit_s = self.limit_s()
        if limit_s is None:
            return
        due_us = max(self.state.since_us, not_before_us) + round(limit_s * SECOND_US)
        if to_us < due_us:
            return
        self.state.is_said, self.state.said_us, self.state.said_limit_s = True, due_us, limit_s
        self._board.evaluated(NAME)
        self._say(due_us, limit_s)
        self._renew(to_us)

    def _renew(self, to_us: int) -> None:
        """Say how long it has lasted by now, at moments that don't depend on who looks when."""
        every_us = max(1, round(self._common.update_s * SECOND_US))
        times = (to_us - self.state.said_us) // every_us
        if times > 0:
            self._say(self.state.said_us + times * every_us, self.state.said_limit_s)

    def rows(self, columns: StepColumns) -> None:
        """Take the steps of all ranks."""
        if not len(columns):
            return
        state = self.state
        outcome = "recovered" if not state.is_said else self._outcome(columns)
        ranks, last = np.unique(columns.rank[::-1], return_index=True)
        steps = columns.step[::-1][last]
        if len(ranks) == len(state.ranks) and (ranks == state.ranks).all():
            state.steps = np.maximum(state.steps, steps)
        else:
            everyone = np.union1d(state.ranks, ranks)
            merged = np.full(len(everyone), -1, dtype=np.int64)
            merged[np.searchsorted(everyone, state.ranks)] = state.steps
            place = np.searchsorted(everyone, ranks)
            merged[place] = np.maximum(merged[place], steps)
            state.ranks, state.steps = everyone, merged
        at_us = int(columns.t_us[-1])
        self._alive(int(columns.t_us[0]), outcome)
        if state.doing not in ("save", "eval") or at_us > state.since_us:
            state.doing = "train"
        state.since_us = max(state.since_us, at_us)

    def _outcome(self, columns: StepColumns) -> str:
        """Whether it was a hang: where the next record says that steps went on all the while, records were missing."""
        one_s = self._course.one_s
        if not len(self.state.steps):
            return "recovered"
        num_done = int(columns.step[0]) - int(self.state.steps.max())
        if one_s is None:
            return UNKNOWN_PACE if num_done > 1 and len(self.state.strides) <= 1 else "recovered"
        silent_s = (int(columns.t_us[0]) - self.state.since_us) / SECOND_US
        return WITHDRAWN if num_done * one_s >= silent_s / 2 else "recovered"

    def step(self, dur_s: float, stride: float | None) -> None:
        """Take how long a record of the lead took, and how many steps it is on for each that it tells, if known."""
        state, num = self.state, self._settings.recent_steps
        if dur_s == dur_s:
            state.intervals_s.append(dur_s)
            del state.intervals_s[:-num]
        if stride is not None:
            state.strides.append(stride)
            del state.strides[:-num]

    def hear(self, event: AnyEvent) -> None:
        """Take what is told."""
        state, t_us = self.state, microseconds(event.t)
        match event:
            case Failure() | AttemptEnd() | RunEnd():
                self._alive(t_us, "attempt ended" if not isinstance(event, Failure) else f"failure: {event.category}")
                state.doing = "nothing"
            case AttemptStart() if state.doing == "nothing":
                state.doing, state.since_us, state.intervals_s = "start", t_us, []
            case CheckpointStart() if state.doing != "nothing":
                self._turn("save", t_us)
                state.save_start_us = t_us
            case CheckpointSaved() | CheckpointFailed():
                if event.dur is not None:
                    state.saves_s.append(event.dur)
                elif state.save_start_us is not None:
                    state.saves_s.append((t_us - state.save_start_us) / SECOND_US)
                del state.saves_s[:-20]
                state.save_start_us = None
                if state.doing == "save":
                    self._turn("train", t_us)
            case PhaseStart() if event.name == "eval" and state.doing != "nothing":
                self._turn("eval", t_us)
                state.eval_start_us = t_us
            case Phase() if event.name == "eval":
                if event.dur is not None:
                    state.evals_s.append(event.dur)
                    del state.evals_s[:-20]
                    if state.eval_start_us is None:
                        state.unannounced_s.append(event.dur)
                        del state.unannounced_s[:-20]
                state.eval_start_us = None
                if (
                    state.is_said
                    and event.dur is not None
                    and t_us - event.dur * SECOND_US <= state.since_us + LEEWAY_US
                ):
                    self._alive(t_us, "withdrawn: it was an evaluation, told of at its end only")
                if state.doing in ("eval", "train"):
                    self._turn("train", t_us)
            case PhaseStart() if event.name in _LOADING and state.doing in ("start", "load"):
                self._turn("load", t_us)
            case Phase() if event.name in _LOADING and state.doing in ("start", "load"):
                self._turn("start", t_us)
            case Rollback():
                self._turn("train", t_us)
                state.steps = np.minimum(state.steps, event.to_step)
            case _:
                pass

    def _turn(self, doing: str, at_us: int) -> None:
        self._alive(at_us, "recovered")
        self.state.doing = doing
        self.state.since_us = max(self.state.since_us, at_us)

    def _alive(self, at_us: int, outcome: str) -> None:
        if self.state.is_said:
            self.state.is_said = False
            for one in self._board.open(NAME):
                self._board.clear(at_us, NAME, one.subject, outcome, self._cost(one.opened_us, at_us))

    def _cost(self, since_us: int, at_us: int) -> Cost | None:
        return self._course.cost(max(0, at_us - since_us) / SECOND_US, "time that all stood still")

    def _advice(self, ranks: list[int], node: str | None) -> str:
        where = f"rank {ranks[0]}" if len(ranks) == 1 else "these ranks" if ranks else "a few ranks"
        where += f" on {node}" if node is not None else ""
        save = max(self._course.landed, key=lambda one: one.step, default=None)
        back = "no checkpoint has landed yet" if save is None else f"it goes back to the checkpoint of step {save.step}"
        return f"look at the stack of {where} (py-spy dump), then end the job so that it starts anew: {back}"

    def _say(self, at_us: int, limit_s: float) -> None:
        state, course = self.state, self._course
        silent_s = (at_us - state.since_us) / SECOND_US
        behind = state.steps < state.steps.max() if len(state.steps) else np.zeros(0, dtype=np.bool_)
        few = 0 < int(behind.sum()) <= self._common.group_share * len(behind)
        ranks: list[int] = []
        if few:
            ranks = [int(rank) for rank in state.ranks[state.steps == state.steps.min()] if rank >= 0]
        who = "the job hangs" if not ranks else f"rank {ranks[0]} hangs" if len(ranks) == 1 else f"ranks {ranks} hang"
        what = {"start": "before the first step", "load": "while loading", "train": "in training"}
        where = what.get(state.doing, "in a save" if state.doing == "save" else "in an evaluation")
        node = course.nodes.get(ranks[0]) if len(ranks) == 1 else None
        self._board.say(
            at_us,
            Verdict(
                detector=NAME,
                subject=f"rank {ranks[0]}" if len(ranks) == 1 else "run",
                severity="critical",
                since_us=state.since_us,
                summary=f"{who}: no rank made a step for {_lasting(silent_s)} {where}",
                evidence=Evidence(
                    value=silent_s,
                    baseline=_median(state.intervals_s) or None,
                    threshold=limit_s,
                    num_samples=len(state.intervals_s),
                    unit="s",
                    more={
                        "doing": state.doing,
                        "ranks_behind": ranks,
                        "last_step": course.last_step,
                        "gpu_hours_an_hour": course.gpu_hours(3600),
                    },
                ),
                advice=self._advice(ranks, node),
                node=node,
                rank=ranks[0] if len(ranks) == 1 else None,
                cost=self._cost(state.since_us, at_us),
            ),
        )


def _lasting(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else span(seconds)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else 0.0
