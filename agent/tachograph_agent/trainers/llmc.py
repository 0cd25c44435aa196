"""llm.c's console and its ``main.log``: steps with their own milliseconds, or with no time at all.

Console: ``step   12/2000 | loss 7.123 (+0.1z)| norm 1.234 (+0.2z)| lr 1.00e-04 | 512.34 ms | 12.3% bf16 MFU | 102345
tok/s`` (older: ``train loss``, no z-scores, or ``step 12: train loss 5.3 (took 123.4 ms)``, counted from 0).
``main.log``: ``s:12 trl:7.1 lr:1e-4 norm:1.2``, which tells no time. The printed time leaves evaluations and saves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, CheckpointSaved, RunEnd, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, DurationClock, StepOrder, framed
from tachograph_agent.trainers.text import clean, integer, number

_STEP: Final = re.compile(r"\bstep +(\d+)/(\d+) \| (?:train )?loss +([^\s|]+)(.*)")
_TOOK: Final = re.compile(r"\bstep (\d+): train loss ([^\s,]+) \(took ([\d.]+) ms\)")
_MAIN: Final = re.compile(r"\bs:(\d+) trl:([^\s,]+)(?: lr:\S+)?(?: norm:([^\s,]+))?")
_SAVED: Final = re.compile(r"Writing checkpoint at step (\d+)|Writing state to \S*?state_(\d+)")
_SHAPED: Final = re.compile(r"\bstep +\d+/\d+ \| ")
_MS: Final = re.compile(r"\| +([\d.]+) +ms\b")
_NORM: Final = re.compile(r"\bnorm +([^\s|(]+)")


class LLMC:
    """llm.c's console and main.log."""

    name: ClassVar[str] = "llmc"
    title: ClassVar[str] = "llm.c console (step N/M | loss ... | ... ms | ... tok/s) and main.log (s:N trl:...)"

    def sniff(self, head: str) -> float:
        """Sure of a whole step line, fairly sure of one line of ``main.log``."""
        found = _STEP.search(head)
        if (found and _NORM.search(found[4])) or _TOOK.search(head):
            return 0.95
        return 0.8 if _MAIN.search(head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps and saves on a timeline made of durations, or without any duration where none is printed."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.order = StepOrder()
        self.total: int | None = None
        self.saved_step: int | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            line = clean(line)
            if found := _STEP.search(line):
                yield from self._console_step(found, line_number)
            elif found := _TOOK.search(line):
                yield from self._step(int(found[1][:18]) + 1, found[0], number(found[2]), None, number(found[3]), None)
            elif found := _MAIN.search(line):
                yield from self._step(integer(found[1]), found[0], number(found[2]), found[3], None, None)
            elif found := _SAVED.search(line):
                yield from self._save(integer(found[1] or found[2]))
            elif _SHAPED.search(line):
                self.context.skip(line_number, "a step line that is cut off or garbled")
            else:
                yield from self.attempts.feed(line, self.clock.now)
        yield from self.attempts.close()
        yield from self._end_if_finished()

    def _console_step(self, found: re.Match[str], line_number: int) -> Iterator[AnyEvent]:
        step, rest = integer(found[1]), found[4]
        if step is None or not _NORM.search(rest):
            self.context.skip(line_number, "a step line that is cut off or garbled")
            return
        norm, took = _NORM.search(rest), _MS.search(rest)
        ms = None if took is None else number(took[1])
        yield from self._step(step, found[0], number(found[3]), norm[1] if norm else None, ms, integer(found[2]))

    def _step(
        self,
        step: int | None,
        values: str,
        loss: float | None,
        norm: str | None,
        ms: float | None,
        total: int | None,
    ) -> Iterator[AnyEvent]:
        if step is None:
            return
        last = self.order.last
        verdict = self.order.judge(step, values)
        if verdict == "repeat":
            return
        if not self.attempts.begun or verdict == "back":
            if verdict == "back":
                yield from self._end_if_finished()
            self.order.restart()
            self.order.judge(step, values)
            last = None
            yield from self.attempts.begin(self.clock.pass_time(None))
        self.total = total
        event = Step(t=0.0, attempt=self.attempts.number, step=step, loss=loss)
        event.grad_norm = None if norm is None else number(norm)
        event.count = 1 if last is None else step - last
        if ms is None:
            self.context.note("Lines without a printed time: how long those steps took can't be known from this log.")
        elif ms < 1e12:
            event.dur = ms / 1000.0 * event.count
            self.context.note("llm.c's printed time leaves evaluations and saves out: how long they took is unknown.")
        event.t = self.clock.pass_time(event.dur)
        yield from self.attempts.stepped()
        yield event

    def _save(self, step: int | None) -> Iterator[AnyEvent]:
        if step is not None and step != self.saved_step and self.attempts.begun:
            self.saved_step = step
            yield CheckpointSaved(t=self.clock.now, attempt=self.attempts.number, step=step)

    def _end_if_finished(self) -> Iterator[AnyEvent]:
        if self.total is not None and self.order.last == self.total:
            yield RunEnd(t=self.clock.now)
