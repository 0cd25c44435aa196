"""modded-nanogpt's log: ``step:12/1530 train_loss:6.38 train_time:274ms step_avg:nanms``, without any clock.

``train_time`` adds up the training alone (evaluation is not in it) and is set back once after the warm-up steps; that
is no restart. ``step_avg:nanms`` means not yet known. The head of such a file is often the script's own source code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import LONGEST_DURATION_SECONDS, AnyEvent, RunEnd, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, DurationClock, StepOrder, framed
from tachograph_agent.trainers.text import clean, integer, number

_LINE: Final = re.compile(
    r"\bstep:(\d+)/(\d+) (?:(train|val)_loss:([^\s,:]+) )?train_time:([\d.,]+)(ms|s)\b(?: step_avg:([\w.]+?)ms\b)?"
)
_SHAPED: Final = re.compile(r"\bstep:\d+/\d+ ")
_SOURCE: Final = re.compile(r"step:\{[^}]*\}/\{[^}]*\} .*train_time:\{")


class ModdedNanoGPT:
    """modded-nanogpt's log."""

    name: ClassVar[str] = "modded-nanogpt"
    title: ClassVar[str] = "modded-nanogpt log (step:N/M train_loss:... train_time:...ms step_avg:...ms)"

    def sniff(self, head: str) -> float:
        """Sure of a line, fairly sure of the source code that such a file begins with."""
        if _LINE.search(head):
            return 0.97
        return 0.6 if _SOURCE.search(head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps whose durations are the differences of the printed training time."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.order = StepOrder()
        self.total: int | None = None
        self.timer_s = 0.0
        self.trained_at: float | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            line = clean(line)
            if found := _LINE.search(line):
                yield from self._line(found)
            elif _SHAPED.search(line):
                self.context.skip(line_number, "a step line that is cut off or garbled")
            else:
                yield from self.attempts.feed(line, self.clock.now)
        yield from self.attempts.close()
        yield from self._end_if_finished()

    def _line(self, found: re.Match[str]) -> Iterator[AnyEvent]:
        step, total, timer = integer(found[1]), integer(found[2]), number(found[5])
        if step is None or timer is None:
            return
        timer_s = timer / 1000.0 if found[6] == "ms" else timer
        if not 0.0 <= timer_s <= LONGEST_DURATION_SECONDS:
            return
        if found[3] == "val":
            self.context.note("The training time leaves evaluation out: how long the evaluations took is unknown.")
            back = self.order.last is not None and step < self.order.last
            if not self.attempts.begun or (back and step == 0):
                yield from self._begin()
            elif back:
                return  # a row of a rewritten history; its training rows decide
            self.total = total
            self._advance(timer_s)
            return
        last = self.order.last
        verdict = self.order.judge(step, found[0])
        if verdict == "repeat":
            return
        if not self.attempts.begun or verdict == "back":
            yield from self._begin()
            self.order.judge(step, found[0])
            last = None
        self.total = total
        since = self.clock.now if self.trained_at is None else self.trained_at
        self._advance(timer_s)
        self.trained_at = self.clock.now
        yield from self.attempts.stepped()
        yield Step(
            t=self.clock.now,
            attempt=self.attempts.number,
            step=step,
            count=1 if last is None else step - last,
            dur=self.clock.now - since,
            loss=None if found[4] is None else number(found[4]),
        )

    def _begin(self) -> Iterator[AnyEvent]:
        yield from self._end_if_finished()
        self.order.restart()
        self.timer_s, self.trained_at, self.total = 0.0, None, None
        yield from self.attempts.begin(self.clock.pass_time(None))

    def _advance(self, timer_s: float) -> None:
        if timer_s < self.timer_s:
            self.context.note("The training timer was set back while steps went on: that is no restart.")
            self.timer_s = 0.0
        self.clock.pass_time(timer_s - self.timer_s)
        self.timer_s = timer_s

    def _end_if_finished(self) -> Iterator[AnyEvent]:
        if self.total is not None and self.order.last == self.total:
            yield RunEnd(t=self.clock.now)
