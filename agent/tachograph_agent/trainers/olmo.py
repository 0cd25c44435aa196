"""OLMo's and OLMo-core's console: a line ``[step=120/5000,epoch=1,eta=2 hours]`` and ``    train/CE loss=2.345`` below.

Every line has a time of day (no zone). A save is told from ``Saving checkpoint for step N`` to ``Checkpoint saved``; an
asynchronous one has landed with ``Checkpoint for step N saved successfully``.
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

_HEADER: Final = re.compile(r"\[step=([\d,]{1,20})/([\d,?]{1,20})(?:,epoch=\d+)?(?:,eta=[^\]]{0,60})?\]")
_SAVING: Final = re.compile(r"Saving checkpoint for step (\d{1,15}) to .*?(asynchronously)?\.\.\.")
_LANDED: Final = re.compile(r"Checkpoint for step (\d{1,15}) saved successfully")
_LOADING: Final = re.compile(r"Loading checkpoint from \S*?(?:step(\d{1,15}))?[/'\"]*\.\.\.")
_TRAINING: Final = re.compile(r"\tTraining for [\d,]+ steps|\] Training for [\d,]+ steps")
_LOSSES: Final = ("train/CE loss", "train/CrossEntropyLoss")
_NORMS: Final = ("optim/total grad norm", "optim/total_grad_norm")


class OLMo:
    """The console of OLMo and OLMo-core."""

    name: ClassVar[str] = "olmo"
    title: ClassVar[str] = "OLMo and OLMo-core console ([step=N/M,epoch=...] and key=value lines)"

    def sniff(self, head: str) -> float:
        """Sure of a header with one of its names below."""
        if not _HEADER.search(head):
            return 0.0
        return 0.96 if re.search(r"^\s+(?:train|optim|throughput|System)/[^\n=]+=", head, re.MULTILINE) else 0.6

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, starts and the end."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = Rows(context, timed=True)
        self.loaded = False
        self.resume_step: int | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for part in blocks(lines, _HEADER, "="):
            if isinstance(part, Block):
                yield from self._record(part)
            else:
                yield from self._line(part)
        yield from self.rows.close()

    def _record(self, block: Block) -> Iterator[AnyEvent]:
        step, t = integer(block.header[1]), self.rows.clock.find(block.line)
        if step is None or (t is None and self.rows.t is None):
            self.context.skip(block.line_number, "a step line without a number or a time")
            return
        row = Row(step, t, values=(block.line, tuple(block.fields.items())))
        row.loss = _first(block.fields, _LOSSES)
        row.grad_norm = _first(block.fields, _NORMS)
        yield from self.rows.row(row, block.line_number, block.origin)

    def _line(self, line: str) -> Iterator[AnyEvent]:
        if "heckpoint" not in line and "Training" not in line:
            yield from self.rows.other(line)
            return
        t = self.rows.clock.find(line)
        if t is None:
            yield from self.rows.other(line)
        elif found := _SAVING.search(line):
            if found[2]:
                yield from self.rows.scheduled(t, int(found[1]))
            else:
                yield from self.rows.save_begun(t, int(found[1]))
        elif found := _LANDED.search(line):
            yield from self.rows.landed(t, int(found[1]))
        elif line.rstrip().endswith("Checkpoint saved"):
            yield from self.rows.saved(t)
        elif found := _LOADING.search(line):
            self.loaded, self.resume_step = True, integer(found[1] or "")
        elif _TRAINING.search(line):
            yield from self.rows.start(t, self.resume_step if self.loaded else 0)
            self.loaded, self.resume_step = False, None
        elif line.rstrip().endswith("Training complete"):
            self.rows.finished(t)
        else:
            yield from self.rows.other(line)


def _first(fields: dict[str, str], names: tuple[str, ...]) -> float | None:
    return next((number(fields[name]) for name in names if name in fields), None)
