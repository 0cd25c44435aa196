"""Failures that stop the run, each one incident (``failure``), as the ledger's interruptions have them.

One failure makes many lines: the first of them, in time, names it, the others are its evidence. It is open while the
run is down, until the next attempt makes a step. A stop that was planned is none, nor is what training goes on after.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    Failure,
    FailureWithdrawn,
    RunEnd,
    microseconds,
)

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import LEEWAY_US, SECOND_US, Course, Point
from tachograph_collector.detect.settings import Common
from tachograph_collector.detect.verdict import Cost, Evidence, Incident, Verdict

NAME: Final = "failure"
MAX_REPORTS: Final = 4_096
"""Of one failure that are held; more are counted."""
TOLD_AT_ONCE: Final = 16
"""So many reports are said as they come; more are counted, and said when it is renewed."""
MAX_DOWNS: Final = 9
MAX_WORDLESS: Final = 100
NOTICE_US: Final = 900 * SECOND_US
"""A planned end told so long before is what the failure comes of."""
DETAIL_LENGTH: Final = 300
SAID_LENGTH: Final = 120
"""So much of the first report's words is in the summary."""
WORDS: Final = {
    "gpu": "a GPU failed",
    "gpu_memory": "a GPU's memory failed",
    "network": "the network failed",
    "host": "a node failed",
    "storage": "storage failed",
    "software": "the program failed",
    "collective_timeout": "a collective timed out",
    "heartbeat": "a node fell silent",
    "sdc": "corrupted data",
    "unknown": "cause unknown",
}
"""What broke, by category."""
BASIS: Final = "time since the last step, and work after the checkpoint that it goes back to"
NODE_CATEGORIES: Final = frozenset({"gpu", "gpu_memory", "host", "heartbeat", "sdc"})
"""The node is to be left out, where it is known."""


class Report(Struct, frozen=True):
    """What one rank or node told of a failure."""

    t_us: int
    category: str
    node: str | None = None
    rank: int | None = None
    detail: str | None = None
    inferred: bool = False


class Wordless(Struct):
    """How an attempt that nobody told the end of stood."""

    attempt: str
    stopped_us: int
    last_step: int
    step_s: float | None
    until_us: int
    """When the next attempt began."""


class FailureState(Struct):
    """What is saved."""

    reports: list[Report] = field(default_factory=list)
    """Of the failure that the run is down by, in order of time; none while it isn't down."""
    num_more: int = 0
    attempt: str | None = None
    """The attempt that failed."""
    is_next: bool = False
    """Another attempt has begun since."""
    is_over: bool = False
    """The run has ended, and nothing of it fails any more."""
    said_us: int = 0
    stopped_us: int = 0
    """When the last step ended."""
    last_step: int | None = None
    step_s: float | None = None
    """What a step took, over the attempt that failed."""
    planned_us: int | None = None
    """When the running attempt was told to stop as planned."""
    wordless: list[Wordless] = field(default_factory=list)
    """Attempts that ended without a word: whether they failed shows where the next that steps goes on from."""
    downs_s: list[float] = field(default_factory=list)
    """How long the run was down the last times, from the last step to the next attempt's first."""
    num_steps: int = 0
    steps_s: float = 0.0
    """Of the running attempt, those whose time is known."""


class FailureDetector:
    """Takes what ends attempts, and the steps of the lead, in order of time."""

    def __init__(self, common: Common, board: Board, course: Course, state: FailureState) -> None:
        self._update_us = max(1, round(common.update_s * SECOND_US))
        self._board = board
        self._course = course
        self.state = state

    # -- what is told ------------------------------------------------------------------------------------------------

    def hear(self, event: AnyEvent) -> None:
        """Take what is told."""
        t_us = microseconds(event.t)
        match event:
            case Failure():
                self._failed(
                    event.attempt,
                    Report(
                        t_us,
                        event.category,
                        event.node,
                        event.rank,
                        None if event.detail is None else event.detail[:DETAIL_LENGTH],
                        event.inferred,
                    ),
                )
            case AttemptEnd(planned=True) if self._is_of_now(event.attempt) and not self._is_down_by(event.attempt):
                self.state.planned_us = t_us
            case AttemptEnd() if not event.planned:
                self._failed(event.attempt, Report(t_us, "unknown", event.node, event.rank, event.reason))
            case FailureWithdrawn():
                self._withdraw(event, t_us)
            case RunEnd():
                if event.status == "failed" and not self.state.reports and self._course.attempt is not None:
                    self._failed(None, Report(t_us, "unknown", detail="the run ended as failed"))
                self._over(t_us, "run ended")
                self.state = FailureState(is_over=True)
            case _:
                pass

    def _is_of_now(self, attempt: int | str | None) -> bool:
        return attempt is None or str(attempt) == self._course.attempt

    def _is_down_by(self, attempt: int | str | None) -> bool:
        """Whether the run is down by a failure of this attempt; of the running one, where it has no name."""
        state = self.state
        return (
            bool(state.reports)
            and not (state.is_next and attempt in (None, self._course.attempt))
            and (attempt is None or str(attempt) == state.attempt)
        )

    def _failed(self, attempt: int | str | None, report: Report) -> None:
        state, course = self.state, self._course
        name = course.attempt if attempt is None else str(attempt)
        if self._is_down_by(name):
            if len(state.reports) < MAX_REPORTS:
                state.reports = sorted([*state.reports, report], key=lambda one: one.t_us)
            else:
                state.num_more += 1
            if len(state.reports) <= TOLD_AT_ONCE:
                self._say(report.t_us, is_final=True)
            return
        if name != course.attempt and name in course.past:
            return  # told late: another attempt runs
        if state.is_over or (state.planned_us is not None and report.t_us - state.planned_us <= NOTICE_US):
            return
        if state.reports:
            self._over(report.t_us, "the next attempt failed too")
        state.reports, state.num_more = [report], 0
        state.attempt, state.is_next = name, False
        self._stopped(report.t_us)
        self._board.evaluated(NAME)
        state.said_us = report.t_us
        self._say(report.t_us, is_final=True)

    def _stopped(self, at_us: int) -> None:
        """Note how the running attempt stands."""
        state, course = self.state, self._course
        has_stepped = course.last_us is not None
        state.stopped_us = course.last_us if course.last_us is not None else at_us
        state.last_step = course.last_step if has_stepped else None
        state.step_s = state.steps_s / state.num_steps if state.num_steps else course.one_s

    def _withdraw(self, event: FailureWithdrawn, t_us: int) -> None:
        state = self.state
        # Not by its time: events are put where they belong by a clock that is known.
        left = [it for it in state.reports if not it.inferred or (it.node, it.rank) != (event.node, event.rank)]
        if len(left) == len(state.reports) or not self._is_down_by(event.attempt):
            return
        if left:
            state.reports = left
            self._say(t_us, is_final=True)
        else:
            self._drop(t_us, f"withdrawn: {event.reason or 'it was none'}")

    # -- attempts and steps ------------------------------------------------------------------------------------------

    def begin(self, at_us: int) -> None:
        """Another attempt begins; the course still knows the one before."""
        state, course = self.state, self._course
        self._board.evaluated(NAME)
        is_told = state.is_over or state.planned_us is not None or (bool(state.reports) and not state.is_next)
        # Of one time: a log that has no time for a failure tells it with the start of the attempt that failed.
        is_told |= (
            bool(state.reports)
            and state.attempt == course.attempt
            and course.attempt_start_us <= state.reports[-1].t_us
        )
        if course.attempt is not None and not is_told:
            if course.last_us is None:
                self._failed(None, Report(at_us, "unknown", detail="it ended before its first step"))
            elif not state.reports and course.last_step is not None:
                self._stopped(at_us)
                last = Wordless(course.attempt, state.stopped_us, course.last_step, state.step_s, at_us)
                state.wordless = [*state.wordless, last][-MAX_WORDLESS:]
        state.is_next, state.is_over = True, False
        state.planned_us, state.num_steps, state.steps_s = None, 0, 0.0

    def step(self, point: Point) -> None:
        """Take a record of the lead, told to the course already."""
        state = self.state
        if state.reports or state.wordless:
            self._stepped(point)
        if point.dur_s == point.dur_s:
            state.num_steps += point.count
            state.steps_s += point.dur_s
        if state.planned_us is not None and point.t_us > state.planned_us + NOTICE_US:
            state.planned_us = None  # it was told to stop, and went on

    def _stepped(self, point: Point) -> None:
        state = self.state
        begun_us = point.t_us - (round(point.dur_s * SECOND_US) if point.dur_s == point.dur_s else 0)
        resume = point.step - point.count
        if state.reports and not state.is_next:
            # Ranks still tell the step that was under way.
            if point.t_us > state.reports[-1].t_us + LEEWAY_US and point.step > (state.last_step or 0):
                self._drop(point.t_us, "withdrawn: training went on")
            return
        wordless, state.wordless = state.wordless, []
        at_us = begun_us
        if state.reports:
            at_us = max(begun_us, state.reports[-1].t_us)
            self._say(at_us, resume=resume, is_final=True)
            self._over(at_us, "training resumed", resume, is_resumed=True)
            state.downs_s = [*state.downs_s, max(0, at_us - state.stopped_us) / SECOND_US][-MAX_DOWNS:]
            until_us = [one.until_us for one in wordless]
        else:
            until_us = [*[one.until_us for one in wordless[:-1]], at_us]
        for one, its_us in zip(wordless, until_us, strict=True):
            if resume < one.last_step:  # else it went on where it had stopped, for whatever reason
                self._say_wordless(one, its_us, at_us, resume)

    def _say_wordless(self, one: Wordless, until_us: int, at_us: int, resume: int) -> None:
        """Say of an attempt that is long over that it failed, since a later one goes on from before its end."""
        state = self.state
        state.attempt, state.last_step, state.step_s = one.attempt, one.last_step, one.step_s
        state.stopped_us = (
            one.stopped_us + at_us - until_us
        )  # nothing of it is counted but the time until the next began
        state.reports = [Report(one.stopped_us, "unknown", detail="it ended without a word")]
        state.said_us = at_us
        self._say(at_us, resume=resume, is_final=True)
        self._over(at_us, "training resumed", resume, is_resumed=True)

    def advance(self, to_us: int) -> None:
        """Nothing happened until ``to_us``: renewed at moments that don't depend on who looks when."""
        times = (to_us - self.state.said_us) // self._update_us
        if self.state.reports and times > 0:
            self.state.said_us += times * self._update_us
            self._say(self.state.said_us, is_final=True)

    def finish(self, at_us: int) -> None:
        """Nothing more is expected of the log: say all that was reported."""
        if len(self.state.reports) > TOLD_AT_ONCE:
            self._say(at_us, is_final=True)

    # -- what is said ------------------------------------------------------------------------------------------------

    def whole(self, incident: Incident) -> Incident:
        """An incident that was found elsewhere, with what its time costs; a death with what the run goes back to."""
        cost, course = incident.cost, self._course
        if cost is not None:
            incident = msgspec.structs.replace(incident, cost=course.cost(cost.wall_s, cost.basis))
        if incident.advice is None or incident.severity != "critical" or incident.cleared_us is not None:
            return incident
        step_s = self.state.steps_s / self.state.num_steps if self.state.num_steps else course.one_s
        landed = None if course.last_step is None else course.newest_before(course.last_step)
        told = [incident.advice]
        if landed is not None and course.last_step is not None:
            lost_s = None if step_s is None else (course.last_step - landed.step) * step_s
            told.append(_goes_back(landed.step, lost_s))
        if self.state.downs_s:
            told.append(f"restarts took {_short(float(np.median(self.state.downs_s)))} of late")
        return msgspec.structs.replace(incident, advice="; ".join(told))

    def _drop(self, at_us: int, outcome: str) -> None:
        self._board.clear(at_us, NAME, "run", outcome)
        self.state.reports, self.state.num_more = [], 0

    def _over(self, at_us: int, outcome: str, resume: int | None = None, *, is_resumed: bool = False) -> None:
        if self.state.reports:
            cost = self._cost(at_us, self._lost_s(resume))
            self._board.clear(at_us, NAME, "run", outcome, cost, "warning" if is_resumed else None)
            self.state.reports, self.state.num_more = [], 0

    def _lost_s(self, resume: int | None) -> float | None:
        """Work that is done again, ``resume`` the step that it goes on from; None: from the newest that has landed."""
        state = self.state
        if state.last_step is None:
            return 0.0
        if resume is None:
            landed = self._course.newest_before(state.last_step)
            resume = None if landed is None else landed.step
        if resume is None or state.step_s is None:
            return None
        return max(0, state.last_step - resume) * state.step_s

    def _cost(self, at_us: int, lost_s: float | None) -> Cost | None:
        down_s = max(0, at_us - self.state.stopped_us) / SECOND_US
        return self._course.cost(down_s + (lost_s or 0.0), BASIS if lost_s is not None else "time since the last step")

    def _say(self, at_us: int, resume: int | None = None, *, is_final: bool = False) -> None:
        state, course = self.state, self._course
        first, num = state.reports[0], len(state.reports) + state.num_more
        ranks = {one.rank for one in state.reports if one.rank is not None}
        nodes = {one.node for one in state.reports if one.node is not None}
        node = first.node if first.node is not None or first.rank is None else course.nodes.get(first.rank)
        categories = Counter(one.category for one in state.reports)
        lost_s, down_s = self._lost_s(resume), max(0, at_us - state.stopped_us) / SECOND_US
        who = f"rank {first.rank}" if first.rank is not None else ""
        who += f"{' on ' if who else ''}{node}" if node is not None else ""
        summary = f"the run stopped: {_what(first)}" + (f", {who} first" if who else "")
        if num > 1:
            summary += f"; {num - 1} more {'report' if num == 2 else 'reports'}"
        landed = None if state.last_step is None else course.newest_before(state.last_step)
        back = resume if resume is not None else None if landed is None else landed.step
        self._board.say(
            at_us,
            Verdict(
                detector=NAME,
                subject="run",
                severity="critical",
                since_us=first.t_us,
                summary=summary,
                evidence=Evidence(
                    value=float(num),
                    num_samples=num,
                    unit="reports",
                    more={
                        "category": first.category,
                        "detail": first.detail,
                        "num_ranks": len(ranks),
                        "num_nodes": len(nodes),
                        "categories": ", ".join(f"{name} {number}" for name, number in categories.most_common()),
                        "ranks": sorted(ranks)[:64],
                        "failed_attempt": state.attempt,
                        "last_step": state.last_step,
                        "resume_step": back,
                        "down_s": down_s,
                        "lost_s": lost_s,
                    },
                ),
                advice=_advice(first, node, back, lost_s),
                node=node,
                rank=first.rank,
                cost=self._cost(at_us, lost_s),
            ),
            is_final=is_final,
        )


def _advice(first: Report, node: str | None, resume: int | None, lost_s: float | None) -> str:
    """What to do, by what broke; and what it goes back to."""
    match first.category:
        case category if category in NODE_CATEGORIES and node is not None:
            told = f"drain {node} and start again without it"
        case category if category in NODE_CATEGORIES:
            told = "find the node in the first error, and start again without it"
        case "network":
            told = f"look at the links of {node or 'the node that failed first'} before it is used again"
        case "storage":
            told = "see that storage answers before starting again"
        case "collective_timeout":
            told = "look for the rank that was missing from the collective: those that report it only waited"
        case "software":
            told = "read the first error before starting again: the same may come again"
        case _:
            told = f"look at the log of {node}" if node is not None else "look at the log of the rank that ended first"
            told += ", and at what the nodes showed before"
    if resume is not None:
        told += f"; {_goes_back(resume, lost_s)}"
    return told


def _what(first: Report) -> str:
    """What broke, with the first line of what was said of it: ``a GPU failed (Xid 79)``."""
    said = first.detail.strip().splitlines()[0].strip() if first.detail and first.detail.strip() else ""
    said = said if len(said) <= SAID_LENGTH else said[: SAID_LENGTH - 1].rstrip() + "…"
    return WORDS.get(first.category, first.category) + (f" ({said})" if said else "")


def _short(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 59.5 else f"{seconds / 60:.0f} min"


def _goes_back(step: int, lost_s: float | None) -> str:
    if step == 0:
        return "it starts from scratch" + (
            f", and loses {_short(lost_s)} of work" if lost_s is not None and lost_s >= 30 else ""
        )
    lost = f" and loses {_short(lost_s)} of work" if lost_s is not None and lost_s >= 30 else ""
    return f"it goes back to the checkpoint of step {step}{lost}"
