"""Saves that are overdue, slow, never land or go backwards; and how far back a clean restore can reach.

(detection, "Checkpoints" and "Retention".) What a save is to its ranks counts once: by its step, as the first rank that
tells it has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    CheckpointDeleted,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    Rollback,
    RunEnd,
    RunStart,
    microseconds,
)

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.settings import Checkpoints, Retention
from tachograph_collector.detect.verdict import Cost, Evidence, Verdict
from tachograph_collector.model.words import span

OVERDUE: Final = "checkpoint_overdue"
SLOW: Final = "checkpoint_slow"
NOT_LANDED: Final = "checkpoint_not_landed"
PERSIST: Final = "checkpoint_persist"
BACKWARDS: Final = "checkpoint_backwards"
RETENTION: Final = "retention"
MAX_INTERVALS: Final = 20
RENEW_US: Final = 60 * SECOND_US


class Save(Struct):
    """One save that has not landed yet."""

    step: int
    start_us: int
    rank: int | None = None
    is_saved: bool = False
    blocked_s: float | None = None
    """How long it held training up."""


class SavesState(Struct):
    """What is saved."""

    is_unseen: bool = False
    planned_interval_s: float | None = None
    pending: list[Save] = field(default_factory=list)
    intervals_s: list[float] = field(default_factory=list)
    blocking_s: list[float] = field(default_factory=list)
    usual_mode: str | None = None
    """``sync`` or ``async``."""
    num_other_mode: int = 0
    """Saves in a row of the other one."""
    last_begin_us: int | None = None
    """When the last save of this attempt began."""
    last_step: int | None = None
    """Its step."""
    clock_us: int | None = None
    """Overdue counts from here: the last landing, or the attempt's first step. None where nothing is expected."""
    saved_steps: list[int] = field(default_factory=list)
    first_landed_us: int | None = None
    has_deletions: bool = False
    is_said: bool = False
    said_us: int = 0
    said_limit_s: float = 0.0
    slow_lost_s: float = 0.0
    """By how much the saves were slower that the open incident is about."""


class SavesDetector:
    """Takes what is told of saves in order of time."""

    def __init__(
        self, settings: Checkpoints, retention: Retention, board: Board, course: Course, state: SavesState
    ) -> None:
        self._settings = settings
        self._retention = retention
        self._board = board
        self._course = course
        self.state = state

    def begin(self, at_us: int) -> None:
        """A new attempt: intervals are known from before, nothing is pending."""
        self._stop(at_us)
        state = self.state
        state.pending, state.saved_steps, state.last_begin_us, state.last_step = [], [], None, None

    def training(self, since_us: int) -> None:
        """The attempt has stepped since then: a save will be due."""
        if self.state.clock_us is None:
            self.state.clock_us, self.state.is_said = since_us, False

    def _stop(self, at_us: int) -> None:
        self.state.clock_us = None
        for name in (OVERDUE, SLOW, PERSIST, BACKWARDS):
            self._board.clear_all(at_us, name, "attempt ended")

    # -- overdue -----------------------------------------------------------------------------------------------------

    def _interval_s(self) -> float | None:
        if len(self.state.intervals_s) >= 2:
            return float(np.median(self.state.intervals_s))
        return self.state.planned_interval_s or None

    def advance(self, to_us: int, not_before_us: int = 0) -> None:
        """Nothing landed until ``to_us``."""
        state, settings = self.state, self._settings
        self._give_up(to_us)
        interval_s = self._interval_s()
        if state.is_unseen or interval_s is None:
            why = "the source can't show saves" if state.is_unseen else "no interval between saves is known"
            self._board.sight(OVERDUE, "blind", why)
            return
        if state.clock_us is None:
            return
        limit_s = (
            state.said_limit_s if state.is_said else max(settings.overdue_times * interval_s, settings.overdue_least_s)
        )
        if not state.is_said:
            due_us = max(state.clock_us, not_before_us) + round(limit_s * SECOND_US)
            if to_us < due_us:
                return
            state.is_said, state.said_us, state.said_limit_s = True, due_us, limit_s
            self._board.evaluated(OVERDUE)
            self._say_overdue(due_us, interval_s, limit_s, state.clock_us)
        # Renewed at moments that don't depend on who looks when.
        times = (to_us - state.said_us) // RENEW_US
        if times > 0:
            self._say_overdue(state.said_us + times * RENEW_US, interval_s, limit_s, state.clock_us)

    def _say_overdue(self, at_us: int, interval_s: float, limit_s: float, since_us: int) -> None:
        waited_s = (at_us - since_us) / SECOND_US
        hours = self._course.gpu_hours(waited_s)
        risk = "" if hours is None else f"; {hours:.1f} GPU-hours are at risk"
        self._board.say(
            at_us,
            Verdict(
                detector=OVERDUE,
                subject="run",
                severity="critical",
                since_us=since_us,
                summary=f"no save has landed for {span(waited_s)}, usually one does every {span(interval_s)}{risk}",
                evidence=Evidence(
                    value=waited_s,
                    baseline=interval_s,
                    threshold=limit_s,
                    num_samples=len(self.state.intervals_s),
                    unit="s",
                    more={"at_risk_gpu_hours": hours},
                ),
                advice="see whether saves are still begun and the storage takes them; end nothing before one lands",
                cost=self._course.cost(waited_s, "work at risk until a save lands"),
            ),
        )

    def _give_up(self, to_us: int) -> None:
        """Saves that began so long ago will not land."""
        limit_us = round(self._settings.unfinished_s * SECOND_US)
        for save in [one for one in self.state.pending if to_us >= one.start_us + limit_us]:
            self.state.pending.remove(save)
            what = "was saved and never landed" if save.is_saved else "began and never ended"
            self._say_not_landed(save.start_us + limit_us, save.start_us, save.step, what, save.blocked_s)

    # -- what is told ------------------------------------------------------------------------------------------------

    def hear(self, event: AnyEvent) -> None:
        """Take what is told; the course has heard it already."""
        state, t_us = self.state, microseconds(event.t)
        match event:
            case RunStart():
                state.is_unseen = event.checkpoints == "unseen"
                state.planned_interval_s = event.planned_interval_s or state.planned_interval_s
            case CheckpointStart():
                self._begun(event.step, t_us, event.rank)
            case CheckpointSaved():
                self._saved(event, t_us)
            case CheckpointPersisted() if event.tier in ("storage", "peer"):
                self._persisted(event, t_us)
            case CheckpointFailed():
                known = [one for one in state.pending if one.step == event.step]
                state.pending = [one for one in state.pending if one.step != event.step]
                told = f"failed ({event.error})" if event.error else "failed"
                self._say_not_landed(t_us, known[0].start_us if known else t_us, event.step, told)
            case CheckpointDeleted():
                state.has_deletions = True
                self._reach(t_us)
            case Failure() | AttemptEnd() | RunEnd():
                self._stop(t_us)
            case Rollback():
                state.pending = [one for one in state.pending if one.step <= event.to_step]
                state.last_step = None
            case _:
                pass

    def _begun(self, step: int, at_us: int, rank: int | None) -> None:
        state = self.state
        if state.last_step == step or any(one.step == step for one in state.pending):
            return
        if state.last_step is not None and step < state.last_step:
            self._say_backwards(at_us, step, state.last_step)
        elif state.last_step is not None:
            self._board.clear(at_us, BACKWARDS, "run")
        if state.last_begin_us is not None:
            state.intervals_s.append((at_us - state.last_begin_us) / SECOND_US)
            del state.intervals_s[:-MAX_INTERVALS]
        state.last_begin_us, state.last_step = at_us, step
        state.pending.append(Save(step, at_us, rank))

    def _saved(self, event: CheckpointSaved, at_us: int) -> None:
        state, settings = self.state, self._settings
        begin_us = at_us - round((event.dur or 0.0) * SECOND_US)
        self._begun(event.step, begin_us, event.rank)
        mine = next((one for one in state.pending if one.step == event.step), None)
        if event.step not in state.saved_steps:
            state.saved_steps.append(event.step)
            del state.saved_steps[:-MAX_INTERVALS]
            took_s = (
                event.dur if event.dur is not None else None if mine is None else (at_us - mine.start_us) / SECOND_US
            )
            if took_s is not None and not self._is_exception(event.mode):
                self._took(event.step, at_us, took_s, settings)
        if mine is not None:
            mine.is_saved = True
            mine.blocked_s = event.dur if event.dur is not None else (at_us - mine.start_us) / SECOND_US
        if event.mode == "sync" and (event.tier or "storage") in ("storage", "peer"):
            self._landed(event.step, at_us)

    def _is_exception(self, mode: str) -> bool:
        """A lone save of the other mode, as before a planned stop, is not compared; a second one in a row is."""
        state = self.state
        state.num_other_mode = 0 if mode == state.usual_mode else state.num_other_mode + 1
        if state.usual_mode is None or state.num_other_mode >= self._settings.slow_last:
            state.usual_mode, state.num_other_mode = mode, 0
        return state.num_other_mode == 1

    def _took(self, step: int, at_us: int, took_s: float, settings: Checkpoints) -> None:
        state = self.state
        if len(state.blocking_s) < settings.slow_least:
            self._board.sight(SLOW, "eligible", f"fewer than {settings.slow_least} saves to compare with")
            state.blocking_s.append(took_s)
            return
        self._board.evaluated(SLOW)
        usual_s = float(np.median(state.blocking_s))
        if took_s > settings.slow_times * usual_s and took_s - usual_s >= 1.0:
            hours = self._course.gpu_hours(took_s - usual_s)
            state.slow_lost_s = took_s - usual_s + (state.slow_lost_s if self._board.open(SLOW) else 0.0)
            self._warn(
                SLOW,
                at_us,
                at_us - round(took_s * SECOND_US),
                f"the save of step {step} held training up for {took_s:.1f} s, usually it is {usual_s:.1f} s",
                Evidence(
                    value=took_s,
                    baseline=usual_s,
                    threshold=settings.slow_times * usual_s,
                    num_samples=len(state.blocking_s),
                    unit="s",
                    more={"step": step, "cost_gpu_hours": hours},
                ),
                "look at what else used the storage or the network then; if all saves are so slow now, save less often",
                cost=self._course.cost(state.slow_lost_s, "saves that took longer than usual"),
            )
        else:
            self._board.clear(at_us, SLOW, "run")
        state.blocking_s.append(took_s)
        del state.blocking_s[: -settings.slow_last]

    def _persisted(self, event: CheckpointPersisted, at_us: int) -> None:
        mine = next((one for one in self.state.pending if one.step == event.step), None)
        took_s = event.dur if event.dur is not None else None if mine is None else (at_us - mine.start_us) / SECOND_US
        interval_s = self._interval_s()
        if took_s is not None and interval_s is not None:
            self._board.evaluated(PERSIST)
            if took_s > interval_s:
                self._warn(
                    PERSIST,
                    at_us,
                    at_us - round(took_s * SECOND_US),
                    f"the save of step {event.step} took {span(took_s)} to land, longer than the "
                    f"{span(interval_s)} until the next",
                    Evidence(
                        value=took_s,
                        threshold=interval_s,
                        num_samples=len(self.state.intervals_s),
                        unit="s",
                        more={"step": event.step},
                    ),
                    "save less often, or write faster: until it lands, a failure goes back to the save before",
                )
            else:
                self._board.clear(at_us, PERSIST, "run")
        self._landed(event.step, at_us)

    def _landed(self, step: int, at_us: int) -> None:
        state = self.state
        state.first_landed_us = at_us if state.first_landed_us is None else state.first_landed_us
        passed = [one for one in state.pending if one.step < step and one.is_saved]
        state.pending = [one for one in state.pending if one.step != step and one not in passed]
        if state.clock_us is not None:
            state.clock_us, state.is_said = at_us, False
        self._board.clear(at_us, OVERDUE, "run")
        self._board.clear(at_us, NOT_LANDED, "run", "a later save landed")
        for save in passed:
            what = "was overtaken by a later one and never landed"
            self._say_not_landed(at_us, save.start_us, save.step, what, save.blocked_s)

    def _say_not_landed(self, at_us: int, since_us: int, step: int, what: str, blocked_s: float | None = None) -> None:
        newest = max((one.step for one in self._course.landed), default=None)
        left = "no save has landed yet" if newest is None else f"the newest that did is of step {newest}"
        self._board.evaluated(NOT_LANDED)
        self._warn(
            NOT_LANDED,
            at_us,
            since_us,
            f"the save of step {step} {what}: {left}",
            Evidence(unit="step", value=float(step), more={"step": step, "newest_landed_step": newest}),
            "look at the log of the rank that saves, and at the storage; a failure costs all work since the last one",
            cost=self._course.cost(blocked_s, "time that the save held training up, for nothing"),
        )

    def _say_backwards(self, at_us: int, step: int, before: int) -> None:
        self._board.evaluated(BACKWARDS)
        self._warn(
            BACKWARDS,
            at_us,
            at_us,
            f"a save of step {step} after one of step {before}, and no rollback was told of",
            Evidence(value=float(step), baseline=float(before), unit="step"),
            "see whether two jobs save into one place, or an old checkpoint was loaded; keep both until it is known",
        )

    # -- retention ---------------------------------------------------------------------------------------------------

    def _reach(self, at_us: int) -> None:
        state, delay_s = self.state, self._retention.detection_delay_s
        if not state.has_deletions:
            self._board.sight(RETENTION, "blind", "no deletion of a checkpoint was told of")
            return
        self._board.evaluated(RETENTION)
        oldest: dict[str, int] = {}
        for one in self._course.landed:
            for tier in one.tiers:
                oldest[tier] = min(oldest.get(tier, one.landed_us), one.landed_us)
        reaches_s = {tier: (at_us - us) / SECOND_US for tier, us in oldest.items()}
        reach_s = max(reaches_s.values(), default=0.0)
        is_old_enough = state.first_landed_us is not None and at_us - state.first_landed_us >= delay_s * SECOND_US
        if reach_s >= delay_s:
            self._board.clear(at_us, RETENTION, "run")
        elif is_old_enough:
            self._warn(
                RETENTION,
                at_us,
                at_us,
                f"the oldest checkpoint left is {reach_s / 3600:.1f} h old: corruption found after "
                f"{delay_s / 3600:g} h could not be undone",
                Evidence(
                    value=reach_s,
                    threshold=delay_s,
                    num_samples=len(self._course.landed),
                    unit="s",
                    more={f"reach_{tier}_s": value for tier, value in sorted(reaches_s.items())},
                ),
                advice=f"keep one checkpoint that is older than {delay_s / 3600:g} h",
            )

    def _warn(
        self,
        detector: str,
        at_us: int,
        since_us: int,
        summary: str,
        evidence: Evidence,
        advice: str,
        cost: Cost | None = None,
    ) -> None:
        self._board.say(
            at_us,
            Verdict(
                detector=detector,
                subject="run",
                severity="warning",
                since_us=since_us,
                summary=summary,
                evidence=evidence,
                advice=advice,
                cost=cost,
            ),
        )
