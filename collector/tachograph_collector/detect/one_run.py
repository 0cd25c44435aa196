"""All detectors of one run: puts what was heard into the order of time, finds attempts, and hands it round."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray
from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    Heartbeat,
    Rollback,
    RunEnd,
    Step,
    canonical,
    decode,
    encode,
    microseconds,
)

from tachograph_collector.detect.board import Board, BoardState
from tachograph_collector.detect.clocks import Clocks, ClocksState
from tachograph_collector.detect.columns import NO_RANK, StepColumns, columns_of, joined
from tachograph_collector.detect.corruption import CorruptionDetector, CorruptionState
from tachograph_collector.detect.course import LEEWAY_US, MAX_PAST, SECOND_US, Course, Point
from tachograph_collector.detect.failure import FailureDetector, FailureState
from tachograph_collector.detect.goodput import GoodputDetector, GoodputState
from tachograph_collector.detect.hang import HangDetector, HangState
from tachograph_collector.detect.job_slow import JobSlowDetector, JobSlowState
from tachograph_collector.detect.loss import LossDetector, LossState
from tachograph_collector.detect.node_health import NodeHealthDetector, NodeHealthState
from tachograph_collector.detect.periodic import PeriodicDetector, PeriodicState
from tachograph_collector.detect.restarts import RestartsDetector, RestartsState
from tachograph_collector.detect.saves import SavesDetector, SavesState
from tachograph_collector.detect.settings import Settings
from tachograph_collector.detect.straggler import StragglerDetector
from tachograph_collector.detect.verdict import Incident
from tachograph_collector.detect.waiting import TAKE_OVER_STEPS, waiting_for_lead
from tachograph_collector.detect.work_rows import StragglerState

MAX_ROWS: Final = 65_536
"""Records looked at at once: bounds what is held besides them."""
Places: TypeAlias = NDArray[np.intp]
TAKE_OVER_TIMES: Final = 5
"""When the lead is ``TAKE_OVER_STEPS`` behind another rank, that one is judged by if the lead has been silent for so
many steps' time, too: else the other one's clock is behind."""


class RunState(Struct):
    """What is saved of one run."""

    board: BoardState = field(default_factory=BoardState)
    course: Course = field(default_factory=Course)
    clocks: ClocksState = field(default_factory=ClocksState)
    straggler: StragglerState = field(default_factory=StragglerState)
    loss: LossState = field(default_factory=LossState)
    hang: HangState = field(default_factory=HangState)
    job_slow: JobSlowState = field(default_factory=JobSlowState)
    saves: SavesState = field(default_factory=SavesState)
    restarts: RestartsState = field(default_factory=RestartsState)
    failure: FailureState = field(default_factory=FailureState)
    goodput: GoodputState = field(default_factory=GoodputState)
    periodic: PeriodicState = field(default_factory=PeriodicState)
    nodes: NodeHealthState = field(default_factory=NodeHealthState)
    corruption: CorruptionState = field(default_factory=CorruptionState)
    steps: list[StepColumns] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    done_us: int | None = None
    looked_us: int | None = None
    quiet_from_us: int = 0
    num_late: int = 0


class RunDetectors:
    """Takes the events of one run in any order, and judges them in the order of time. Not thread-safe."""

    def __init__(self, run: str, settings: Settings, state: RunState | None = None) -> None:
        state = RunState() if state is None else state
        self._settings = settings
        self._course = state.course
        self._clocks = Clocks(state.clocks)
        self.board = Board(run, settings.common, state.board)
        self._straggler = StragglerDetector(
            settings.straggler, settings.common, self.board, self._course, state.straggler
        )
        self._loss = LossDetector(settings.loss, self.board, self._course, state.loss)
        self._hang = HangDetector(settings.hang, settings.common, self.board, self._course, state.hang)
        self._slow = JobSlowDetector(settings.job_slow, self.board, self._course, state.job_slow)
        self._periodic = PeriodicDetector(settings.periodic_slow, self.board, self._course, state.periodic)
        self._saves = SavesDetector(settings.checkpoints, settings.retention, self.board, self._course, state.saves)
        self._failure = FailureDetector(settings.common, self.board, self._course, state.failure)
        self._restarts = RestartsDetector(settings.restarts, self.board, self._course, state.restarts)
        self.goodput = GoodputDetector(
            settings.goodput, settings.interval, settings.restart_phase, self.board, self._course, state.goodput
        )
        self._nodes = NodeHealthDetector(settings.node_health, settings.common, self.board, self._course, state.nodes)
        self._corruption = CorruptionDetector(
            settings.corruption, settings.common, self.board, self._course, state.corruption
        )
        self._steps = state.steps
        self._others = [decode(line) for line in state.others]
        self._done_us = state.done_us
        self._looked_us = state.looked_us
        self._quiet_from_us = state.quiet_from_us
        self.num_late = state.num_late
        """Events that came after what followed them had been judged; steps of them were left out."""
        self.board.attempt, self.board.is_replayed = self._course.attempt, self._course.is_replayed

    def state(self) -> RunState:
        """What ``__init__`` goes on from."""
        return RunState(
            self.board.state(),
            self._course,
            self._clocks.state,
            self._straggler.state,
            self._loss.state,
            self._hang.state,
            self._slow.state,
            self._saves.state,
            self._restarts.state,
            self._failure.state,
            self.goodput.state,
            self._periodic.state,
            self._nodes.state,
            self._corruption.state,
            self._steps,
            [encode(event) for event in self._others],
            self._done_us,
            self._looked_us,
            self._quiet_from_us,
            self.num_late,
        )

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take events of this run."""
        steps = [event for event in events if type(event) is Step]
        if steps:
            self.add_steps(columns_of(steps))
        if len(steps) < len(events):
            self._clocks.hear(events)
            others = [event for event in events if type(event) is not Step and type(event) is not Heartbeat]
            if len(steps) + len(others) < len(events):
                self._nodes.heard_agent()
            self._others += others

    def add_steps(self, columns: StepColumns) -> None:
        """Take steps of this run as columns, one at least."""
        self._steps.append(self._clocks.take(columns))

    def know(self, incident: Incident) -> Incident:
        """Take an incident that was found elsewhere; gives it back with what is known of it here."""
        return self.board.know(self._failure.whole(incident))

    @property
    def num_pending(self) -> int:
        """Step records that are held to be judged in order."""
        return sum(map(len, self._steps))

    def settle(self, behind_us: int) -> None:
        """Judge what is so long before the newest event."""
        newest_us = self._reached_us()
        if newest_us is not None:
            self._judge_until(newest_us - behind_us)

    def note_look(self, looked_us: int) -> None:
        """It was looked at then, by whoever."""
        self._looked_us = max(self._looked_us or looked_us, looked_us)

    def look(self, now_us: int | None, *, is_complete: bool = False) -> None:
        """Judge what is settled by ``now_us``; all of it, as a finished log, for None."""
        if self._done_us is None and not self._steps and not self._others:
            return
        common = self._settings.common
        if now_us is None:
            reached_us = self._reached_us()
            assert reached_us is not None
            until_us = max(reached_us, self._done_us or reached_us)
            self._judge_until(until_us, is_end=True)
        else:
            if is_complete:
                until_us = now_us
            else:
                if self._looked_us is not None and now_us - self._looked_us > common.behind_s * SECOND_US:
                    self._quiet_from_us = now_us
                self._looked_us = now_us
                until_us = now_us - round(common.settle_s * SECOND_US)
            self._judge_until(until_us)
        self._advance(until_us, self._quiet_from_us)
        if now_us is None:
            self._failure.finish(until_us)
            self._nodes.finish(until_us)
            self._corruption.finish(until_us)

    def _reached_us(self) -> int | None:
        """How far the run has come by the newest word of whoever's clock can be told; else by any word."""
        steps = self._gather(None)
        told_us = [int(steps.t_us[-1])] if steps is not None else []
        known = set(self._course.nodes.values())
        if steps is not None:
            known.update(node for nodes in steps.nodes.values() for node in nodes.values())
        others = [(self._placed_us(event, known), event.node) for event in self._others]
        told_us += [t_us for t_us, node in others if node is None or node in known or self._clocks.is_known(node)]
        if self._done_us is not None:
            told_us.append(self._done_us)
        return max(told_us or (t_us for t_us, _ in others), default=None)

    def _placed_us(self, event: AnyEvent, known: Set[str | None]) -> int:
        lead = self._course.lead
        return self._clocks.place(event, None if lead is None else self._course.nodes.get(lead), known)

    def _gather(self, until_us: int | None) -> StepColumns | None:
        """What is held of steps, in order of time; by the lead's clock, what is due by then (None: all)."""
        if not self._steps:
            return None
        steps = self._clocks.correct(joined(self._steps), until_us, self._course.nodes)
        self._steps = [steps]
        return steps

    def _advance(self, to_us: int, not_before_us: int = 0) -> None:
        """Nothing happened until ``to_us``."""
        self._hang.advance(to_us, not_before_us)
        self._saves.advance(to_us, not_before_us)
        self._failure.advance(to_us)
        self._restarts.advance(to_us)
        self._advance_nodes(to_us)

    def _advance_nodes(self, to_us: int) -> None:
        self._nodes.advance(to_us)
        self._corruption.advance(to_us)

    def _judge_until(self, until_us: int, *, is_end: bool = False) -> None:
        steps = self._due_steps(until_us)
        begin = 0
        due = self._due_others(until_us, is_end=is_end)
        times_us = np.array([t_us for t_us, _ in due], dtype=np.int64)
        ends = [0] * len(due) if steps is None else np.searchsorted(steps.t_us, times_us, side="right").tolist()
        for (t_us, event), end in zip(due, ends, strict=True):
            if steps is not None and end > begin:
                self._take_steps(steps.take(slice(begin, end)))
                begin = end
            if self._done_us is not None and t_us <= self._done_us:
                self.num_late += 1  # it is heard all the same: a save that landed has landed
            elif t_us <= until_us:
                self._advance(t_us)
            else:
                self._advance_nodes(t_us)  # by a clock that nobody knows: what the run does then can't be said
            self._hear(event, t_us)
        if steps is not None:
            self._take_steps(steps.take(slice(begin, None)))
        self._done_us = until_us if self._done_us is None else max(self._done_us, until_us)
        self._clocks.forget(self._done_us)

    def _due_others(self, until_us: int, *, is_end: bool) -> list[tuple[int, AnyEvent]]:
        """Events that are no steps and due by then (all, where the log ends), each once, by the lead's clock."""
        if not self._others:
            return []
        known = set(self._course.nodes.values())
        for columns in self._steps:
            known.update(node for nodes in columns.nodes.values() for node in nodes.values())
        due: list[tuple[int, AnyEvent]] = []
        stays: list[AnyEvent] = []
        for event in self._others:
            t_us = self._placed_us(event, known)
            if t_us <= until_us or is_end:
                due.append((t_us, event))
            else:
                stays.append(event)
        self._others = stays
        due = list({canonical(event): (t_us, event) for t_us, event in due}.values())
        due.sort(key=lambda one: (one[0], _PLACE.get(one[1].kind, 1), canonical(one[1])))
        return [
            (t_us, event if microseconds(event.t) == t_us else msgspec.structs.replace(event, t=t_us / 1e6))
            for t_us, event in due
        ]

    def _due_steps(self, until_us: int) -> StepColumns | None:
        """Steps that are due by then, in order of time; what comes too late is left out."""
        steps = self._gather(until_us)
        if steps is None:
            return None
        num = int(np.searchsorted(steps.t_us, until_us, side="right"))
        later, steps = steps.take(slice(num, None)), steps.take(slice(0, num))
        held = waiting_for_lead(self._clocks, self._course, steps, until_us, self._done_us)
        if held is not None:
            later, steps = joined([later, steps.take(held)]) if len(later) else steps.take(held), steps.take(~held)
        self._steps = [later] if len(later) else []
        self._clocks.judged(steps)
        if self._done_us is not None and len(steps) and steps.t_us[0] <= self._done_us:
            late = int(np.searchsorted(steps.t_us, self._done_us, side="right"))
            self.num_late += late
            steps = steps.take(slice(late, None))
        return steps

    # -- other events ------------------------------------------------------------------------------------------------

    def _hear(self, event: AnyEvent, t_us: int) -> None:
        course = self._course
        course.hear(event)
        if isinstance(event, AttemptStart):
            name = "0" if event.attempt is None else str(event.attempt)
            of_all = event.rank is None or event.rank == course.lead or course.lead is None
            if course.attempt is not None and t_us < course.attempt_start_us:
                if name != course.attempt:
                    course.past.append(name)  # told late: it began before the one that runs
                    del course.past[:-MAX_PAST]
            elif name != course.attempt or (course.last_step is not None and of_all):
                if event.resume_step is not None:
                    course.went_back(event.resume_step)
                self._begin(name, t_us)
        elif isinstance(event, Rollback):
            course.went_back(event.to_step)
            course.top_step = max(course.top_step, course.max_step)
            course.last_step = min(event.to_step, course.last_step or 0)
            self._loss.reset(t_us, "rolled back")
            self.board.is_replayed = course.is_replayed
        elif isinstance(event, RunEnd):
            self._straggler.reset(t_us)
            self._loss.reset(t_us, "run ended")
            self._slow.reset(t_us)
            self._periodic.reset(t_us)
        self._periodic.hear(event)
        self._hang.hear(event)
        self._saves.hear(event)
        self._failure.hear(event)
        self._restarts.hear(event)
        self._nodes.hear(event)
        self._corruption.hear(event)

    def _begin(self, name: str, at_us: int) -> None:
        self._straggler.reset(at_us)
        self._loss.reset(at_us)
        self._nodes.begin(at_us)
        self._corruption.begin(at_us)
        self._failure.begin(at_us)
        self._restarts.end(at_us)
        self._course.begin(name, at_us)
        self._hang.reset(at_us)
        self._slow.reset(at_us)
        self._periodic.reset(at_us)
        self._saves.begin(at_us)
        self.board.attempt, self.board.is_replayed = name, False
        self._restarts.begin(name, at_us)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _take_steps(self, steps: StepColumns) -> None:
        """Take records in order of time, cut where an attempt begins and where all were silent for long."""
        while len(steps):
            course = self._course
            name = steps.attempt[int(steps.attempt_index[0])]
            if name != course.attempt:
                if name in course.past:
                    past = [place for place, one in enumerate(steps.attempt) if one in course.past]
                    is_past = np.isin(steps.attempt_index, past)
                    self.num_late += int(is_past.sum())
                    steps = steps.take(~is_past)
                    continue
                dur_s = float(steps.dur_s[0])
                self._begin(name, int(steps.t_us[0]) - (round(dur_s * SECOND_US) if dur_s == dur_s else 0))
            others = np.nonzero(steps.attempt_index != steps.attempt_index[0])[0]
            end = min(int(others[0]) if len(others) else len(steps), MAX_ROWS)
            silent = np.nonzero(np.diff(steps.t_us[:end]) > self._settings.hang.least_s * SECOND_US)[0]
            end = int(silent[0]) + 1 if len(silent) else end
            end = self._take_attempt(steps.take(slice(0, end)))
            steps = steps.take(slice(end, None))

    def _take_attempt(self, steps: StepColumns) -> int:
        """Take records of the running attempt, up to one that begins it anew; says how many were taken."""
        course = self._course
        self._advance(int(steps.t_us[0]))
        lowest = int(steps.rank.min())
        is_another = course.lead is not None and lowest < course.lead
        if course.lead is None or is_another:
            course.lead = lowest
        with_loss = steps.rank[steps.has_loss]
        if len(with_loss) and (course.loss_lead is None or int(with_loss.min()) < course.loss_lead):
            course.loss_lead = int(with_loss.min())
        lead = self._once(steps, np.nonzero(steps.rank == course.lead)[0], is_another=is_another)
        again = self._begun_anew(steps, lead)
        if again is not None:
            place = int(lead[again])
            if place == 0:
                self._begin(str(course.attempt), int(steps.t_us[0]))
                return 0
            steps, lead = steps.take(slice(0, place)), lead[:again]
        self._know_places(steps)
        for place in lead.tolist():
            before = course.last_step
            is_eligible = course.note(
                int(steps.t_us[place]),
                int(steps.step[place]),
                int(steps.count[place]),
                float(steps.dur_s[place]),
                self._settings.common,
            )
            self.board.is_replayed = course.is_replayed
            stride = None if before is None else (int(steps.step[place]) - before) / float(steps.count[place])
            self._hang.step(float(steps.dur_s[place]), stride)
            point = self._point(steps, place, is_eligible)
            self._failure.step(point)
            self._slow.step(point)
            self._periodic.step(point)
            if course.loss_lead in (None, course.lead):
                self._loss.step(point)
                self._corruption.step(point)
        if course.loss_lead not in (None, course.lead):
            for place in np.nonzero(steps.rank == course.loss_lead)[0].tolist():
                is_eligible = course.eligible_step is not None and int(steps.step[place]) >= course.eligible_step
                point = self._point(steps, place, is_eligible)
                self._loss.step(point)
                self._corruption.step(point)
        since_us = course.goes_on(steps)
        if course.first_us is not None and since_us is not None:
            self._saves.training(since_us or course.first_us)
        self._know_places(steps)
        if since_us is not None:
            self._hang.rows(steps)
        course.max_told = max(course.max_told, int(steps.step.max()))
        self._straggler.rows(steps)
        self._corruption.rows(steps)
        if course.last_step is not None and int(steps.step.max()) > course.last_step + TAKE_OVER_STEPS:
            silent_us = int(steps.t_us[-1]) - (course.last_us or 0)
            if course.one_s is None or silent_us > TAKE_OVER_TIMES * course.one_s * SECOND_US:
                course.lead = int(steps.rank[steps.step == steps.step.max()].min())
                self._clocks.lead_is(str(course.attempt), course.lead, steps)
        return len(steps)

    def _once(self, steps: StepColumns, lead: Places, *, is_another: bool) -> Places:
        """The lead's records without those that are told again: the same step, less than half of one step later.

        Where it ``is_another`` than before, also without those that the one before told already, by its own clock.
        """
        if not len(lead):
            return lead
        course = self._course
        numbers, t_us = steps.step[lead], steps.t_us[lead]
        before = (-1, 0) if course.last_step is None else (course.last_step, course.last_us or 0)
        later_us = t_us - np.concatenate([[before[1]], t_us[:-1]])
        same = numbers == np.concatenate([[before[0]], numbers[:-1]])
        with np.errstate(invalid="ignore"):
            is_again = same & (later_us < steps.one_s[lead] * SECOND_US / 2)
        if is_another and course.last_step is not None:
            is_again |= (numbers <= course.last_step) & (t_us <= (course.last_us or 0) + LEEWAY_US)
        return np.asarray(lead[~is_again], dtype=np.intp)

    def _begun_anew(self, steps: StepColumns, lead: Places) -> int | None:
        """Which record of the lead is the first that doesn't go on from the one before, as a place in ``lead``."""
        if not len(lead):
            return None
        before = self._course.last_step
        numbers = steps.step[lead]
        previous = np.concatenate([[-1 if before is None else before], numbers[:-1]])
        back = np.nonzero(numbers <= previous)[0]
        return int(back[0]) if len(back) else None

    def _know_places(self, steps: StepColumns) -> None:
        course = self._course
        nodes, stages = steps.nodes.get(str(course.attempt), {}), steps.stages.get(str(course.attempt), {})
        if len(course.nodes) < len(nodes) or any(rank not in course.nodes for rank in nodes):
            course.nodes.update(nodes)
            course.stages.update({rank: stage for rank, stage in stages.items() if rank != NO_RANK})

    @staticmethod
    def _point(steps: StepColumns, place: int, is_eligible: bool) -> Point:
        return Point(
            int(steps.t_us[place]),
            int(steps.step[place]),
            int(steps.count[place]),
            float(steps.one_s[place]),
            float(steps.dur_s[place]),
            float(steps.loss[place]),
            bool(steps.has_loss[place]),
            float(steps.norm[place]),
            bool(steps.has_norm[place]),
            is_eligible,
        )


_PLACE: Final = {
    "phase": 0, "checkpoint.saved": 0, "checkpoint.persisted": 0, "checkpoint.failed": 0, "checkpoint.start": 1,
    "rollback": 2, "failure": 3, "attempt.end": 3, "run.end": 4, "run.start": 5, "attempt.start": 6,
    "phase.start": 7,
}  # fmt: skip
"""At one time: ends of saves and phases, starts of saves, rollbacks, failures and ends, then what begins."""
