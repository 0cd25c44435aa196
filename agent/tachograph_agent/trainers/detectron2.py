"""detectron2's ``log.txt``: ``[08/30 23:00:36] d2.utils.events INFO:  eta: ...  iter: 19  total_loss: ... time: 0.43``.

Neither year nor zone; several starts may follow one another in one file. ``iter`` counts from 0: ``iter: 19`` says that
20 steps are done. ``time`` is the mean of an iteration in seconds. A training that wrote ``model_final`` is finished:
what starts from iteration 0 after it is a new run, after an interruption it is a new attempt at the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent, CheckpointStart, Phase, RunEnd, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, StepOrder, framed, just_before, save_told
from tachograph_agent.trainers.text import Clock, believable, clean, integer, number

_LINE: Final = re.compile(r"\[(\d\d/\d\d \d\d:\d\d:\d\d)\] (\S+) (\w+): ?(.*)")
_HEAD: Final = re.compile(r"\[\d\d/\d\d \d\d:\d\d:\d\d\]? ?(?:\w+\.)?(?:d2|detectron2|fvcore)\b")
_ITER: Final = re.compile(r"\biter: (\d+) +(?:total_loss|\w+): *\S")
_LOSS: Final = re.compile(r"\btotal_loss: *(\S+)")
_TIME: Final = re.compile(r"(?<![\w])time: *([\d.]+)(?=\s|$)")
_SAVE: Final = re.compile(r"Saving checkpoint to \S*?(?:model_(\d+)|model_(final))?(?:\.\w+)?$")
_STARTING: Final = re.compile(r"Starting training from iteration (\d+)")
_SHAPED: Final = re.compile(r"\biter: *\d* *$|\biter: \d+ +total_loss: *$")


class Detectron2:
    """detectron2's log.txt."""

    name: ClassVar[str] = "detectron2"
    title: ClassVar[str] = "detectron2 log.txt ([MM/DD hh:mm:ss] d2....: eta: ... iter: N ...)"

    def sniff(self, head: str) -> float:
        """Sure of its loggers behind its short time."""
        if not _HEAD.search(head):
            return 0.0
        return 0.97 if "iter: " in head or _STARTING.search(head) else 0.7

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, evaluations, and the starts and ends of each training in the file."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = Clock(context)
        self.attempts = Attempts(context, self.clock)
        self.order = StepOrder()
        self.t: float | None = None
        self.up_at: float | None = None
        self.trained_from: float | None = None
        self.resume_step = 0
        self.eval_from: float | None = None
        self.save: CheckpointStart | None = None
        self.save_is_final = False
        self.finished = False

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line in enumerate(lines, start=1):
            line = clean(line)
            found = _LINE.search(line)
            t = None if found is None else self.clock.find(found[0])
            if found is None or t is None:
                yield from self.attempts.feed(line, self.t)
                continue
            yield from self._line(found[2], found[4], t, line_number)
        yield from self._evaluated()
        yield from self._broken_off()
        yield from self.attempts.close()
        yield from self._end_if_finished()

    def _line(self, logger: str, text: str, t: float, line_number: int) -> Iterator[AnyEvent]:
        if ".evaluation" in logger:
            self.eval_from = t if self.eval_from is None else self.eval_from
        else:
            yield from self._evaluated()
        if text.startswith("Command line arguments"):
            yield from self._broken_off()
            yield from self._end_if_finished()
            self.up_at = t
        before_t, self.t = self.t, t
        if self.up_at is None and not self.attempts.begun:
            self.up_at = t
        if found := _ITER.search(text):
            yield from self._step(int(found[1][:18]), text, t, before_t)
        elif found := _STARTING.search(text):
            yield from self._start(int(found[1][:18]), t)
        elif found := _SAVE.search(text):
            yield from self._save_begun(found, t)
        elif _SHAPED.search(text):
            self.context.skip(line_number, "an iteration line that is cut off")
        else:
            if "Exception during training" in text:
                yield from self._broken_off()
                self.finished = False
            elif self.save is not None:
                yield from self._saved(t)
            yield from self.attempts.feed(text, t)

    def _start(self, iteration: int, t: float) -> Iterator[AnyEvent]:
        yield from self._broken_off()
        after_finished = self.finished
        yield from self._end_if_finished()
        if self.attempts.begun and iteration == 0:
            self.context.note(
                "Read: a start from iteration 0 after a finished training (model_final saved) is a new run; after an "
                "interruption it is a new attempt, and the work before it is lost. As one run, all before the last "
                "start from 0 would be lost."
            )
        elif after_finished:
            self.context.note("A training went on after its model_final was saved.")
        self.order.restart()
        begin = t if self.up_at is None else self.up_at
        self.up_at, self.trained_from, self.resume_step = None, t, iteration
        yield from self.attempts.begin(begin, iteration)

    def _step(self, iteration: int, text: str, t: float, before_t: float | None) -> Iterator[AnyEvent]:
        loss = _LOSS.search(text)
        last = self.order.last
        verdict = self.order.judge(iteration, text)
        if verdict == "repeat":
            return
        if verdict == "back":
            yield from self._end_if_finished()
            self.order.restart()
            self.order.judge(iteration, text)
            self.trained_from, last = None, None
            yield from self.attempts.begin(just_before(t, before_t))
        found = _TIME.search(text)
        one_s = None if found is None else number(found[1])
        step = Step(t=t, step=iteration + 1)
        step.loss = None if loss is None else number(loss[1])
        if last is not None:
            step.count = iteration - last
        elif self.trained_from is not None and iteration >= self.resume_step:
            step.count = iteration + 1 - self.resume_step
        if last is None and self.trained_from is not None and t > self.trained_from:
            step.dur = t - self.trained_from
        elif one_s is not None and one_s * step.count < 1e9:
            step.dur = round(one_s * step.count, 6)
        if self.save is not None:
            if self.save_is_final:
                self.save.step = iteration + 1
            done_since = iteration + 1 - self.save.step
            yield from self._saved(max(self.save.t, t - max(0, done_since) * (one_s or 0.0)))
        yield from self.attempts.stepped()
        step.attempt = self.attempts.number
        yield step

    def _save_begun(self, found: re.Match[str], t: float) -> Iterator[AnyEvent]:
        """A save begins; the log says nothing of its end, but it is over when the next line comes."""
        if found[2]:
            self.finished = True
            step = None if self.order.last is None else self.order.last + 1
        else:
            iteration = integer(found[1]) if found[1] else None
            step = None if iteration is None else iteration + 1
        if step is None:
            self.context.note("Saves whose name tells no iteration can't be placed and are not shown.")
            return
        if self.save is not None:
            yield from self._saved(t)
        self.save = CheckpointStart(t=t, attempt=self.attempts.number, step=step)
        # The last iteration is saved before it is logged: the next line tells its number.
        self.save_is_final = bool(found[2])

    def _saved(self, t: float) -> Iterator[AnyEvent]:
        start, self.save = self.save, None
        if start is not None:
            yield from save_told(start, t)

    def _broken_off(self) -> Iterator[AnyEvent]:
        """A save after which nothing shows that it ended."""
        start, self.save = self.save, None
        if start is not None:
            yield start

    def _evaluated(self) -> Iterator[AnyEvent]:
        began, self.eval_from = self.eval_from, None
        if began is not None and self.t is not None and self.t > began and self.attempts.begun:
            yield Phase(t=self.t, attempt=self.attempts.number, name="eval", dur=believable(self.t - began))

    def _end_if_finished(self) -> Iterator[AnyEvent]:
        if self.finished and self.t is not None:
            self.finished = False
            yield RunEnd(t=self.t)
