"""A slow step every so many steps: a period, said once with its cost, and not a thousand slow steps.

Saves and evaluations are such periods, and lawful: where one was told beside nearly all of the slow steps, nothing is
said. A period is looked for in all slow steps, and in those alone that nothing explains.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Phase,
    PhaseStart,
    microseconds,
)

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import SECOND_US, Course, Point
from tachograph_collector.detect.settings import PeriodicSlow
from tachograph_collector.detect.verdict import Evidence, Verdict

NAME: Final = "periodic_slow"
USUAL_RECORDS: Final = 200
LEAST_RECORDS: Final = 50
REFIT_RECORDS: Final = 25
LONG_PERIOD: Final = 20
"""A period of so many steps or more may be off by one."""
MOSTLY: Final = 0.6
"""Where more than this part of the slow steps is explained, all are."""
ENDS_AFTER: Final = 3
"""It is over when so many periods brought no slow step."""


class SlowStep(Struct, frozen=True):
    """One record that was far slower than usual."""

    t_us: int
    step: int
    excess_s: float
    is_explained: bool
    """A save or an evaluation was told of then."""


class PeriodicState(Struct):
    """What is saved."""

    usual: list[float] = field(default_factory=list)
    num_since_fit: int = 0
    usual_s: float | None = None
    slow: list[SlowStep] = field(default_factory=list)
    """The last ones."""
    unexplained: list[SlowStep] = field(default_factory=list)
    """The last ones that nothing explains."""
    stride: int = 1
    """Steps of a record."""
    is_explained: bool = False
    """A save or an evaluation was told of since the last record."""
    period: int | None = None
    """Of the open incident."""
    since_us: int = 0
    lost_s: float = 0.0
    num_times: int = 0


class PeriodicDetector:
    """Takes the records of the lead, in order, and what is told between them."""

    def __init__(self, settings: PeriodicSlow, board: Board, course: Course, state: PeriodicState) -> None:
        self._settings = settings
        self._board = board
        self._course = course
        self.state = state

    def reset(self, at_us: int) -> None:
        """A new attempt: a new beginning."""
        self._board.clear_all(at_us, NAME, "attempt ended")
        self.state = PeriodicState()

    def hear(self, event: AnyEvent) -> None:
        """Take what explains that one step is slow."""
        match event:
            case CheckpointStart() | CheckpointSaved() | CheckpointPersisted() | CheckpointFailed():
                pass
            case Phase() | PhaseStart() if event.name == "eval":
                pass
            case _:
                return
        state = self.state
        state.is_explained = True
        begin_us = microseconds(event.t) - round((event.dur or 0.0) * SECOND_US)
        if state.slow and state.slow[-1].t_us >= begin_us:  # told after the step that it made slow
            state.slow[-1] = msgspec.structs.replace(state.slow[-1], is_explained=True)
            if state.period is None and state.unexplained and state.unexplained[-1].t_us == state.slow[-1].t_us:
                del state.unexplained[-1]

    def step(self, point: Point) -> None:
        """Take one record."""
        state, settings = self.state, self._settings
        is_explained, state.is_explained = state.is_explained, False
        if not point.is_eligible or point.one_s != point.one_s:
            return
        state.usual.append(point.one_s)
        del state.usual[:-USUAL_RECORDS]
        state.num_since_fit += 1
        if len(state.usual) < LEAST_RECORDS:
            self._board.sight(NAME, "eligible", "too few steps to compare with")
            return
        if state.usual_s is None or state.num_since_fit >= REFIT_RECORDS:
            state.usual_s, state.num_since_fit = float(np.median(state.usual)), 0
            self._board.evaluated(NAME)
        if point.one_s >= settings.ratio * state.usual_s:
            excess_s = (point.one_s - state.usual_s) * point.count
            state.stride = point.count
            state.slow.append(SlowStep(point.t_us, point.step, excess_s, is_explained))
            del state.slow[: -settings.times]
            if not is_explained:
                state.unexplained.append(state.slow[-1])
                del state.unexplained[: -settings.times]
                self._judge(point, excess_s)
        elif state.period is not None and point.step - state.unexplained[-1].step > ENDS_AFTER * state.period:
            self._board.clear(point.t_us, NAME, "run")
            state.period, state.slow, state.unexplained = None, [], []

    def _judge(self, point: Point, excess_s: float) -> None:
        state, settings = self.state, self._settings
        if state.period is not None:
            state.lost_s += excess_s
            state.num_times += 1
            self._say(point, state.period)
            return
        is_explained = sum(one.is_explained for one in state.slow) > MOSTLY * len(state.slow)
        period, slow = (None if is_explained else self._period(state.slow)), state.slow
        if period is None:
            period, slow = self._period(state.unexplained), state.unexplained
        if period is None:
            return
        slow = [one for one in slow if not one.is_explained]
        state.since_us, state.num_times = slow[0].t_us, len(slow)
        state.lost_s = sum(one.excess_s for one in slow)
        if self._share(period) >= settings.least_share:
            state.period = period
            self._say(point, period)

    def _period(self, slow: list[SlowStep]) -> int | None:
        """After how many steps the slow ones come, if nearly all come so; None if they don't, or too few did."""
        settings = self._settings
        if len(slow) < settings.times:
            return None
        gaps = np.diff([one.step for one in slow])
        period = int(np.median(gaps))
        if period < max(settings.least_period, 2 * self.state.stride):
            return None
        leeway = max(self.state.stride - 1, int(period >= LONG_PERIOD))
        nearest = np.clip(np.rint(gaps / period), 1, 2) * period  # one of them may have been explained, or quick
        return period if np.mean(np.abs(gaps - nearest) <= leeway) >= settings.regular else None

    def _share(self, period: int) -> float:
        """The part of the time that they cost."""
        each_s = self.state.lost_s / self.state.num_times
        return each_s / (period * (self.state.usual_s or 0.0) + each_s)

    def _say(self, point: Point, period: int) -> None:
        state, settings, course = self.state, self._settings, self._course
        usual_s, each_s, share = state.usual_s or 0.0, state.lost_s / state.num_times, self._share(period)
        hours = course.gpu_hours(share * 86_400)
        a_day = "" if hours is None else f", {hours:.1f} GPU-hours a day"
        self._board.say(
            point.t_us,
            Verdict(
                detector=NAME,
                subject="run",
                severity="warning" if share >= settings.warn_share else "info",
                since_us=state.since_us,
                summary=f"every {period} steps one takes {each_s:.3g} s longer than the usual {usual_s:.3g} s: "
                f"{share * 100:.1f} % of the time{a_day}",
                evidence=Evidence(
                    value=usual_s + each_s / state.stride,
                    baseline=usual_s,
                    threshold=settings.ratio * usual_s,
                    num_samples=state.num_times,
                    unit="s",
                    more={"period_steps": period, "excess_s": each_s, "share_of_time": share},
                ),
                advice=f"look for what runs every {period} steps: garbage collection, logging, a data shard, or a save "
                "or evaluation that nobody tells of",
                cost=course.cost(state.lost_s, f"one slow step in {period}"),
            ),
        )
