"""fairseq's console: ``DATE | INFO | train_inner | epoch 001:  2 / 39 loss=0.9, ups=2.24, ..., num_updates=2, wall=6``.

``num_updates`` is the step; ``2 / 39`` is a batch of the epoch. Times are whole seconds without a zone, so ``ups``
(updates a second since the line before) tells how long updates took; ``ups=0`` in the first line means unknown, and
that line lasts since training began. The same fields come as JSON (``--log-format json``, metaseq).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.rows import Row, Rows, numbered
from tachograph_agent.trainers.story import framed
from tachograph_agent.trainers.text import integer, number

_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]{4,8} \| ([\w.]{2,80}) \| ?(.*)")
_FIELD: Final = re.compile(r"\"?\b([A-Za-z]\w*)\"?[=:] *\"?([^\s,\"|}]+)")
_SAVED: Final = re.compile(r"Saved? checkpoint \S+ \(epoch \d+ @ (\d{1,15}) updates.*?writing took ([\d.]+) seconds")
_SAVING: Final = re.compile(r"Preparing to save checkpoint for epoch \d+ @ (\d{1,15}) updates")
_LOADED: Final = re.compile(r"Loaded checkpoint \S+ \(epoch \d+ @ (\d{1,15}) updates\)")
_BEGIN: Final = re.compile(r"begin training epoch (\d{1,9})")


class Fairseq:
    """fairseq's console, and that of metaseq, which OPT was trained with."""

    name: ClassVar[str] = "fairseq"
    title: ClassVar[str] = "fairseq and metaseq console (... | train_inner | epoch 001: ... num_updates=...)"

    def sniff(self, head: str) -> float:
        """Sure of its trainer's lines behind its bars."""
        found = {name for name, _ in _LINE.findall(head)}
        if "train_inner" in found:
            return 0.97
        return 0.7 if any(name.startswith(("fairseq", "metaseq")) for name in found) else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps, saves, evaluations, starts and the end."""
        return framed(_Reading(context).events(lines), context)


class _Reading:
    """Where the reading of one log stands."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = Rows(context, timed=True)
        self.resume_step: int | None = None
        self.up_at: float | None = None
        self.eval_from: float | None = None

    def events(self, lines: Iterable[str]) -> Iterator[AnyEvent]:
        for line_number, line, origin in numbered(lines):
            found = _LINE.search(line)
            t = None if found is None else self.rows.clock.find(found[0])
            if found is None or t is None:
                yield from self.rows.other(line)
                continue
            yield from self._line(found[1], found[2], t, line_number, origin)
        yield from self.rows.close()

    def _line(self, logger: str, text: str, t: float, line_number: int, origin: str) -> Iterator[AnyEvent]:
        if logger == "train_inner":
            yield from self._step(text, t, line_number, origin)
        elif logger.startswith("valid"):
            began, self.eval_from = self.eval_from, None
            yield from self.rows.evaluated(t, None if began is None else t - began)
        elif text.startswith("begin validation"):
            self.eval_from = t
        elif found := _SAVED.search(text):
            yield from self.rows.saved(t, int(found[1]), number(found[2]))
        elif found := _SAVING.search(text):
            yield from self.rows.save_begun(t, int(found[1]))
        elif found := _LOADED.search(text):
            self.resume_step = int(found[1])
        elif text.startswith("No existing checkpoint found"):
            self.resume_step = 0
        elif found := _BEGIN.search(text):
            yield from self._begin(int(found[1]), t)
        elif text.startswith("done training in"):
            self.rows.finished(t)
        else:
            if logger.endswith("_cli.train") and text.startswith(("Namespace", "{'_name'")):
                self.up_at = t
            yield from self.rows.other(text)

    def _begin(self, epoch: int, t: float) -> Iterator[AnyEvent]:
        """Each epoch begins with this line; training only with the first, or after a checkpoint was looked for."""
        if self.resume_step is None and self.rows.attempts.begun and (epoch > 1 or self.rows.order.last is None):
            return
        resume_step = self.resume_step if self.resume_step is not None else 0 if epoch == 1 else None
        yield from self.rows.start(t, resume_step, up_at=self.up_at)
        self.resume_step, self.up_at = None, None

    def _step(self, text: str, t: float, line_number: int, origin: str) -> Iterator[AnyEvent]:
        fields = dict(_FIELD.findall(text))
        step = integer(fields.get("num_updates", ""))
        if step is None:
            self.context.skip(line_number, "a train_inner line without num_updates, cut off or garbled")
            return
        ups = number(fields.get("ups", ""))
        row = Row(step, t, 1.0 / ups if ups is not None and ups > 1e-6 else None, values=text)
        row.loss, row.grad_norm = number(fields.get("loss", "")), number(fields.get("gnorm", ""))
        yield from self.rows.row(row, line_number, origin)
