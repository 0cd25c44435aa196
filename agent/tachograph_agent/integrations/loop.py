"""A plain training loop, timed: iterate over the loader through it, and every pass is a step.

    for step, batch in timed(loader, recorder, first_step=resume_step + 1):
        loss = train(batch)
        with step.wait():
            all_reduce(gradients)
        step.loss = loss

Needs no framework. The time in which the loader is asked for a batch is the step's section ``data``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tachograph_agent.recorder import Recorder, StepTimer

Batch = TypeVar("Batch")


class LoopStep(StepTimer):
    """One pass of the loop: ``wait()``, ``loss`` and the like as of ``recorder.step``, and ``done()``."""

    __slots__ = ("is_done",)

    def __init__(self, recorder: Recorder, number: int) -> None:
        super().__init__(recorder, number, 1)
        self.is_done = False

    def done(self) -> None:
        """The step is done now: before a save or an evaluation in the same pass. Otherwise it is when the pass ends."""
        if not self.is_done:
            self.is_done = True
            self.__exit__(None, None, None)


def timed(
    loader: Iterable[Batch], recorder: Recorder, *, first_step: int = 1, last_step: int | None = None
) -> Iterator[tuple[LoopStep, Batch]]:
    """Each batch with its step; ends after ``last_step`` or with the loader.

    A pass that is left by an exception was no step. Nor is one that is left by ``break``, which looks the same from
    here, unless it said ``step.done()``; to stop after so many steps, give ``last_step``.
    """
    number = first_step
    batches = iter(loader)
    while last_step is None or number <= last_step:
        step = LoopStep(recorder, number)
        asked_ns = time.monotonic_ns()
        try:
            batch = next(batches)
        except StopIteration:
            return
        step.sections = {"data": (time.monotonic_ns() - asked_ns) / 1e9}
        yield step, batch
        step.done()
        number += 1
