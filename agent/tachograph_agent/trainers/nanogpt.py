"""nanoGPT's console: ``iter 120: loss 3.2100, time 251.30ms, mfu 31.20%``, without clock or end.

``iter`` counts from 0 and is printed after its update: ``iter 120`` is step 121. ``time`` is that one iteration's; it
includes evaluation and save where the iteration began with them. ``step 500: train loss ...`` is an evaluation after
500 steps; ``saving checkpoint to`` follows it and saves the state after those 500.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, CheckpointSaved, Phase, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, DurationClock, StepOrder, framed
from tachograph_agent.trainers.text import clean, integer, number

_ITER: Final = re.compile(r"\biter (\d+): loss ([^\s,]+), time ([\d.]+)ms(?!\w)")
_EVAL: Final = re.compile(r"\bstep (\d+): train loss [^\s,]+, val loss \S")
_TOKENS: Final = re.compile(r"tokens per iteration will be: ([\d,]+)")
_SHAPED: Final = re.compile(r"\biter \d+: loss")


class NanoGPT:
    """nanoGPT's console."""

    name: ClassVar[str] = "nanogpt"
    title: ClassVar[str] = "nanoGPT console (iter N: loss ..., time ...ms, mfu ...)"

    def sniff(self, head: str) -> float:
        """Sure of an ``iter`` line with a time, fairly sure of an evaluation line."""
        if _ITER.search(head):
            return 0.95
        return 0.6 if _EVAL.search(head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps with durations, evaluations and saves on a timeline made of durations."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.order = StepOrder()
        self.evaluated_at: int | None = None
        self.saved = False
        self.usual_s: float | None = None
        self.tokens: int | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            line = clean(line)
            if found := _ITER.search(line):
                yield from self._iteration(found, line_number)
            elif found := _EVAL.search(line):
                if not self.attempts.begun:
                    yield from self._begin()
                self.evaluated_at = integer(found[1])
            elif "saving checkpoint to " in line:
                self.saved = self.evaluated_at is not None
            elif "Resuming training from " in line:
                yield from self._end_of_attempt()
                yield from self._begin()
            elif found := _TOKENS.search(line):
                self.tokens = integer(found[1])
            elif _SHAPED.search(line):
                self.context.skip(line_number, "an iteration line that is cut off or garbled")
            else:
                yield from self.attempts.feed(line, self.clock.now)
        yield from self._end_of_attempt()
        yield from self.attempts.close()

    def _begin(self) -> list[AnyEvent]:
        self.order.restart()
        return self.attempts.begin(self.clock.pass_time(None))

    def _end_of_attempt(self) -> Iterator[AnyEvent]:
        if self.saved:
            yield self._save()
        self.evaluated_at = None

    def _save(self) -> CheckpointSaved:
        self.saved = False
        assert self.evaluated_at is not None
        return CheckpointSaved(t=self.clock.now, attempt=self.attempts.number, step=self.evaluated_at)

    def _iteration(self, found: re.Match[str], line_number: int) -> Iterator[AnyEvent]:
        iteration, printed_ms = integer(found[1]), number(found[3])
        if iteration is None or printed_ms is None or printed_ms > 1e12:
            self.context.skip(line_number, "an iteration line whose number or time can't be read")
            return
        if not self.attempts.begun:
            yield from self._begin()
        last = self.order.last
        verdict = self.order.judge(iteration, found[0])
        if verdict == "repeat":
            return
        if verdict == "back":
            yield from self._begin()
            last = None
            self.order.judge(iteration, found[0])
        step = Step(t=0.0, attempt=self.attempts.number, step=iteration + 1, loss=number(found[2]))
        step.count = 1 if last is None else iteration - last
        step.tokens = None if self.tokens is None else float(self.tokens * step.count)
        if self.evaluated_at is None:
            self.usual_s = printed_ms / 1000.0
            step.dur = self.usual_s * step.count
            self.clock.pass_time(step.dur)
        else:
            printed = self.evaluated_at == iteration
            yield from self._evaluated(printed_ms / 1000.0, step.count, printed=printed, first=last is None)
        step.t = self.clock.now
        yield from self.attempts.stepped()
        yield step

    def _evaluated(self, printed_s: float, count: int, *, printed: bool, first: bool) -> Iterator[AnyEvent]:
        """Let ``count`` iterations pass of which one evaluated, the last if ``printed``: its time is no step's time.

        The first iteration of an attempt also compiles: what of its time was evaluation is unknown.
        """
        usual_s = printed_s if self.usual_s is None else self.usual_s
        if not printed:
            self.context.note("Evaluations between two printed iterations took a time that is not in the log.")
            self.clock.pass_time(usual_s * (count - 1))
        else:
            self.context.note(
                "The printed time of an iteration that evaluated includes evaluation and save, and was not taken as a "
                "step's duration; what exceeds the step before it is shown as evaluation."
            )
            eval_s = max(0.0, printed_s - usual_s)
            self.clock.pass_time(usual_s * (count - 1) + eval_s)
            if eval_s > 0.0 and not first:
                yield Phase(t=self.clock.now, attempt=self.attempts.number, name="eval", dur=eval_s)
        if self.saved:
            yield self._save()
        self.evaluated_at = None
        self.clock.pass_time(min(usual_s, printed_s))
