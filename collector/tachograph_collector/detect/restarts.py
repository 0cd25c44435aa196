"""Attempts that follow each other and get nowhere (detection, "Restart loops")."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    Failure,
    RunEnd,
    microseconds,
)

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.settings import Restarts
from tachograph_collector.detect.verdict import Evidence, Verdict

NAME: Final = "restart_loop"
MAX_TRIES: Final = 20


class Try(Struct):
    """One attempt, as far as a loop is concerned."""

    attempt: str
    start_us: int
    newest_step: int | None
    """Of the landed saves when it began."""
    was_planned: bool = False
    category: str | None = None
    node: str | None = None
    """Where its first failure was; what was told after that is a consequence."""
    has_failed: bool = False


class RestartsState(Struct):
    """What is saved."""

    tries: list[Try] = field(default_factory=list)
    has_saves: bool = False


class RestartsDetector:
    """Takes attempts as they begin, and what ends them."""

    def __init__(self, settings: Restarts, board: Board, course: Course, state: RestartsState) -> None:
        self._settings = settings
        self._board = board
        self._course = course
        self.state = state

    def begin(self, attempt: str, at_us: int) -> None:
        """An attempt begins."""
        state, settings = self.state, self._settings
        state.tries.append(Try(attempt, at_us, self._newest()))
        del state.tries[: -max(MAX_TRIES, settings.attempts + 1)]
        self._board.evaluated(NAME)
        if len(state.tries) < 2 or state.tries[-2].was_planned:
            return
        since_us = at_us - round(settings.within_s * SECOND_US)
        recent = [one for one in state.tries if since_us <= one.start_us <= at_us]
        idle = 0
        for one in reversed(state.tries[:-1]):
            if one.was_planned or (self._newest() or -1) > (one.newest_step or -1):
                break
            idle += 1
        minutes = (at_us - recent[0].start_us) / 60 / SECOND_US
        if len(recent) >= settings.attempts:
            self._say(at_us, recent, f"{len(recent)} attempts began within {minutes:.0f} min", settings.attempts)
        elif state.has_saves and idle >= settings.without_progress:
            tries = state.tries[-1 - idle :]
            self._say(at_us, tries, f"{idle} attempts in a row landed no new checkpoint", settings.without_progress)

    def _newest(self) -> int | None:
        return max((one.step for one in self._course.landed), default=None)

    def advance(self, to_us: int) -> None:
        """The attempt goes on at ``to_us``; where nobody tells of saves, that it has lasted ends a loop."""
        tries = self.state.tries
        lasted = bool(tries) and to_us - tries[-1].start_us > self._settings.within_s * SECOND_US
        if lasted and not self.state.has_saves and self._course.last_step is not None:
            self._board.clear(to_us, NAME, "run")

    def hear(self, event: AnyEvent) -> None:
        """Take what ends attempts, and what says that one gets somewhere."""
        state = self.state
        match event:
            case CheckpointSaved() | CheckpointPersisted() | CheckpointFailed():
                state.has_saves = True
                newest = self._newest()
                if state.tries and newest is not None and newest > (state.tries[-1].newest_step or -1):
                    self._board.clear(microseconds(event.t), NAME, "run", "a new checkpoint landed")
            case Failure() if state.tries and not state.tries[-1].has_failed:
                one = state.tries[-1]
                one.has_failed, one.category, one.node = True, event.category, event.node
            case AttemptEnd() if state.tries:
                state.tries[-1].was_planned = event.planned
            case RunEnd():
                self._board.clear(microseconds(event.t), NAME, "run", "run ended")
            case _:
                pass

    def _say(self, at_us: int, tries: list[Try], words: str, threshold: int) -> None:
        failed = [one for one in tries if one.has_failed]
        nodes = [one.node for one in failed if one.node is not None]
        common = max(sorted(set(nodes)), key=nodes.count, default=None)
        suspect = common if common is not None and nodes.count(common) >= 3 else None
        first = next((one for one in failed), None)
        if first is not None:
            words += f"; the first failed by {first.category}" + (f" on {first.node}" if first.node else "")
        spent_s = (at_us - tries[0].start_us) / SECOND_US
        self._board.say(
            at_us,
            Verdict(
                detector=NAME,
                subject="run",
                severity="critical",
                since_us=tries[0].start_us,
                summary=words,
                evidence=Evidence(
                    value=float(len(tries)),
                    threshold=float(threshold),
                    num_samples=len(tries),
                    unit="attempts",
                    more={
                        "suspect_node": suspect,
                        "cost_s": spent_s,
                        "cost_gpu_hours": self._course.gpu_hours(spent_s),
                    },
                ),
                advice=None
                if suspect is None
                else f"{suspect} failed first in {nodes.count(suspect)} of them: leave it out",
                node=suspect,
            ),
        )
