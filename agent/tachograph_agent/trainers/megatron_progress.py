"""Megatron's ``progress.txt``: one line for each start of the job and each save, with date, job and number of GPUs.

It tells attempts and durable saves better than the output does, but no steps. That the steps up to a save were done is
certain; how long they took is reckoned: the time between two saves of an attempt, evenly. From a start to the first
save the pace of the next stretch is taken, the rest is start-up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    RunStart,
    Step,
)
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock

_LINE: Final = re.compile(
    r"^(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\tJob ID: (?P<job>[^\t]*)\t# GPUs: (?P<gpus>\d{1,9})\t(?P<rest>.*)"
)
_SAVE: Final = re.compile(r"(?P<what>Saved|Saving) (?P<kind>async )?checkpoint\tIteration: (?P<step>\d{1,18})\b")


class MegatronProgress:
    """The adapter for the ``progress.txt`` beside Megatron's checkpoints."""

    name: ClassVar[str] = "megatron-progress"
    title: ClassVar[str] = "Megatron-LM progress.txt (starts and saves, beside the checkpoints)"

    def sniff(self, head: str) -> float:
        """Sure where a line of the format stands."""
        return 0.97 if any(_LINE.match(line) for line in head.splitlines()[:50]) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Attempts, saves, and the steps that the saves prove."""
        reader = _Reader(context)
        for line_number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            found = _LINE.match(line)
            t = reader.clock.find(found.group("date")) if found is not None else None
            if found is None or t is None:
                context.skip(line_number, "no line of progress.txt")
                continue
            yield from reader.take(t, int(found.group("gpus")), found.group("rest"))
        yield from reader.first_save()


class _Reader:
    """Where the file has come to: the attempt, its start, the save before."""

    def __init__(self, context: Context) -> None:
        self.clock = Clock(context)
        self._context = context
        self._attempt = -1
        self._start_t: float | None = None
        self._t: float | None = None
        self._step = 0
        self._pace_s: float | None = None
        self._first: tuple[float, int] | None = None
        self._saving: set[int] = set()
        self._saved: set[int] = set()

    def take(self, t: float, gpus: int, text: str) -> list[AnyEvent]:
        """The events of one line; the steps of an attempt's first save wait for the second."""
        run = self._context.run
        if text.startswith("Starting job"):
            events: list[AnyEvent] = self.first_save()
            events += self._run_start(t, gpus)
            self._attempt += 1
            self._start_t, self._t, self._saving = t, None, set()
            return [*events, AttemptStart(t=t, run=run, attempt=self._attempt, world_size=gpus)]
        found = _SAVE.search(text)
        if found is None:
            self._context.counters["other lines of progress.txt"] += 1
            return []
        begins = self._run_start(t, gpus)
        self._attempt = max(self._attempt, 0)
        step, attempt = int(found.group("step")), self._attempt
        if found.group("what") == "Saving":
            self._saving.add(step)
            return [
                *begins,
                *self._steps(t, step),
                CheckpointStart(t=t, run=run, attempt=attempt, step=step, mode="async"),
                CheckpointSaved(t=t, run=run, attempt=attempt, step=step, mode="async"),
            ]
        if found.group("kind") or step in self._saving:
            return [*begins, *self._steps(t, step), CheckpointPersisted(t=t, run=run, attempt=attempt, step=step)]
        return [*begins, *self._steps(t, step), CheckpointSaved(t=t, run=run, attempt=attempt, step=step)]

    def _run_start(self, t: float, gpus: int) -> list[AnyEvent]:
        if self._attempt >= 0:
            return []
        return [RunStart(t=t, run=self._context.run, world_size=gpus, gpus=gpus)]

    def _steps(self, t: float, step: int) -> list[AnyEvent]:
        if self._first is not None and step > self._first[1]:
            self._pace_s = max(t - self._first[0], 0.0) / (step - self._first[1])
        events = self.first_save()
        if self._t is None:
            self._first = (t, step)
        elif step > self._step:
            count = step - self._step
            self._pace_s = max(t - self._t, 0.0) / count
            events.append(self._new_step(t, step, count, round(self._pace_s * count, 6)))
        else:
            return events
        self._t = t
        return events

    def first_save(self) -> list[AnyEvent]:
        """The steps before an attempt's first save, at the pace of the next stretch; None known, no duration."""
        first, self._first = self._first, None
        if first is None:
            return []
        t, step = first
        # The newest save below it is the latest that the attempt can have resumed from.
        count = max(step, 1) - max((saved for saved in self._saved if saved < step), default=0)
        dur = None
        if self._pace_s is not None:
            room = t - self._start_t if self._start_t is not None else self._pace_s * count
            dur = round(max(min(self._pace_s * count, room), 0.0), 6)
        self._context.note("progress.txt tells saves, not steps: their times are reckoned from save to save.")
        return [self._new_step(t, step, count, dur)]

    def _new_step(self, t: float, step: int, count: int, dur: float | None) -> Step:
        self._step = step
        self._saved.add(step)
        return Step(t=t, run=self._context.run, attempt=self._attempt, step=step, count=count, dur=dur)
