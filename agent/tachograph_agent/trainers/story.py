"""What adapters share while they tell a run's story: its frame, a clock made of durations, and the order of steps.

``framed`` puts name and beginning to the events of a log; ``DurationClock`` gives a log without any clock a timeline;
``StepOrder`` tells a repeated row from a step number that went back; ``Pace`` turns the times between lines into the
durations of steps.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Literal

from tachograph_agent.events import (
    LATEST_UNIX_SECONDS,
    LONGEST_DURATION_SECONDS,
    AnyEvent,
    AttemptStart,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    RunEnd,
    RunStart,
    Step,
)
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.failures import FailureWatch
from tachograph_agent.trainers.text import Clock
from tachograph_agent.trainers.zones import LATE_S, set_back_note, was_set_back

FARTHEST_BACK_S: Final = 86_400.0
"""A line further back than this, behind what began the run in the log, doesn't date its beginning."""
NUM_REMEMBERED_STEPS: Final = 65_536
"""How far back a rewritten history is recognised; beyond, a falling step is a new attempt."""


_SAVES: Final = (CheckpointStart, CheckpointSaved, CheckpointPersisted, CheckpointFailed)
_OPENERS: Final = (Step, AttemptStart, CheckpointStart, CheckpointSaved)


def framed(events: Iterable[AnyEvent], context: Context) -> Iterator[AnyEvent]:
    """The events with the run's name, and one ``run.start`` for each run, told once its saves are known or unseen.

    The ``run.start`` comes last, dated at the earliest beginning; a log in which nothing trains has none.
    """
    begins_at: float | None = None
    saves_seen = False
    for event in _noting_norms(_on_one_clock(_without_empty_starts(events, context), context), context):
        event.run = context.run
        if event.dur is not None and not 0.0 <= event.dur < LONGEST_DURATION_SECONDS:  # also True for NaN
            context.note(f"A duration of {event.dur:g} s can't be right: it is taken as unknown.")
            event.dur = None
        if isinstance(event, RunEnd):
            if begins_at is not None:
                yield _run_start(context, begins_at, saves_seen)
            begins_at, saves_seen = None, False
            yield event
            continue
        if isinstance(event, _OPENERS):
            began = max(0.0, event.t - (event.dur or 0.0))
            # A single line of a wrong clock must not date the run: with its run.start it would be believed.
            if begins_at is None or begins_at - FARTHEST_BACK_S < began < begins_at:
                begins_at = began
        saves_seen = saves_seen or isinstance(event, _SAVES)
        yield event
    if begins_at is not None:
        yield _run_start(context, begins_at, saves_seen)


def _on_one_clock(events: Iterable[AnyEvent], context: Context) -> Iterator[AnyEvent]:
    """The events by one clock, where the steps of an attempt go on but their clock is set back, and right again."""
    behind_s = by_s = 0.0
    last: Step | None = None
    for event in events:
        if behind_s:
            event.t = min(event.t + behind_s, LATEST_UNIX_SECONDS - 1.0)
        if isinstance(event, Step):
            if last is not None and (last.attempt, last.rank) == (event.attempt, event.rank) and event.step > last.step:
                moved_s = 0.0
                if was_set_back(event.t, last.t):
                    if not by_s:
                        context.note(set_back_note(last.t - event.t, event.step))
                    moved_s = by_s = last.t + (event.dur or 0.0) - event.t
                elif behind_s and abs(event.t - last.t - by_s) <= LATE_S:
                    moved_s = -by_s
                event.t += moved_s
                behind_s += moved_s
            last = event
        yield event


def _noting_norms(events: Iterable[AnyEvent], context: Context) -> Iterator[AnyEvent]:
    """The events; a note where gradient norms are no numbers and the loss, which looks well, hides it."""
    num_records = num_bad = first = 0
    for event in events:
        if isinstance(event, Step):
            num_records += 1
            if event.grad_norm is not None and not math.isfinite(event.grad_norm) and math.isfinite(event.loss or 0.0):
                first = first if num_bad else event.step
                num_bad += 1
        yield event
    if num_bad > 1:  # a single one is what loss scaling does now and then
        context.note(
            f"The gradient norm is no number in {num_bad} of {num_records} records, first at step {first}, while the "
            "loss still was one: look at it, unless loss scaling skipped those steps."
        )


def _without_empty_starts(events: Iterable[AnyEvent], context: Context) -> Iterator[AnyEvent]:
    """The events, on a clock of durations without a start at whose very time a step of that attempt ended.

    At one time steps come before starts, so the step would be taken for one of the attempt before.
    """
    start: AttemptStart | None = None
    for event in events:
        if start is not None and isinstance(event, (*_OPENERS, RunEnd)):
            if not (isinstance(event, Step) and event.attempt == start.attempt and event.t <= start.t):
                yield start
            start = None
        if isinstance(event, AttemptStart) and not context.has_clock:
            start = event
        else:
            yield event
    if start is not None:
        yield start


def save_told(start: CheckpointStart, end_t: float, dur_s: float | None = None) -> list[AnyEvent]:
    """A save from its start to ``end_t``. Of one that took no visible time only the end is told.

    At one time ends of saves come before starts, so its start would open a save that never ends.
    """
    end = CheckpointSaved(t=end_t, attempt=start.attempt, step=start.step, mode=start.mode, dur=dur_s)
    if end_t > start.t:
        return [start, end]
    end.dur = 0.0
    return [end]


def just_before(t: float, before_t: float | None) -> float:
    """When an attempt began of which only the first record is seen, at ``t``: at the line before it, if earlier."""
    return before_t if before_t is not None and before_t < t else max(0.0, t - 0.001)


def _run_start(context: Context, t: float, saves_seen: bool) -> RunStart:
    return RunStart(t=t, run=context.run, checkpoints=None if saves_seen else "unseen")


class DurationClock:
    """The timeline of a log without any clock: it starts at ``context.start_unix_seconds``, else 0, and adds up."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._noted = False
        self.now: float = context.start_unix_seconds or 0.0

    def pass_time(self, dur_s: float | None) -> float:
        """Let ``dur_s`` seconds go by (unknown or negative: none) and give the time after them."""
        if not self._noted:
            self._noted = True
            self._context.has_clock = False
            where = (
                "it starts at 0 (--start places it)"
                if self._context.start_unix_seconds is None
                else "it starts where --start says"
            )
            self._context.note(f"The log has no clock: its timeline is made of the durations in it; {where}.")
        if dur_s is not None and 0.0 < dur_s < LONGEST_DURATION_SECONDS:  # also False for NaN
            self.now = round(self.now + dur_s, 6)
        return self.now


class Attempts:
    """The attempts of a log: which one it is in, how each began, and the failures between them.

    A log on a clock of durations has no ``clock``: times in its failure lines don't fit its timeline.
    """

    def __init__(self, context: Context, clock: Clock | None = None) -> None:
        self.watch = FailureWatch(context, clock or Clock(context), has_times=clock is not None)
        self._begun: int | None = None

    @property
    def number(self) -> int:
        """The attempt that the log is in, counted from 0."""
        return self.watch.attempt

    @property
    def begun(self) -> bool:
        """Whether this attempt has begun: its start or a step was seen."""
        return self._begun == self.watch.attempt

    def begin(self, t: float, resume_step: int | None = None) -> list[AnyEvent]:
        """A start was seen: of the next attempt, or of one that a launcher's lines have opened already."""
        if self.begun:
            events = self.watch.new_attempt(t, resume_step)
        else:
            events = [AttemptStart(t=t, attempt=self.watch.attempt, resume_step=resume_step)]
        self._begun = self.watch.attempt
        return events

    def stepped(self) -> list[AnyEvent]:
        """A step or save was seen."""
        self._begun = self.watch.attempt
        return self.watch.stepped()

    def feed(self, line: str, t: float | None) -> list[AnyEvent]:
        """A line that is no record: what it says of failures and restarts."""
        return self.watch.feed(line, t)

    def close(self) -> list[AnyEvent]:
        """The end of the log."""
        return self.watch.close()


class StepOrder:
    """Judges a record's step number against those before it in the attempt.

    A step seen before with the same values is a logger that repeats or rewrites its history; one that is not beyond
    the last, with other values, is a new attempt.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Hashable] = {}
        self.last: int | None = None

    def judge(self, step: int, values: Hashable) -> Literal["next", "repeat", "back"]:
        """``next``, or ``repeat`` (drop it), or ``back`` (call ``restart`` and judge again)."""
        if self.last is not None and step <= self.last:
            return "repeat" if self._seen.get(step) == values else "back"
        self.last = step
        if len(self._seen) >= NUM_REMEMBERED_STEPS:
            del self._seen[next(iter(self._seen))]
        self._seen[step] = values
        return "next"

    def restart(self) -> None:
        """Forget all: a new attempt begins."""
        self._seen.clear()
        self.last = None


class Pace:
    """Durations of records that have only a time: a record lasted since the one before it, less what stood between.

    An attempt's first record has none before it. Where the beginning of training is known it lasted since then; else
    it waits for the second record, and each of its steps is taken to have lasted as long as one of those (or, where
    both tell their throughput, in proportion).
    """

    def __init__(self) -> None:
        self._begin: float | None = None
        self._not_before: float | None = None
        self._resume_step: int | None = None
        self._last: Step | None = None
        self._held_rate: float | None = None
        self._held: Step | None = None
        self._pauses_s = 0.0

    def restart(
        self, begin: float | None, resume_step: int | None = None, *, not_before: float | None = None
    ) -> list[Step]:
        """Begin a new attempt, whose training began at ``begin``, else somewhere after ``not_before``.

        Gives the record that was still held back.
        """
        held = self.flush()
        self._not_before = not_before
        self._begin, self._resume_step, self._last, self._pauses_s = begin, resume_step, None, 0.0
        return held

    def flush(self) -> list[Step]:
        """The record that is still held back, without a duration."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def pause(self, dur_s: float | None) -> None:
        """A save or an evaluation took ``dur_s`` of the time since the last record."""
        self._pauses_s += dur_s or 0.0

    def add(self, record: Step, rate: float | None = None) -> list[Step]:
        """Take a record that has its time and step; gives the records whose duration is now known, in order."""
        last, pauses_s = self._last, self._pauses_s
        self._last, self._pauses_s = record, 0.0
        if last is None:
            if self._resume_step is not None and record.step > self._resume_step:
                record.count = record.step - self._resume_step
            if self._begin is not None and record.t > self._begin:
                record.dur = round(max(0.0, record.t - self._begin - pauses_s), 6)
                return [record]
            self._held, self._held_rate = record, rate
            return []
        record.count = max(1, record.step - last.step)
        elapsed = record.t - last.t
        if elapsed > 0.0:
            record.dur = round(max(0.0, elapsed - pauses_s), 6)
        if self._held is not None and record.dur is not None:
            self._fill_held(self._held, record.dur / record.count, record.count, rate)
        return [*self.flush(), record]

    def _fill_held(self, held: Step, one_s: float, count: int, rate: float | None) -> None:
        if self._resume_step is None or held.step <= self._resume_step:
            held.count = max(1, min(held.step, count))
        if rate is not None and self._held_rate is not None and rate > 0.0 and self._held_rate > 0.0:
            one_s *= rate / self._held_rate
        held.dur = round(one_s * held.count, 6)
        if self._not_before is not None and held.t > self._not_before:
            held.dur = min(held.dur, round(held.t - self._not_before, 6))
