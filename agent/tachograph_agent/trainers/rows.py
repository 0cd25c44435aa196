"""Step lines as a story: a format's reader tells rows and marks, ``Rows`` makes attempts, steps and saves of them.

A row is one line for one or more steps. Whether the log has times of day shows in its first row or mark: with them a
row lasts since the one before it, or as long as its own figure says; without, the timeline is made of such figures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tachograph_agent.events import (
    LARGEST_STEP,
    AnyEvent,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Phase,
    RunEnd,
    Step,
)
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, DurationClock, Pace, StepOrder, just_before, save_told
from tachograph_agent.trainers.text import Clock, split_prefix
from tachograph_agent.trainers.zones import was_set_back

STAMP_SECONDS: Final = 1.0
"""Times of day are often whole seconds: a row's own figure may exceed the time between two lines by this much."""
MOST_CHARACTERS: Final = 20_000
"""So much of a line is searched: patterns that look for the end of a record must not look through megabytes."""
_LONGEST_STEP_S: Final = 1e7


@dataclass(slots=True)
class Row:
    """One record: ``step`` are done at ``t`` (Unix seconds, None without a clock), one took ``one_s`` on average."""

    step: int
    t: float | None = None
    one_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    tokens: float | None = None
    count: int | None = None
    """How many steps the first record of an attempt stands for, where the reader knows better."""
    values: Hashable = None
    """What makes two records of one step the same; the whole line mostly."""


def bare(line: str) -> tuple[str, str]:
    """The line without colours and launchers' prefixes, and whose line it is (empty: nobody's in particular)."""
    text, rank = split_prefix(line)
    if rank is not None:
        return text, str(rank)
    prefix = "" if "\x1b" in line else line[: len(line) - len(text)]
    return text, "" if "pid=" in prefix else prefix


class Rows:
    """What the lines of one log become. Each method gives the events that are now known.

    ``timed`` says whether lines have times of day where that doesn't show in the first row or mark.
    """

    def __init__(self, context: Context, *, timed: bool | None = None) -> None:
        self.context = context
        self.clock = Clock(context)
        self.attempts = Attempts(context, self.clock)
        self.order = StepOrder()
        self.pace = Pace()
        self.durations = DurationClock(context)
        self.t: float | None = None
        """The time of day of the last row or mark."""
        self._timed = timed
        self._origin: str | None = None
        self._rates: deque[float | None] = deque()
        self._held: Row | None = None
        self._resume_step: int | None = None
        self._save: CheckpointStart | None = None
        self._finished = False
        self._last_line_number = -1
        self._first = True
        self._last_step_t: float | None = None
        self._before = 0
        """The step of the record before, where there is no clock."""

    # -- what a reader tells -----------------------------------------------------------------------------------------

    def start(self, t: float | None, resume_step: int | None, *, up_at: float | None = None) -> Iterator[AnyEvent]:
        """Training starts after ``resume_step`` steps; its process is up since ``up_at`` (None: since now)."""
        yield from self._end_of_attempt()
        if self._finished and not resume_step:
            yield from self._run_end()
        self._finished = False
        at = self._at(t)
        yield from self._begin(at if up_at is None else min(up_at, at), resume_step, began=at, before_t=at)

    def row(self, row: Row, line_number: int, origin: str = "") -> Iterator[AnyEvent]:
        """A record; of several ranks that print the same, only the first's count."""
        if self._origin is None:
            self._origin = origin
        if origin != self._origin:
            self.context.note("Several ranks print their steps: only the first one's were taken.")
            return
        if not 0 <= row.step <= LARGEST_STEP:
            self.context.skip(line_number, "a step number that can't be one")
            return
        is_adjacent = line_number == self._last_line_number + 1
        self._last_line_number = line_number
        last = self.order.last
        if last == row.step and is_adjacent:
            return  # another rank's, without a prefix
        row.one_s = row.one_s if row.one_s is not None and 0.0 <= row.one_s < _LONGEST_STEP_S else None
        verdict = self.order.judge(row.step, row.values)
        if verdict == "repeat":
            return
        before_t = self.t
        at = self._at(row.t)
        if verdict == "back":
            yield from self._end_of_attempt()
            yield from self._begin(just_before(at, before_t) if self._timed else at, None, before_t=before_t)
        elif not self.attempts.begun:
            yield from self._begin(just_before(at, before_t) if self._timed else at, None, before_t=before_t)
        if verdict == "back" or last is None:
            self.order.judge(row.step, row.values)
        yield from self._save_over(max(0.0, at - (row.one_s or 0.0) * max(1, row.step - (last or 0))))
        yield from self.attempts.stepped()
        yield from self._timed_row(row, at, last) if self._timed else self._untimed_row(row)

    def evaluated(self, t: float | None, dur_s: float | None) -> Iterator[AnyEvent]:
        """An evaluation is over that took ``dur_s``."""
        if dur_s is None or not 0.0 < dur_s < _LONGEST_STEP_S or not self.attempts.begun:
            return
        yield from self._flush()
        at = self._at(t) if self._timed else self.durations.pass_time(dur_s)
        yield from self._save_over(at - dur_s)
        self.pace.pause(dur_s)
        yield Phase(t=at, attempt=self.attempts.number, name="eval", dur=dur_s)

    def save_begun(self, t: float | None, step: int | None = None) -> Iterator[AnyEvent]:
        """A save begins, of ``step`` or of what was done last; it is over with ``saved``, or with the next row."""
        step = self.order.last if step is None else step
        yield from self._flush()
        yield from self._broken_off()
        if step is not None and 0 <= step <= LARGEST_STEP:
            self._save = CheckpointStart(t=self._at(t), attempt=self.attempts.number, step=step)

    def saved(self, t: float | None, step: int | None = None, dur_s: float | None = None) -> Iterator[AnyEvent]:
        """A save is over, which took ``dur_s`` or since ``save_begun``."""
        start, self._save = self._save, None
        step = step if step is not None else start.step if start is not None else self.order.last
        if step is None or not 0 <= step <= LARGEST_STEP:
            return
        yield from self._flush()
        dur_s = dur_s if dur_s is not None and 0.0 <= dur_s < _LONGEST_STEP_S else None
        at = self._at(t) if self._timed is not False else self.durations.pass_time(dur_s)
        if start is not None and start.step == step and dur_s is None:
            self.pace.pause(max(0.0, at - start.t))
            yield from save_told(start, at)
        else:
            self.pace.pause(dur_s)
            yield CheckpointSaved(t=at, attempt=self.attempts.number, step=step, dur=dur_s)

    def scheduled(self, t: float | None, step: int) -> Iterator[AnyEvent]:
        """A save goes on beside training from now; ``landed`` tells its end."""
        yield from self._flush()
        if 0 <= step <= LARGEST_STEP:
            yield CheckpointSaved(t=self._at(t), attempt=self.attempts.number, step=step, mode="async", dur=0.0)

    def landed(self, t: float | None, step: int) -> Iterator[AnyEvent]:
        """A save that went on beside training can be restored."""
        if 0 <= step <= LARGEST_STEP:
            yield CheckpointPersisted(t=self._at(t), attempt=self.attempts.number, step=step)

    def pause(self) -> Iterator[AnyEvent]:
        """Everything that was held back: what comes now is told apart from it."""
        yield from self._end_of_attempt()

    def finished(self, t: float | None) -> None:
        """Training is complete."""
        if self.attempts.begun:
            self._finished = True
            self._at(t)

    def other(self, line: str) -> Iterator[AnyEvent]:
        """A line that is neither."""
        yield from self.attempts.feed(line, self.t if self._timed is not False else self.durations.now)

    def close(self) -> Iterator[AnyEvent]:
        """The end of the log."""
        yield from self._end_of_attempt()
        yield from self.attempts.close()
        if self._finished:
            yield from self._run_end()

    # -- how it is done ----------------------------------------------------------------------------------------------

    def _at(self, t: float | None) -> float:
        """A place on the timeline for what is told at ``t``."""
        if self._timed is None:
            self._timed = t is not None
            self.attempts.watch.has_times = self._timed
        if not self._timed:
            return self.durations.pass_time(None)
        if t is not None:
            self.t = t
        return 0.0 if self.t is None else self.t

    def _run_end(self) -> Iterator[AnyEvent]:
        self._finished = False
        at = self.t if self._timed else self.durations.now
        if at is not None:
            yield RunEnd(t=at)

    def _begin(
        self, up_at: float, resume_step: int | None, *, began: float | None = None, before_t: float | None = None
    ) -> Iterator[AnyEvent]:
        self.order.restart()
        self._resume_step, self._first = resume_step, True
        self.pace.restart(began if resume_step is not None else None, resume_step, not_before=before_t)
        yield from self.attempts.begin(up_at, resume_step)

    def _end_of_attempt(self) -> Iterator[AnyEvent]:
        yield from self._flush()
        yield from self._broken_off()

    def _flush(self) -> Iterator[AnyEvent]:
        """What was held back, as it can be told without a second record."""
        yield from map(self._with_own_duration, self.pace.flush())
        if self._held is not None:
            yield from self._take_held(1)

    def _broken_off(self) -> Iterator[AnyEvent]:
        start, self._save = self._save, None
        if start is not None:
            yield start

    def _save_over(self, t: float) -> Iterator[AnyEvent]:
        """A row shows that a save is over: at the latest when the row's steps began."""
        start, self._save = self._save, None
        if start is not None:
            end_t = max(start.t, t)
            self.pace.pause(end_t - start.t)
            yield from save_told(start, end_t)

    def _timed_row(self, row: Row, at: float, last: int | None) -> Iterator[AnyEvent]:
        # What is far back is a clock that was set back, which ``framed`` sees to.
        if (
            last is not None
            and self._last_step_t is not None
            and at <= self._last_step_t
            and not was_set_back(at, self._last_step_t)
        ):
            # Several in one second: each a little later, so that their order stays.
            rest_s = max(0.0, at + 0.999 - self._last_step_t)
            at = self._last_step_t + min(row.one_s or rest_s, rest_s) / 8.0
        self._last_step_t = at
        self._rates.append(row.one_s)
        record = self._step(row, at)
        for step in self.pace.add(record):
            yield self._with_own_duration(step)

    def _with_own_duration(self, step: Step) -> Step:
        """The step with the duration that its row told, where that can be; its first row includes the warm-up."""
        one_s = self._rates.popleft() if self._rates else None
        first, self._first = self._first, False
        if one_s is not None and not (first and step.dur is not None and self._resume_step is not None):
            own_s = one_s * step.count
            if step.dur is None or own_s <= step.dur + STAMP_SECONDS:
                step.dur = round(own_s, 6)
        return step

    def _untimed_row(self, row: Row) -> Iterator[AnyEvent]:
        if self._held is not None:
            yield from self._take_held(max(1, row.step - self._held.step))
        elif self._first and self._resume_step is None and row.count is None:
            self._held, self._first = row, False
            return
        first, self._first = self._first, False
        if first and self._resume_step is not None:
            self._before = self._resume_step
        yield self._told(row, row.count if first and row.count else max(1, row.step - self._before))

    def _take_held(self, interval: int) -> Iterator[AnyEvent]:
        row, self._held = self._held, None
        if row is not None:
            yield self._told(row, row.count or max(1, min(row.step, interval)))

    def _told(self, row: Row, count: int) -> Step:
        self._before = row.step
        dur_s = None if row.one_s is None else round(row.one_s * count, 6)
        step = self._step(row, self.durations.pass_time(dur_s))
        step.count, step.dur = count, dur_s
        return step

    def _step(self, row: Row, at: float) -> Step:
        return Step(
            t=at,
            attempt=self.attempts.number,
            step=row.step,
            loss=row.loss,
            grad_norm=row.grad_norm,
            tokens=row.tokens,
        )


def numbered(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Each line's number, bare text and origin; of a line longer than any record, its beginning."""
    for line_number, line in enumerate(lines, start=1):
        text, origin = bare(line[:MOST_CHARACTERS])
        yield line_number, text, origin
