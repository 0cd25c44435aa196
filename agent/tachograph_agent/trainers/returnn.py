"""RETURNN's log: ``ep 1 train, step 42, loss 3.2, ..., 0.512 sec/step, elapsed 0:01:02, exp. remaining 0:10:00``.

No times of day: the timeline is made of the duration of each step. ``step`` counts from 0 within its epoch, so that a
step number which falls while the epoch's rises is no restart; ``global train step N`` tells where an epoch begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows, numbered
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import number

_STEP: Final = re.compile(
    r"\b(?:ep|(?:pre)?train epoch|epoch) (?P<epoch>\d{1,9})(?: (?P<what>[^,]{1,40}))?, step (?P<step>\d{1,15}),"
    r"(?P<rest>.{0,1500}?)(?P<took>[\d.]{1,20}) sec/step\b"
)
_STARTING: Final = re.compile(r"Starting training at epoch (\d{1,9}), global train step (\d{1,15})")
_SHAPED: Final = re.compile(r"\bep \d+ train, step \d")


class RETURNN:
    """RETURNN's log."""

    name: ClassVar[str] = "returnn"
    title: ClassVar[str] = "RETURNN log (ep N train, step N, ... sec/step, elapsed ...; durations, no clock)"

    def sniff(self, head: str) -> float:
        """Sure of a step with its duration."""
        return 0.96 if _STEP.search(head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, evaluations and saves on a timeline of durations."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = Rows(context, timed=False)
        self.epoch: int | None = None
        self.base: int | None = None
        """Steps done before this epoch."""
        self.last = -1
        self.evaluated_s = 0.0

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line, origin in numbered(lines):
            found = _STEP.search(line)
            if found is not None and (found["what"] or "train") not in ("train", ""):
                self.evaluated_s += number(found["took"]) or 0.0
                continue
            yield from self._evaluated()
            if found is not None:
                yield from self._step(found, line_number, origin)
            elif started := _STARTING.search(line):
                yield from self.rows.start(None, int(started[2]))
                self.epoch, self.base, self.last = int(started[1]), int(started[2]), -1
            elif "Save model under " in line:
                yield from self.rows.saved(None)
            elif "Finished training at epoch " in line:
                self.rows.finished(None)
            elif _SHAPED.search(line):
                self.context.skip(line_number, "a step line without its duration, cut off or garbled")
            else:
                yield from self.rows.other(line)
        yield from self._evaluated()
        yield from self.rows.close()

    def _evaluated(self) -> Iterator[AnyEvent]:
        took_s, self.evaluated_s = self.evaluated_s, 0.0
        yield from self.rows.evaluated(None, took_s)

    def _step(self, found: re.Match[str], line_number: int, origin: str) -> Iterator[AnyEvent]:
        epoch, number_in_epoch = int(found["epoch"]), int(found["step"])
        if self.epoch is None or self.base is None:
            self.base = 0
            if epoch > 1:
                self.context.note("The log begins after its first epoch: steps are counted from where it begins.")
        elif epoch > self.epoch:
            self.base += self.last + 1
        elif epoch < self.epoch:
            self.context.note("An epoch began again: its steps are counted from the last one's beginning known.")
            self.base = 0 if epoch <= 1 else self.base
        if epoch != self.epoch:
            self.epoch, self.last = epoch, -1
        self.last = number_in_epoch
        loss = re.search(r"(?:^|[ ,])loss ([^\s,]+)", found["rest"])
        row = Row(self.base + number_in_epoch + 1, None, number(found["took"]), values=found[0])
        row.loss = None if loss is None else number(loss[1])
        yield from self.rows.row(row, line_number, origin)
