"""NeMo's progress: NeMo 2's ``Training epoch ...`` lines, NeMo 1's progress bar.

Both tell the global step (counted from 0, at a log every so many), the loss of its batch and how long its batch took.
NeMo 2 has no times: its timeline is made of those. NeMo 1's bar also tells the time since it began, which is the
timeline; it is drawn again and again, and anew each epoch. ``val_loss`` is the last one known, repeated on every line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import LARGEST_STEP, AnyEvent, CheckpointPersisted, CheckpointSaved, Mode, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, DurationClock, framed
from tachograph_agent.trainers.text import clean, integer, leading_number, pairs

_LINE: Final = re.compile(r"Training epoch \d+, iteration (\d+)/\d+ ?\|")
_BAR: Final = re.compile(
    r"Epoch \d+: [^\[\]]{0,200}?\b(\d+)/(?:\d+|\?) \[(?:(?P<d>\d+) days?, )?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d\d)"
    r"<[^\[\]]{0,60}?, (?P<fields>[^\[\]]*\bglobal_step=[^\[\]]*)\]"
)
_SHAPED: Final = re.compile(r"Training epoch \d+, iteration \d|Epoch \d+: .*\bglobal_step=")
_SAVED: Final = re.compile(r"Global Checkpoint Save : Rank: \d+ : Iteration: (\d+) .*Save duration: ([\d.]+)s")
_FINISHED: Final = re.compile(r"Async checkpoint save for step (\d+) .*finalized successfully")
_ASYNC: Final = re.compile(r"[Ss]cheduled (?:an )?async checkpoint save")
_TIMING: Final = "train_step_timing in s"


class NeMo:
    """NeMo 1 and 2."""

    name: ClassVar[str] = "nemo"
    title: ClassVar[str] = "NeMo 1 progress bar and NeMo 2 console (global_step, train_step_timing in s)"

    def sniff(self, head: str) -> float:
        """Sure of either form with its global step."""
        if _BAR.search(head):
            return 0.95
        found = _LINE.search(head)
        if found is None:
            return 0.0
        return 0.95 if "global_step" in head[found.start() : found.start() + 2000] else 0.6

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps and saves on a timeline of the bar's own time, else of the steps' times."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.last: int | None = None
        self.held: tuple[Step, float | None] | None = None
        """An attempt's first record and its one step's time: how many steps it stands for the next record tells."""
        self.bar_began: float | None = None
        """When on the timeline the bar began that is drawn now."""
        self.bar_s = 0.0
        self.is_async = False
        self.last_saved: int | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            line = clean(line)
            if found := _LINE.search(line):
                fields = pairs(line[found.end() :])
                fields.setdefault("global_step", found[1])
                yield from self._record(fields, None, line_number)
            elif bar := _BAR.search(line):
                # Several may be glued where a carriage return got lost: the last is the newest.
                for newer in _BAR.finditer(line, bar.end()):
                    bar = newer
                elapsed_s = _elapsed(bar)
                yield from self._record(pairs(bar["fields"], ","), elapsed_s, line_number)
            elif _SHAPED.search(line):
                self.context.skip(line_number, "a progress line that is cut off or garbled")
            else:
                yield from self._other(line)
        yield from self._flush(None)
        yield from self.attempts.close()

    def _other(self, line: str) -> Iterator[AnyEvent]:
        if found := _SAVED.search(line):
            step, took_s = integer(found[1]), leading_number(found[2])
            if step is not None and 0 < step < LARGEST_STEP and self.attempts.begun and step != self.last_saved:
                self.last_saved = step  # each rank may say so
                yield from self._flush(None)
                t = self.clock.pass_time(None if self.is_async else took_s)
                mode: Mode = "async" if self.is_async else "sync"
                yield CheckpointSaved(t=t, attempt=self.attempts.number, step=step, mode=mode, dur=took_s)
                self.is_async = False
        elif found := _FINISHED.search(line):
            step = integer(found[1])
            if step is not None and 0 < step < LARGEST_STEP and self.attempts.begun:
                yield CheckpointPersisted(t=self.clock.now, attempt=self.attempts.number, step=step)
        elif _ASYNC.search(line):
            self.is_async = True
        else:
            yield from self.attempts.feed(line, self.clock.now)

    def _record(self, fields: dict[str, str], elapsed_s: float | None, line_number: int) -> Iterator[AnyEvent]:
        told = integer(fields.get("global_step", ""))
        if told is None or not 0 <= told < LARGEST_STEP:
            self.context.skip(line_number, "a progress line whose global step can't be read")
            return
        done = told + 1
        if self.last is not None and done == self.last and self.attempts.begun:
            return  # the bar, drawn again
        back = self.last is not None and done < self.last
        if back or not self.attempts.begun:
            yield from self._flush(None)
            if elapsed_s is not None:
                self._bar_at(elapsed_s, anew=True)
            yield from self.attempts.begin(self.clock.pass_time(None))
            self.last = self.last_saved = None
        timing_s = leading_number(fields.get(_TIMING, ""))
        if timing_s is not None and not (math.isfinite(timing_s) and timing_s >= 0.0):
            timing_s = None
        loss = next((fields[name] for name in ("reduced_train_loss", "train_loss", "loss") if name in fields), "")
        record = Step(t=0.0, attempt=self.attempts.number, step=done, loss=_value(loss))
        record.grad_norm = _value(fields.get("grad_norm", ""))
        count = 1 if self.last is None else done - self.last
        if self.last is None:
            self.last = done
            if elapsed_s is not None:
                self._bar_at(elapsed_s, anew=False)
            self.held = record, timing_s
            return
        yield from self._flush(count)
        self.last = done
        record.count = count
        record.dur = None if timing_s is None else round(timing_s * count, 6)
        if elapsed_s is None:
            self.clock.pass_time(record.dur)
        else:
            before = self.clock.now
            self._bar_at(elapsed_s, anew=False)
            between = self.clock.now - before
            if record.dur is not None and record.dur > between + 1.0:  # the bar tells whole seconds
                record.dur = round(between, 6)
        record.t = self.clock.now
        yield from self.attempts.stepped()
        yield record

    def _flush(self, next_count: int | None) -> Iterator[AnyEvent]:
        """The attempt's first record: as many steps as the next one, or as there can be."""
        if self.held is None:
            return
        (record, timing_s), self.held = self.held, None
        record.count = min(record.step, next_count or 1)
        if timing_s is not None:
            record.dur = round(timing_s * record.count, 6)
            if self.bar_began is None:
                self.clock.pass_time(record.dur)
            else:
                record.dur = min(record.dur, round(self.clock.now - self.bar_began, 6))
        record.t = self.clock.now
        yield from self.attempts.stepped()
        yield record

    def _bar_at(self, elapsed_s: float, *, anew: bool) -> None:
        """The bar says ``elapsed_s``; one that says less than before is another's."""
        if anew or self.bar_began is None or elapsed_s < self.bar_s:
            self.bar_began = self.clock.now
        self.bar_s = elapsed_s
        if not anew:
            self.clock.pass_time(self.bar_began + elapsed_s - self.clock.now)


def _value(text: str) -> float | None:
    return leading_number(text) if text else None


def _elapsed(bar: re.Match[str]) -> float:
    days, hours, minutes, seconds = (int(bar[name] or 0) if len(bar[name] or "") < 8 else 0 for name in "dhms")
    return float(days * 86_400 + hours * 3600 + minutes * 60 + seconds)
