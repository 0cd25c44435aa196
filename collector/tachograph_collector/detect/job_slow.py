"""All ranks together have become slower (detection, "The whole job slow").

Median step time per minute, against the attempt's own best half hour. That it has changed is found by CUSUM, which adds
up what is above the best minute by minute; then the size is checked.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import SECOND_US, Course, Point
from tachograph_collector.detect.settings import JobSlow
from tachograph_collector.detect.verdict import Evidence, Verdict

NAME: Final = "job_slow"
MINUTE_US: Final = 60 * SECOND_US


class JobSlowState(Struct):
    """What is saved."""

    minute_us: int | None = None
    """The minute whose steps are being gathered, or the first of several."""
    end_us: int = 0
    """When the last of those minutes is over."""
    steps_s: list[float] = field(default_factory=list)
    covered_s: float = 0.0
    """How long those steps took together."""
    num_steps: int = 0
    minutes_s: list[float] = field(default_factory=list)
    """Medians of the last minutes; those in which the job was slow are not among them."""
    latest_s: list[float] = field(default_factory=list)
    """Medians of the very last minutes, slow or not."""
    best_s: float | None = None
    cusum: float = 0.0
    since_us: int = 0
    """The first minute of what CUSUM has added up."""
    lost_s: float = 0.0


class JobSlowDetector:
    """Takes the records of the lead, in order."""

    def __init__(self, settings: JobSlow, board: Board, course: Course, state: JobSlowState) -> None:
        self._settings = settings
        self._board = board
        self._course = course
        self.state = state

    def reset(self, at_us: int) -> None:
        """A new attempt, maybe of another size: a new baseline."""
        self._board.clear_all(at_us, NAME, "attempt ended")
        self.state = JobSlowState()

    def step(self, point: Point) -> None:
        """Take one record."""
        if not point.is_eligible or point.one_s != point.one_s:
            return
        state = self.state
        minute_us = point.t_us // MINUTE_US * MINUTE_US
        if state.minute_us is not None and minute_us >= state.end_us and state.num_steps >= self._least_steps:
            self._close(state.minute_us, float(np.median(state.steps_s)))
            state.minute_us, state.steps_s, state.covered_s, state.num_steps = None, [], 0.0, 0
        if state.minute_us is None:
            state.minute_us = minute_us
        state.end_us = minute_us + MINUTE_US
        state.steps_s.append(point.one_s)
        state.covered_s += point.one_s * point.count
        state.num_steps += point.count

    @property
    def _least_steps(self) -> int:
        """Where steps are long a minute is stretched until it has so many: one step's noise is no minute's."""
        return -(-self._settings.least_steps // self._settings.minutes)

    def _close(self, minute_us: int, step_s: float) -> None:
        state, settings = self.state, self._settings
        state.latest_s.append(step_s)
        del state.latest_s[: -settings.minutes]
        if state.best_s is None:
            self._learn(step_s)
            self._board.sight(NAME, "eligible", f"fewer than {settings.least_minutes} minutes to compare with")
            return
        self._board.evaluated(NAME)
        above = step_s / state.best_s - 1
        if state.cusum == 0.0:
            state.since_us = minute_us
        state.cusum = max(0.0, state.cusum + above - settings.cusum_slack)
        middle_s = float(np.median(state.latest_s))
        is_open = bool(self._board.open(NAME))
        if is_open and middle_s < settings.clear_ratio * state.best_s:
            self._board.clear(minute_us, NAME, "run")
            state.cusum, state.lost_s, is_open = 0.0, 0.0, False
        is_long = len(state.latest_s) >= settings.minutes and min(state.latest_s) >= settings.ratio * state.best_s
        if is_open or (state.cusum >= settings.cusum_limit and is_long):
            state.lost_s += state.covered_s * (1 - state.best_s / step_s) * (1 if is_open else settings.minutes)
            if middle_s >= settings.ratio * state.best_s:
                self._say(state.end_us, middle_s, state.best_s)
        elif step_s < settings.ratio * state.best_s:
            self._learn(step_s)

    def _learn(self, step_s: float) -> None:
        state, settings = self.state, self._settings
        state.minutes_s.append(step_s)
        del state.minutes_s[: -settings.best_minutes]
        if len(state.minutes_s) >= settings.least_minutes:
            middle_s = float(np.median(state.minutes_s))
            state.best_s = middle_s if state.best_s is None else min(state.best_s, middle_s)

    def _say(self, at_us: int, step_s: float, best_s: float) -> None:
        state, course = self.state, self._course
        summary = f"a step takes {step_s:.3g} s, {(step_s / best_s - 1) * 100:.0f} % more than in the best half hour"
        self._board.say(
            at_us,
            Verdict(
                detector=NAME,
                subject="run",
                severity="warning",
                since_us=state.since_us,
                summary=summary,
                evidence=Evidence(
                    value=step_s,
                    baseline=best_s,
                    threshold=self._settings.ratio * best_s,
                    num_samples=len(state.minutes_s),
                    unit="s",
                    more={
                        "cost_s": state.lost_s,
                        "cost_gpu_hours": course.gpu_hours(state.lost_s),
                    },
                ),
                advice="look for what all ranks share: the network, the file system, lowered GPU clocks, another job "
                "on the same GPUs",
                cost=course.cost(state.lost_s, "steps that are slower than in the best half hour"),
            ),
        )
