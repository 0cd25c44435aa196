"""torchtitan's console: ``[titan] DATE TIME,ms - root - INFO - step: 30  loss:  5.12345 ... tps: 8,123 ...``.

A line stands for the steps since the line before; the time between them includes saves and evaluations, which are taken
out. ``Saving the checkpoint.`` .. ``Finished saving the checkpoint in 12.34 seconds.`` is a synchronous save,
``Staging`` and a background process's ``Submitted checkpoint save request`` an asynchronous one: what of those landed
the console never says. Lines of several ranks may be interleaved; the lowest rank is followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, Literal

from tachograph_agent.events import AnyEvent, CheckpointSaved, CheckpointStart, Phase, RunEnd, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, Pace, StepOrder, framed, just_before, save_told
from tachograph_agent.trainers.text import Clock, believable, integer, number, seconds, split_prefix

_STEP: Final = re.compile(r"\bstep: *(\d+) +loss: *(\S+)(.*)")
_FIELD: Final = re.compile(r"\b(grad_norm|tps): *([-+\w.,]+)")
_SHAPED: Final = re.compile(r"\[titan\].*\bstep: *\d")
_VALIDATE: Final = re.compile(r"\bvalidate step: *(\d+) +loss:")
_SAVING: Final = re.compile(r"\b(Saving|Staging)\b[^.]*?\bcheckpoint\b(.*)")
_FINISHED: Final = re.compile(r"\bFinished (saving|staging) the checkpoint\b(.*?)in ([\d.]+ *(?:seconds|s)?)")
_LAST_SAVED: Final = re.compile(r"\bLast step checkpoint completed in ([\d.]+)")
_LAST_STEP: Final = re.compile(r"\bat last step, step (\d+)")
_SUBMITTED: Final = re.compile(r"\bSubmitted checkpoint save request for checkpoint_id=.*?step-(\d+)")
_LOADED: Final = re.compile(r"\bFinished loading the checkpoint in ([\d.]+)")
_STARTS: Final = re.compile(r"\bTraining starts at step (\d+)")
_MARK: Final = re.compile(r"\[titan\] .* - ")
_NEWER: Final = re.compile(r"\bstep: *\d+ +loss: .*\btps: *[\d,.]+")


SAME_LINE_SECONDS: Final = 30.0
"""Within this, a start that names the same step is another rank's line."""


class Torchtitan:
    """torchtitan's console."""

    name: ClassVar[str] = "torchtitan"
    title: ClassVar[str] = "torchtitan console ([titan] ... step: N  loss: ...  tps: ...)"

    def sniff(self, head: str) -> float:
        """Sure of the ``[titan]`` mark, nearly sure of a step line with ``tps``."""
        if _MARK.search(head):
            return 0.95
        return 0.85 if _NEWER.search(head.replace("\x1b", " ")) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, evaluations and starts, at the times of their lines."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = Clock(context)
        self.attempts = Attempts(context, self.clock)
        self.order = StepOrder()
        self.pace = Pace()
        self.t: float | None = None
        self.lead: int | None = None
        self.before_t: float | None = None
        self.up_at: float | None = None
        self.save: CheckpointStart | None = None
        self.save_told = False
        self.begun_as: int | None = None
        self.ended = False
        self.saved: set[int] = set()
        self.since: float | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, raw in enumerate(lines, start=1):
            line, rank = split_prefix(raw)
            if line:
                yield from self._line(line, rank, line_number)
        yield from self._tell_save()
        yield from self.pace.flush()
        yield from self.attempts.close()

    def _line(self, line: str, rank: int | None, line_number: int) -> Iterator[AnyEvent]:
        own = self.clock.find(line)
        if own is not None:
            self.before_t, self.t = self.t, own
        if found := _VALIDATE.search(line):
            if self._led(rank, own):
                yield from self._validated(found)
        elif found := _STEP.search(line):
            if self._led(rank, own):
                yield from self._step(found)
            elif own is None:
                self.context.skip(line_number, "a step line without a time")
        elif _SHAPED.search(line):
            self.context.skip(line_number, "a step line that is cut off or garbled")
        elif "heckpoint" in line or "Training " in line or "last step" in line or "Starting job" in line:
            if self._led(rank, own):
                yield from self._mark(line)
            yield from self.attempts.feed(line, self.t)
        else:
            yield from self.attempts.feed(line, self.t)
        if self.up_at is None and own is not None and "[titan]" in line and not self.attempts.begun:
            self.up_at = own

    def _led(self, rank: int | None, own: float | None) -> bool:
        """Whether a line is the lead's: of the lowest rank that has told anything, or of no rank."""
        if own is None:
            return False
        if rank is None or self.lead is None or rank <= self.lead:
            if rank is not None:
                self.lead = rank
            return True
        return False

    def _step(self, found: re.Match[str]) -> Iterator[AnyEvent]:
        step = integer(found[1])
        assert self.t is not None
        if step is None or step < 1:
            return
        loss = number(found[2])
        yield from self._tell_save()
        verdict = self.order.judge(step, str(loss))
        if verdict == "repeat" and self.since is not None and self.t - self.since < 1.0:
            return
        if verdict != "next":
            # Nothing said so: it began somewhere after the line before this one.
            yield from self._begin(just_before(self.t, self.before_t), None, trained_from=None)
            self.order.judge(step, str(loss))
        fields = dict(_FIELD.findall(found[3]))
        event = Step(t=self.t, attempt=self.attempts.number, rank=self.lead, step=step, loss=loss)
        if loss == -1.0:
            event.loss = None
            self.context.note("A loss of -1 is what pipeline stages print that don't compute it: it is unknown there.")
        event.grad_norm = number(fields["grad_norm"]) if "grad_norm" in fields else None
        yield from self.attempts.stepped()
        event.attempt = self.attempts.number
        self.since, self.begun_as, self.ended = self.t, None, False
        yield from self.pace.add(event, number(fields["tps"].rstrip(".,")) if "tps" in fields else None)

    def _validated(self, found: re.Match[str]) -> Iterator[AnyEvent]:
        """An evaluation ends; it began where the step, or the save after it, ended, if that step was logged."""
        assert self.t is not None
        step = integer(found[1])
        if step is not None and step == self.order.last and self.since is not None and self.t > self.since:
            dur = self.t - self.since
            self.pace.pause(dur)
            yield Phase(t=self.t, attempt=self.attempts.number, name="eval", dur=believable(dur))
            self.since = self.t
        else:
            self.context.note("An evaluation after a step that was not logged: how long it took can't be known.")

    def _mark(self, line: str) -> Iterator[AnyEvent]:
        assert self.t is not None
        if found := _SUBMITTED.search(line):
            yield from self._submitted(int(found[1][:18]))
        elif found := _FINISHED.search(line):
            yield from self._finished(seconds(found[3].replace("seconds", "s")), "or staging" in line)
        elif found := _LAST_SAVED.search(line):
            yield from self._finished(number(found[1].rstrip(".")), ambiguous=False)
        elif found := _LAST_STEP.search(line):
            if self.save is None:
                self.save = CheckpointStart(t=self.t, attempt=self.attempts.number, step=0)
                self.save_told = False
            self.save.step, self.save.mode = int(found[1][:18]), "sync"
        elif found := _LOADED.search(line):
            dur = number(found[1].rstrip("."))
            if dur is not None and dur > 0.0:
                yield Phase(t=self.t, attempt=self._next_attempt(), name="reload", dur=believable(dur))
        elif found := _STARTS.search(line):
            resume_step = max(0, int(found[1][:18]) - 1)
            if self.begun_as == resume_step and self.since is not None and self.t - self.since < SAME_LINE_SECONDS:
                return  # the same line of another rank
            yield from self._begin(self.t if self.up_at is None else self.up_at, resume_step, trained_from=self.t)
            self.begun_as = resume_step
        elif "Starting job" in line:
            self.up_at = self.t
        elif "Training completed" in line:
            yield from self.pace.flush()
            if not self.ended:
                self.ended = True
                yield RunEnd(t=self.t)
        elif (found := _SAVING.search(line)) and "Finished" not in line:
            self._saving("sync" if found[1] == "Saving" and "staging" not in found[2] else "async")

    def _next_attempt(self) -> int:
        return self.attempts.number + (1 if self.attempts.begun else 0)

    def _begin(self, t: float, resume_step: int | None, trained_from: float | None) -> Iterator[AnyEvent]:
        yield from self._tell_save()
        self.save, self.up_at, self.ended = None, None, False
        yield from self.pace.restart(trained_from, resume_step, not_before=t)
        self.order.restart()
        self.saved.clear()
        yield from self.attempts.begin(t, resume_step)
        self.since = trained_from

    def _saving(self, mode: Literal["sync", "async"]) -> None:
        if self.order.last is None:
            self.context.note("A save before any logged step: its step is unknown, so it is not shown.")
            return
        assert self.t is not None
        if self.save is not None:
            return  # the same line of another rank
        self.save = CheckpointStart(t=self.t, attempt=self.attempts.number, step=self.order.last, mode=mode)
        self.save_told = False
        self.context.note("Save lines name no step: the last logged step was taken.")

    def _tell_save(self) -> Iterator[AnyEvent]:
        """The save that has begun. It is told only now since its step may be named by a line of its own."""
        if self.save is not None and not self.save_told:
            self.save_told = True
            yield self.save

    def _finished(self, dur: float | None, ambiguous: bool) -> Iterator[AnyEvent]:
        start, self.save = self.save, None
        if start is None or self.t is None:
            return
        if ambiguous:
            self.context.note("This version doesn't say if a save was written or only staged: none counts as landed.")
        took = dur if dur is not None else max(0.0, self.t - start.t)
        self.pace.pause(took)
        self.since = self.t
        self.saved.add(start.step)
        events = save_told(start, self.t, took)
        yield from events[1:] if self.save_told else events

    def _submitted(self, step: int) -> Iterator[AnyEvent]:
        """A background process took over a save: asynchronous, and not landed as far as this log says."""
        self.context.note(
            "Asynchronous saves: the log shows that one was submitted, never that it was written; none landed."
        )
        if step in self.saved or self.t is None:
            return
        self.saved.add(step)
        yield CheckpointSaved(t=self.t, attempt=self.attempts.number, step=step, mode="async", dur=0.0)
