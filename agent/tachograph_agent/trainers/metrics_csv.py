"""Tables of metrics that a logger wrote, a row now and then, without times: Lightning's ``metrics.csv``, Keras' log.

Lightning's rows are sparse and several stand for one step (training, validation, means over an epoch): they are merged.
``step`` counts from 0. The header is the union of all keys, so the file is written again, history and all, when a key
appears; a header in the middle, or at the front of a further file (``version_1``), is a resume. Keras' rows are epochs.
Only a column such as ``epoch_time`` tells how long anything took.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from tachograph_agent.events import LARGEST_STEP, AnyEvent, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import NUM_REMEMBERED_STEPS, Attempts, DurationClock, framed
from tachograph_agent.trainers.table_rows import TableRow, are_names, head_rows, table_rows
from tachograph_agent.trainers.text import integer, number

_EPOCH_TIME: Final = re.compile(r"(?:train_?)?epoch_?(?:time|duration|seconds)(?:_s|_sec|_seconds)?")
_STEP_TIME: Final = re.compile(r"(?:train[_/]|perf/)?(?:step|iter|iteration|batch)_?(?:time|duration)(_s|_sec|_ms)?")
_EVALUATED: Final = re.compile(r"(?:val|valid|validation|test|eval)(?:[_/ ]|$)")
_LOSSES: Final = (
    "train_loss_step",
    "train/loss_step",
    "train_loss",
    "train/loss",
    "training_loss",
    "reduced_train_loss",
    "loss_step",
    "loss",
)
_NORMS: Final = ("grad_norm", "train/grad_norm", "train_grad_norm", "gradient_norm", "grad_2.0_norm_total")
_WORKERS: Final = frozenset({"worker", "rank", "worker_id", "global_rank"})
_MOST_HELD: Final = 20_000
"""Records that wait for their epoch's time."""


def _is_lightning(names: Sequence[str]) -> bool:
    if "step" not in names or not are_names(names) or _WORKERS & set(names):
        return False
    return any(_is_metric(name) for name in names)


def _is_keras(names: Sequence[str]) -> bool:
    return (
        names[0] == "epoch" and "step" not in names and are_names(names) and any("loss" in name for name in names[1:])
    )


def _is_metric(name: str) -> bool:
    return "loss" in name or "perplexity" in name or name.endswith(("acc", "accuracy")) or name.startswith("train")


def _sniff(told: list[dict[str, str]] | None, key: str) -> float:
    """Sure if every row seen has a number under ``key`` and numbers are most of the rest."""
    if told is None:
        return 0.0
    if not told:
        return 0.0
    if any(integer(row.get(key, "")) is None for row in told if not _repeats_header(row)):
        return 0.0
    cells = [cell for row in told if not _repeats_header(row) for cell in row.values()]
    return 0.9 if cells and sum(number(cell) is not None for cell in cells) * 2 > len(cells) else 0.0


def _repeats_header(row: Mapping[str, str]) -> bool:
    return all(name == cell.lower() for name, cell in row.items())


class LightningCSV:
    """Lightning's CSVLogger."""

    name: ClassVar[str] = "lightning-csv"
    title: ClassVar[str] = "Lightning metrics.csv (CSVLogger; no times but a logged epoch_time)"

    def sniff(self, head: str) -> float:
        """Sure of a header with ``step`` and a metric over rows of numbers."""
        return _sniff(head_rows(head, _is_lightning), "step")

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps of each attempt on a timeline of the durations that are known."""
        return framed(_Reading(context, "step").events(table_rows(lines, context, _is_lightning)), context)


class KerasCSV:
    """Keras' CSVLogger: one row an epoch, which is the step."""

    name: ClassVar[str] = "keras-csv"
    title: ClassVar[str] = "Keras CSVLogger (a row an epoch; its steps are epochs)"

    def sniff(self, head: str) -> float:
        """Sure of a header that begins with ``epoch`` and has a loss, over rows of numbers."""
        return _sniff(head_rows(head, _is_keras), "epoch")

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Epochs of each attempt as steps."""
        context.note("A row is an epoch: what is called a step here is an epoch, counted from 1.")
        return framed(_Reading(context, "epoch").events(table_rows(lines, context, _is_keras)), context)


class _Reading:
    """Where the reading of one run's tables stands."""

    def __init__(self, context: Context, key: str) -> None:
        self.context = context
        self.key = key
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.seen: dict[int, set[frozenset[tuple[str, str]]]] = {}
        self.held: list[Step] = []
        """The records of this epoch, whose time may still be told."""
        self.epoch: str | None = None
        self.epoch_s: float | None = None
        self.step_s: dict[int, float] = {}
        self.last: int | None = None
        """Steps done by the attempt's last record."""
        self.in_question = False
        """A header was met: what follows it shows whether it was a rewrite or a resume."""
        self.mean: tuple[str, float] | None = None
        self.timed = False
        self.waits = False
        """The table has a column of epochs' times, so records wait for their epoch's end."""

    def events(self, table: Iterable[TableRow]) -> Iterator[AnyEvent]:
        for row in table:
            step = integer(row.cells.get(self.key, ""))
            if step is None or not 0 <= step < LARGEST_STEP:
                self.context.skip(row.line_number, f"a row without a {self.key} that can be one")
                continue
            if row.opens:
                self.in_question = True
                self.waits = any(_EPOCH_TIME.fullmatch(name) for name in row.columns)
            yield from self._row(step + 1, row.cells)
        yield from self._flush()
        self._say()

    def _row(self, step: int, cells: Mapping[str, str]) -> Iterator[AnyEvent]:
        values = frozenset(cells.items())
        if values in self.seen.get(step, ()):
            self.in_question = False  # history, written again
            return
        loss = _loss(cells)
        trains = loss is not None or not self._only_evaluates(cells)
        back = self.last is not None and step < self.last
        if back and not trains:
            return
        resumed = self.in_question and self.last is not None and (step > self.last or trains)
        if back or resumed or not self.attempts.begun:
            yield from self._flush()
            yield from self.attempts.begin(self.clock.pass_time(None))
            if self.attempts.number:
                self.context.note(
                    "A resume was seen by its header or by a step that went back; how long after the record before it "
                    "is not in the log."
                )
            self.seen.clear()
            self.last = None
        self.in_question = False
        self._remember(step, values)
        epoch = cells.get("epoch")
        if epoch != self.epoch or len(self.held) >= _MOST_HELD:
            yield from self._flush()
            self.epoch = epoch
        elif not self.waits and len(self.held) > 1 and step > self.held[-1].step:
            yield from self._flush()  # whoever follows a log that grows needn't wait for the epoch's end
        self._take(step, cells, loss)

    def _take(self, step: int, cells: Mapping[str, str], loss: float | None) -> None:
        """A row of a step not seen before is a record of all steps since the last; one more of the last adds to it."""
        if self.last is None or step > self.last:
            record = Step(t=0.0, attempt=self.attempts.number, step=step)
            record.count = 0 if self.last is None else step - self.last  # 0: told by the record after it
            if not self.held and self.last is None and self.key == "epoch":
                record.count = 1
            self.held.append(record)
            self.last = step
        record = self.held[-1] if self.held else Step(t=0.0, step=step)
        if record.loss is None:
            record.loss = loss
        if record.grad_norm is None:
            record.grad_norm = next((number(cells[name]) for name in _NORMS if name in cells), None)
        for name, cell in cells.items():
            value = number(cell)
            if value is None:
                continue
            if _EPOCH_TIME.fullmatch(name):
                self.epoch_s = value if math.isfinite(value) and value > 0.0 else self.epoch_s
            elif (found := _STEP_TIME.fullmatch(name)) and math.isfinite(value) and value > 0.0:
                self.step_s[step] = value / 1000.0 if found[1] == "_ms" else value
            elif "loss" in name and name.endswith("_epoch") and not _EVALUATED.match(name):
                self.mean = name, value

    def _flush(self) -> Iterator[AnyEvent]:
        """The epoch's records, with their share of its time where that is told."""
        held, self.held = self.held, []
        epoch_s, self.epoch_s = self.epoch_s, None
        step_s, self.step_s = self.step_s, {}
        if not held:
            return
        yield from self.attempts.stepped()
        if not held[0].count:
            next_count = held[1].count if len(held) > 1 else None
            from_scratch = self.attempts.number == 0 and next_count is not None and held[0].step <= 2 * next_count
            held[0].count = held[0].step if from_scratch else max(1, next_count or 1)
        num_steps = sum(record.count or 1 for record in held)
        for record in held:
            count = record.count or 1
            one_s = step_s.get(record.step) if epoch_s is None else epoch_s / num_steps
            if one_s is not None:
                self.timed = True
                record.dur = round(one_s * count, 6)
            record.t = self.clock.pass_time(record.dur)
            yield record

    def _only_evaluates(self, cells: Mapping[str, str]) -> bool:
        return all(_EVALUATED.match(name) or name in {"epoch", "step"} for name in cells)

    def _remember(self, step: int, values: frozenset[tuple[str, str]]) -> None:
        if step not in self.seen and len(self.seen) >= NUM_REMEMBERED_STEPS:
            del self.seen[next(iter(self.seen))]
        self.seen.setdefault(step, set()).add(values)

    def _say(self) -> None:
        """What can't be known from such a table, once it has been read."""
        if self.timed:
            self.context.note(
                "Times are only those of a column such as epoch_time, taken as seconds and spread evenly over the "
                "epoch's steps; a validation within it can't be told apart."
            )
        elif self.attempts.begun:
            self.context.note("No column tells a time: how long anything took can't be known.")
        if self.mean is not None:
            self.context.note(
                f"Means over an epoch are no step's loss and were not taken as one; the last {self.mean[0]} is "
                f"{self.mean[1]:.6g}."
            )


def _loss(cells: Mapping[str, str]) -> float | None:
    """The training loss of a row: under a name that is known, else under the shortest that isn't of an evaluation."""
    for name in _LOSSES:
        if name in cells:
            return number(cells[name])
    others = [
        name for name in cells if "loss" in name and not _EVALUATED.match(name) and not name.endswith(("_epoch", "avg"))
    ]
    return number(cells[min(others, key=len)]) if others else None
