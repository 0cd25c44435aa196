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
from tachograph_collector.detect.failure import WORDS
from tachograph_collector.detect.settings import Restarts
from tachograph_collector.detect.verdict import Evidence, Verdict

NAME: Final = "restart_loop"
MAX_TRIES: Final = 20
MAX_NODES: Final = 20_000
MAX_SUSPECTS: Final = 4
"""Of more nodes that took part each time none is suspected."""
LEEWAY_US: Final = 10 * SECOND_US
SHOWN_US: Final = 600 * SECOND_US
"""What a node has shown so long before it failed is why it failed."""


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
    end_us: int | None = None
    """When it failed or ended; None where only the next attempt tells."""
    nodes: dict[str, None] = field(default_factory=dict)
    """That were heard in it, in that order: a set would be saved in another order by each process."""
    cause_id: str | None = None
    """The incident that its first failure ended, or followed from."""


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

    def end(self, at_us: int) -> None:
        """The attempt that runs is over, and another begins; the course still knows who was in it."""
        if self.state.tries:
            one = self.state.tries[-1]
            one.nodes |= {node: None for node in self._course.nodes.values() if node is not None}
            one.end_us = at_us if one.end_us is None else one.end_us

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
        if state.tries and event.node is not None and event.attempt is not None:
            tried = state.tries[-1]
            if str(event.attempt) == tried.attempt and len(tried.nodes) < MAX_NODES:
                tried.nodes[event.node] = None
        match event:
            case CheckpointSaved() | CheckpointPersisted() | CheckpointFailed():
                state.has_saves = True
                newest = self._newest()
                if state.tries and newest is not None and newest > (state.tries[-1].newest_step or -1):
                    self._board.clear(microseconds(event.t), NAME, "run", "a new checkpoint landed")
            case Failure() if state.tries and not state.tries[-1].has_failed:
                one = state.tries[-1]
                one.has_failed, one.category, one.node = True, event.category, event.node
                one.end_us, one.cause_id = microseconds(event.t), self._cause(event)
            case AttemptEnd() if state.tries:
                one = state.tries[-1]
                one.was_planned = event.planned
                one.end_us = microseconds(event.t) if one.end_us is None else one.end_us
            case RunEnd():
                self._board.clear(microseconds(event.t), NAME, "run", "run ended")
            case _:
                pass

    def _cause(self, failure: Failure) -> str | None:
        """The incident that a failure ended, or that its node had shown before."""
        at_us = microseconds(failure.t)
        for one in sorted(self._board.recent(), key=lambda one: -one.opened_us):
            is_of_node = one.node is not None and one.node == failure.node
            ended = one.detector in ("hang", "nan") and (one.cleared_us is None or at_us - one.cleared_us <= LEEWAY_US)
            shown = one.detector in ("xid", "node_health") and is_of_node and at_us - one.opened_us <= SHOWN_US
            is_death = one.detector == "dead_node" and at_us - one.opened_us <= SHOWN_US
            if not one.is_withdrawn and one.opened_us <= at_us and (ended or shown or is_death):
                return one.incident_id
        return None

    def _always_there(self) -> list[str]:
        """Nodes of each of the last attempts, where those were short and their nodes not always the same ones."""
        settings = self._settings
        tries = self.state.tries[-1 - settings.suspect_attempts : -1]
        ends_us = [one.end_us for one in tries]
        lasted = [end_us - one.start_us for one, end_us in zip(tries, ends_us, strict=True) if end_us is not None]
        if len(lasted) < settings.suspect_attempts or max(lasted) >= settings.short_s * SECOND_US:
            return []
        common = set.intersection(*[set(one.nodes) for one in tries])
        changed = any(one.nodes.keys() != common for one in tries)
        return sorted(common) if changed and len(common) <= MAX_SUSPECTS else []

    def _say(self, at_us: int, tries: list[Try], words: str, threshold: int) -> None:
        failed = [one for one in tries if one.has_failed]
        nodes = [one.node for one in failed if one.node is not None]
        common = max(sorted(set(nodes)), key=nodes.count, default=None)
        suspect = common if common is not None and nodes.count(common) >= 3 else None
        there = self._always_there()
        advice = None
        if suspect is not None:
            advice = f"{suspect} failed first in {nodes.count(suspect)} of them: leave it out"
        elif there:
            suspect = there[0] if len(there) == 1 else None
            advice = (
                f"{' and '.join(there)} took part in each of the last {self._settings.suspect_attempts}, which were "
            )
            advice += "short, while other nodes changed: leave out " + (
                "it" if len(there) == 1 else "one after the other"
            )
        first = next((one for one in failed), None)
        if first is not None:
            where = f" on {first.node}" if first.node else ""
            what = first.category or "unknown"
            words += f"; the first failed{where} ({WORDS.get(what, what)})"
        if advice is None:
            advice = "hold it before the next attempt, and read the first error of the first of these"
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
                        "always_there": " ".join(there) or None,
                        "cost_s": spent_s,
                        "cost_gpu_hours": self._course.gpu_hours(spent_s),
                    },
                ),
                advice=advice,
                consequence_of=None if first is None else first.cause_id,
                node=suspect,
                cost=self._course.cost(spent_s, "all time since the first of these attempts began"),
            ),
        )
