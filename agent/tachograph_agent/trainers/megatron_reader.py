"""The state of one Megatron log: where the clock stands, which attempt runs, what waits for the next record.

``megatron`` reads the common line by itself and hands every other one to the ``Reader``: records in any shape, marks,
failures. A falling number, or a start line, ends an attempt here, and the end of a log is told its due.
"""

from __future__ import annotations

import math
from typing import Final

from tachograph_agent.events import LATEST_UNIX_SECONDS, AnyEvent, AttemptEnd, AttemptStart, RunEnd, RunStart, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.failures import FailureWatch
from tachograph_agent.trainers.megatron_columns import ELAPSED, Columns, columns_of
from tachograph_agent.trainers.megatron_gaps import Gaps
from tachograph_agent.trainers.megatron_lines import (
    LONGEST_S,
    Mark,
    Record,
    begins_record,
    heads,
    is_cut,
    last_field,
    mark,
    maybe_mark,
    record,
)
from tachograph_agent.trainers.text import Clock, clean
from tachograph_agent.trainers.zones import LATE_S, set_back_note, was_set_back

_MAX_JOINED_LINES: Final = 3
_RECENT_ROWS: Final = 20_000
_START_MARKS: Final = frozenset({"start", "loaded", "scratch", "world"})


class Reader:
    """The state of one log: where the clock stands, which attempt runs, what waits for the next record."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = Clock(context)
        self.watch = FailureWatch(context, self.clock)
        self.gaps = Gaps(context)
        # What the fast path shares.
        self.columns = Columns()
        self.last = -1
        self.interval = 0
        self.t = context.start_unix_seconds or 0.0
        self.tokens_a_step: float | None = None
        self.has_times: bool | None = None
        # What an attempt knows of itself.
        self.has_record = False
        self._first: Record | None = None
        self._is_interval_sure = False
        self._marks: list[Mark] = []
        self._opening: AttemptStart | None = None
        self._opening_t: float | None = None
        self._is_done = False
        # What the run knows.
        self._is_placed = False
        self._run_begins: float | None = None
        self._saw_save = False
        self._is_fresh_run = False
        self._world_size: int | None = None
        self._sequence: int | None = None
        self._attempts: list[tuple[float, int]] = []
        self._recent: dict[int, tuple[float, float | None]] = {}
        self._pieces: list[str] = []
        self._first_line_number = 0
        self._last_field = ""
        self._attempt_number = 0
        self.set_back_s = 0.0
        """By how much the log's clock was set back last, while steps went on."""

    @property
    def attempt(self) -> int:
        """The number of the attempt that runs."""
        return self.watch.attempt

    def start_of(self, minute: str) -> float:
        """Unix seconds of a minute; ``ValueError`` if it is none."""
        t = self.clock.minute(minute)
        if t is None:
            raise ValueError(minute)
        return t

    # Lines.

    def other(self, line: str, line_number: int) -> list[AnyEvent]:
        """A line without a record's time: a part of a record, a mark, a failure, or nothing."""
        if self._pieces or ("iteration" in line and begins_record(clean(line))):
            return self.line(line, line_number)
        return self._rest(line)

    def line(self, line: str, line_number: int) -> list[AnyEvent]:
        """A line with at least one record, or a part of one, that the fast path left alone."""
        text = clean(line)
        begins = begins_record(text)
        if self._pieces and not begins and len(self._pieces) < _MAX_JOINED_LINES and "|" in text:
            self._pieces.append(text)
            return self._if_whole()
        events = self._cut()
        if not begins:
            return events + self._rest(line)
        self._pieces, self._first_line_number = [text], line_number
        events += self._if_whole()
        is_free = self._first is None and not self._marks and not self.watch.is_open and self.has_record
        self.columns = columns_of(line, has_times=bool(self.has_times)) if is_free else Columns()
        return events

    def _rest(self, line: str) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        if maybe_mark(line):
            for found in mark(clean(line), self.clock):
                events += self._mark(found)
        events += self.watch.feed(line, self._known_t())
        if self.watch.attempt != self._attempt_number:
            events += self._attempt_was_opened()
        if self._marks or self.watch.is_open:
            self.columns = Columns()
        return events

    def _if_whole(self) -> list[AnyEvent]:
        """The records of the pieces so far, once they end as a record of this log ends."""
        text = "".join(self._pieces)
        if ELAPSED not in text or is_cut(text) or (text.rstrip().endswith("|") and self._last_field not in text):
            return []
        self._pieces = []
        return self._records(text)

    def _cut(self) -> list[AnyEvent]:
        """The record that was waiting for its other half, which did not come."""
        if not self._pieces:
            return []
        text, self._pieces = "".join(self._pieces), []
        if not is_cut(text) and text.rstrip().endswith("|"):
            return self._records(text)  # whole, but without the field that the records before ended with
        self.context.skip(self._first_line_number, "an iteration record is cut")
        found = record(text, self.clock)
        return [] if found is None else self._record(found)

    def _records(self, text: str) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        starts = heads(text)
        for index, start in enumerate(starts):
            begin = text.rfind("|", 0, start) + 1 if index else 0
            end = len(text) if index + 1 == len(starts) else text.rfind("|", 0, starts[index + 1]) + 1
            found = record(text[begin:end], self.clock)
            if found is None:
                self.context.skip(self._first_line_number, _why_not(text))
            else:
                events += self._record(found)
        self._last_field = last_field(text)
        if len(starts) == 1:
            before, after = text[: starts[0]], text[text.rfind("|") + 1 :]
            # Other ranks' lines can be glued to a record's front or back.
            for piece in (before, after):
                if len(piece) > 30:
                    events += self._rest(piece)
        return events

    # Records.

    def _known_t(self) -> float | None:
        return self.t if self.has_record or self._is_placed or self.has_times is False else None

    def _record(self, this: Record) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        if self.has_times is None:
            self._settle_clock(this)
        if not self.has_times:
            this.t = None
        elif this.t is None:
            this.t = self.t + this.one_s
        rise = this.iteration - max(self.last, 0)
        if self.has_record and (rise * this.one_s >= LONGEST_S or self.t >= LATEST_UNIX_SECONDS - LONGEST_S):
            self.context.skip(self._first_line_number, "an iteration record's number is beyond belief")
            return events
        if self.has_record:
            verdict = self._compare(this)
            if verdict == "again":
                self.context.counters["repeated records"] += 1
                return events
            if verdict == "earlier":
                return [self._out_of_order(this)]
            if verdict == "attempt":
                events += self._open_attempt(None)
        events += self._first_record(this) if not self.has_record else self._next_record(this)
        return events

    def _settle_clock(self, this: Record) -> None:
        self.has_times = this.t is not None
        if self.has_times:
            return
        if self._is_placed:
            self.context.note("Records bear no time of day: theirs is counted on from the last time told before.")
            return
        self.watch.has_times = False
        self.context.has_clock = False
        where = "at 0" if self.context.start_unix_seconds is None else "where --start says"
        self.context.note(f"This log has no clock: its timeline starts {where} and is made of durations alone.")

    def _compare(self, this: Record) -> str:
        """Whether a record goes ``on``, is there ``again``, comes from ``earlier``, or begins another ``attempt``."""
        rise = this.iteration - self.last
        if this.t is not None:
            if self._is_interval_sure and rise == self.interval and self._set_clock(this, self.t - this.t):
                return "on"
            if this.t < self.t - max(1.0, this.one_s) or (rise < 0 and this.t < self.t):
                return "earlier"
            if rise == 0 and abs(this.t - self.t) < max(this.one_s / 2, 1.0):
                return "again"
            return "on" if rise > 0 else "attempt"
        if rise > 0:
            return "on"
        # Without times only the values tell: ranks that print one record measure one loss, but not one duration.
        one_s, loss = self._recent.get(this.iteration, (-1.0, None))
        same_loss = repr(this.loss) == repr(loss)
        is_again = same_loss and (rise == 0 or math.isclose(one_s, this.one_s, rel_tol=1e-9))
        return "again" if is_again and one_s >= 0 else "attempt"

    def _set_clock(self, this: Record, back_s: float) -> bool:
        """Whether steps went on in the log's own rhythm while its clock was set back, or right again."""
        assert this.t is not None
        moved_s = back_s + min(this.one_s * self.interval, LONGEST_S)
        if was_set_back(this.t, self.t):
            if not self.set_back_s:
                self.context.note(set_back_note(back_s, this.iteration))
            self.set_back_s = moved_s
        elif self.set_back_s and abs(moved_s + self.set_back_s) <= LATE_S:
            moved_s = -self.set_back_s
        else:
            return False
        self.clock.set_back(moved_s)
        this.t += moved_s
        return True

    def _out_of_order(self, this: Record) -> Step:
        """A record from before the last one: history written again, or files in the wrong order."""
        assert this.t is not None
        self.context.note("Some records are older than those before them; they were put where their time says.")
        attempt = next((number for t, number in reversed(self._attempts) if t <= this.t), self.attempt)
        count = self.interval if self.interval and this.iteration % self.interval == 0 else 1
        return self._step(this, count, this.t, attempt)

    def _first_record(self, this: Record) -> list[AnyEvent]:
        """The first of an attempt: how many iterations it stands for shows when the second is there."""
        self.has_record = True
        if this.t is not None and self._marks and self._run_begins is None and not self._is_placed:
            self.t = max(this.t - this.one_s, 0.0)
        events = self._place_marks(None, {})
        self._first = this
        self.last = this.iteration
        self._learn(this)
        if this.t is not None:
            self.t = max(self.t, this.t)
        else:
            self._recent.clear()
            self.remember(this.iteration, this.one_s, this.loss)
        return events

    def _next_record(self, this: Record) -> list[AnyEvent]:
        before = self.last
        rise = this.iteration - before
        count = self._count(this.iteration, before, rise)
        events = self._emit_first()
        self._learn(this)
        one = this.one_s
        if this.t is not None:
            begin = this.t - one * count
            inside = [m.step for m in self._marks if m.kind == "saving" and before < m.step < this.iteration]
            later = {step: begin + one * (step - before) for step in inside}
            events += self._place_marks(begin, later)
            t = max(this.t, self.t) if this.t >= self.t - max(1.0, one) else this.t
        else:
            events += self._place_marks(None, {})
            # Iterations that no record tells were done all the same: the counter shows it.
            t = self.t + one * rise
        events += self.watch.stepped()
        events.append(self._step(this, count, t, self.attempt))
        self.last, self.t = this.iteration, t
        if this.t is None:
            self.remember(this.iteration, this.one_s, this.loss)
        return events

    def _count(self, iteration: int, before: int, rise: int) -> int:
        """How many iterations a record stands for; a larger rise than the log's interval is a hole in the log."""
        is_multiple = iteration % rise == 0 and before % rise == 0
        if self._is_interval_sure and rise > self.interval:
            return self.interval
        if is_multiple:
            self.interval, self._is_interval_sure = rise, True
        elif not self._is_interval_sure:
            self.interval = rise
        return rise

    def _emit_first(self) -> list[AnyEvent]:
        """The attempt's first record, and the start of the attempt before it."""
        first, self._first = self._first, None
        if first is None:
            return []
        told = self._opening.resume_step if self._opening is not None else None
        interval = self.interval if self._is_interval_sure else 0
        count = interval if interval and first.iteration % interval == 0 else 1
        if told is not None and 0 < first.iteration - told <= max(interval, 1):
            count = first.iteration - told
        count = max(min(count, first.iteration), 1)
        if first.one_s * count >= LONGEST_S:
            count = 1
        dur = first.one_s * count
        end = first.t if first.t is not None else self.t + dur
        begin = max(end - dur, 0.0)
        events = self._start_attempt(begin, first.iteration - count)
        events += self.watch.stepped()
        events.append(self._step(first, count, end, self.attempt))
        if first.t is None:
            self.t = end
        return events

    def _step(self, this: Record, count: int, t: float, attempt: int) -> Step:
        tokens = self.tokens_a_step * count if self.tokens_a_step is not None else None
        step = Step(
            t=t, run=self.context.run, attempt=attempt, dur=this.one_s * count, step=this.iteration, count=count,
            loss=this.loss, grad_norm=this.grad_norm, tokens=tokens,
        )  # fmt: skip
        if this.extra:
            step.unknown_fields = this.extra
        return step

    def remember(self, iteration: int, one_s: float, loss: float | None) -> None:
        """Keep a row of a log without times: only its values tell a row written again from one done again."""
        if len(self._recent) >= _RECENT_ROWS:
            self._recent.clear()
        self._recent[iteration] = (one_s, loss)

    def _learn(self, this: Record) -> None:
        """The tokens of a step, from the record's batch and the sequence length wherever it was told."""
        if this.tokens and this.samples and this.tokens % this.samples == 0:
            self._sequence = this.tokens // this.samples
        if self._sequence and this.batch:
            self.tokens_a_step = float(self._sequence * this.batch)
        else:
            self.tokens_a_step = None

    # Marks, attempts, runs.

    def _mark(self, found: Mark) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        if found.t is not None and self.has_times is not True:
            events += self._place(found.t)
        if found.kind in _START_MARKS:
            if self.has_record:
                events += self._open_attempt(found.t)
            self._at_start(found)
            if found.t is not None:
                events += self.watch.time_known(found.t)
        elif found.kind == "done":
            self._is_done = True
            events += self._emit_first()
            events += self._place_marks(found.t, {})
            self.t = max(self.t, found.t or 0.0)
        elif found.kind == "exit":
            events += self._emit_first()
            events += self._place_marks(found.t, {})
            self.t = max(self.t, found.t or 0.0)
            if self.has_record and not self._is_done:
                reason = f"exit at iteration {self.last}"
                events.append(
                    AttemptEnd(t=self.t, run=self.context.run, attempt=self.attempt, planned=True, reason=reason)
                )
        elif found.kind == "sequence":
            self._sequence = found.step
        else:
            self._saw_save = self._saw_save or "sav" in found.kind or found.kind == "scheduled"
            self._marks.append(found)
        return events

    def _place(self, t: float) -> list[AnyEvent]:
        """A time of day in a log whose records bear none."""
        if self.has_times is False and not self._is_placed:
            return []  # the timeline already started somewhere else
        self._is_placed = True
        self.t = max(self.t, t) if self.has_record or self._run_begins is not None else t
        return []

    def _at_start(self, found: Mark) -> None:
        if self._opening is None:
            self._opening = AttemptStart(t=0.0, run=self.context.run, attempt=self.attempt)
        if found.t is not None and (self.has_times is not False or self._is_placed):
            self._opening_t = found.t if self._opening_t is None else min(self._opening_t, found.t)
        if found.kind == "loaded":
            self._opening.resume_step = found.step
        elif found.kind == "scratch":
            self._opening.resume_step = 0
        elif found.kind == "world":
            self._opening.world_size = self._world_size = found.step

    def _attempt_was_opened(self) -> list[AnyEvent]:
        """The watch saw the workers start again (and told it): what was pending belongs to the attempt before."""
        number = self.watch.attempt
        self.watch.attempt = self._attempt_number
        events = self._end_attempt()
        self.watch.attempt = self._attempt_number = number
        return events

    def _open_attempt(self, t: float | None) -> list[AnyEvent]:
        """End the attempt that runs; another begins, at a time that its first record, or ``t``, tells."""
        events = self._end_attempt()
        if self._is_done:
            events += self._end_run()
        events += self.watch.next_attempt()
        self._attempt_number = self.watch.attempt
        self._opening = AttemptStart(t=0.0, run=self.context.run, attempt=self.attempt)
        self._opening_t = t
        return events

    def _start_attempt(self, begin: float, resume_step: int) -> list[AnyEvent]:
        """Tell the start of the attempt whose first record began at ``begin`` after ``resume_step``."""
        opening, self._opening = self._opening, None
        t = begin if self._opening_t is None else min(self._opening_t, begin)
        self._opening_t = None
        self._attempts.append((t, self.attempt))
        if self._run_begins is None:
            self._run_begins = t
        if opening is None:
            return []
        opening.t = t
        if opening.resume_step is None and resume_step > 0:
            self.context.note(
                "Some starts have no line that says what they resumed: their first record shows how far back they went,"
                " at least."
            )
        if self._is_fresh_run and opening.resume_step is None and resume_step == 0:
            opening.resume_step = 0
        self._is_fresh_run = False
        return [opening]

    def _end_attempt(self) -> list[AnyEvent]:
        events = self._emit_first()
        events += self._place_marks(None, {})
        self.has_record = False
        self._is_interval_sure = False
        self.columns = Columns()
        self.last = -1
        self.gaps = Gaps(self.context)
        return events

    def _place_marks(self, end_t: float | None, later: dict[int, float]) -> list[AnyEvent]:
        if not self._marks:
            return []
        marks, self._marks = self._marks, []
        if self.has_times is False and not self._is_placed:
            for found in marks:
                found.t = None
        events, until = self.gaps.place(marks, self.attempt, self.t, end_t, later)
        if not self.has_times or end_t is None:
            self.t = max(self.t, until)
        return events

    def _end_run(self) -> list[AnyEvent]:
        """The run is complete; what follows is another of the same name."""
        self._is_done = False
        events: list[AnyEvent] = [RunEnd(t=self.t, run=self.context.run, status="completed")]
        events += self._start_of_run()
        self._run_begins, self._saw_save, self._is_fresh_run = None, False, True
        return events

    def _start_of_run(self) -> list[AnyEvent]:
        """The run's start, told late: only its end shows whether this log can show saves."""
        if self._run_begins is None:
            return []
        if not self._saw_save:
            self.context.note("No save stands in this log: what is at risk is unknown.")
        unseen = None if self._saw_save else "unseen"
        return [RunStart(t=self._run_begins, run=self.context.run, world_size=self._world_size, checkpoints=unseen)]

    def close(self) -> list[AnyEvent]:
        """The end of the log."""
        events = self._cut()
        events += self._end_attempt()
        events += self.watch.close()
        if self._is_done:
            return events + self._end_run()
        return events + self._start_of_run()


def _why_not(text: str) -> str:
    """Why a record's text is none."""
    return "an iteration record is cut" if is_cut(text) else "an iteration record without a number or time of its own"
