"""Composer's console: ``[epoch=1][batch=5/625]:`` and ``Train loss/train/total: 2.3`` below, without times of day.

``Train time/batch`` counts batches of the whole run and is one behind the batch that the header names. Durations come
from the hours of training in ``time/train`` (``wall_clock/train``: seconds), else from ``throughput/batches_per_sec``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.blocks import Block, blocks
from tachograph_agent.trainers.rows import Row, Rows
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import integer, number

_HEADER: Final = re.compile(r"\[batch=(\d{1,15})/(\d{1,15})\]:\s*$")
_NAMED: Final = re.compile(r"^\s*(?:\S+ )?Train (?:time|loss|trainer|throughput|metrics|memory)/", re.MULTILINE)
_BEGINS: Final = re.compile(r"composer\.trainer\.trainer: (?:Stepping schedulers|Using precision)|^Starting training")


class Composer:
    """The console of MosaicML's Composer."""

    name: ClassVar[str] = "composer"
    title: ClassVar[str] = "Composer console ([batch=N/M]: and 'Train name: value' lines; durations, no clock)"

    def sniff(self, head: str) -> float:
        """Sure of a header with a name of its own below."""
        return 0.95 if re.search(_HEADER.pattern, head, re.MULTILINE) and _NAMED.search(head) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps and evaluations on a timeline of durations."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = Rows(context, timed=False)
        self.trained: tuple[int, float] | None = None
        self.evaluated_s: float | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for part in blocks(lines, _HEADER, ":"):
            if isinstance(part, Block):
                yield from self._record(part)
            else:
                if _BEGINS.search(part):
                    self.trained = self.evaluated_s = None
                yield from self.rows.other(part)
        yield from self.rows.close()

    def _record(self, block: Block) -> Iterator[AnyEvent]:
        fields = {name.removeprefix("Train "): value for name, value in block.fields.items()}
        if not any(name.startswith("Train ") for name in block.fields):
            return  # an evaluation's block, or a header that was cut off
        batch = integer(fields.get("time/batch", ""))
        step = int(block.header[1]) if batch is None else batch + 1
        trained_s, evaluated_s = _clocked(fields, "train", self.context), _clocked(fields, "val", self.context)
        if self.trained is not None and (step < self.trained[0] or (trained_s or 0.0) < self.trained[1]):
            self.trained = self.evaluated_s = None
        one_s = None
        if trained_s is not None:
            before_step, before_s = self.trained or (0, 0.0)
            if self.trained is not None or step <= 1:
                one_s = (trained_s - before_s) / max(1, step - before_step)
            self.trained = step, trained_s
        rate = number(fields.get("throughput/batches_per_sec", ""))
        if one_s is None and rate is not None and rate > 1e-7:
            one_s = 1.0 / rate
        if evaluated_s is not None:
            if self.evaluated_s is not None and evaluated_s > self.evaluated_s:
                yield from self.rows.evaluated(None, evaluated_s - self.evaluated_s)
            self.evaluated_s = evaluated_s
        row = Row(step, None, one_s, number(fields.get("loss/train/total", "")), values=tuple(block.fields.items()))
        yield from self.rows.row(row, block.line_number, block.origin)


def _clocked(fields: dict[str, str], name: str, context: Context) -> float | None:
    """Seconds that a stopwatch of the trainer shows."""
    if f"wall_clock/{name}" in fields:
        return number(fields[f"wall_clock/{name}"])
    hours = number(fields.get(f"time/{name}", ""))
    if hours is None:
        return None
    context.note("time/train and time/val were taken as hours, Composer's default unit.")
    return hours * 3600.0
