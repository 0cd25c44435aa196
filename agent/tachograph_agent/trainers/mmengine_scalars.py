"""mmengine's ``scalars.json`` and mmcv's ``....log.json``: one JSON object a record, with durations, without a clock.

``{"loss": 1.1, "time": 0.5, "data_time": 0.01, "iter": 50, "step": 50, ...}``: ``time`` is the mean of one iteration.
mmcv has ``mode`` and counts ``iter`` within the epoch. How long an evaluation took is in neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from tachograph_agent.events import LARGEST_STEP, AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.hf_timeline import real
from tachograph_agent.trainers.jsonlines import records
from tachograph_agent.trainers.rows import Row, Rows
from tachograph_agent.trainers.story import framed


class MMEngineScalars:
    """The scalars of mmengine and of mmcv before it, as JSON Lines."""

    name: ClassVar[str] = "mmengine-scalars"
    title: ClassVar[str] = "mmengine scalars.json and mmcv log.json (durations, no clock)"

    def sniff(self, head: str) -> float:
        """Sure of ``data_time`` beside ``time`` and an iteration in a flat object."""
        for line in head.split("\n", 20)[:20]:
            if '"data_time"' in line and '"time"' in line and '"iter"' in line and line.startswith("{"):
                return 0.95
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Steps on a timeline of their own durations."""
        return framed(_events(lines, context), context)


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    rows = Rows(context, timed=False)
    epochs = _Epochs()
    for line_number, record, line in records(lines, context):
        if record is None:
            yield from rows.other(line)
            continue
        if "iter" not in record or "loss" not in record or record.get("mode", "train") != "train":
            if record.get("mode") == "val" or ("time" in record and "loss" not in record):
                context.note("How long evaluations took is not in this log.")
            continue
        step = epochs.step(record)
        if step is None:
            context.skip(line_number, "a record whose iteration is no number")
            continue
        row = Row(step, None, real(record.get("time")), real(record.get("loss")), real(record.get("grad_norm")))
        row.values = json.dumps(record, sort_keys=True)
        yield from rows.row(row, line_number)
    yield from rows.close()


class _Epochs:
    """Iterations counted within their epoch (mmcv), as steps of the run: an epoch is as long as its last record."""

    def __init__(self) -> None:
        self.epoch = 0
        self.last = 0
        self.before = 0

    def step(self, record: dict[str, Any]) -> int | None:
        """The number of steps done; None if it can't be read."""
        done = _count(record.get("step", record.get("iter")))
        epoch = _count(record.get("epoch"))
        if done is None or "step" in record or epoch is None or "mode" not in record:
            return done
        if epoch < self.epoch or (epoch == self.epoch and done <= self.last):
            self.before = 0 if epoch <= 1 else self.before
        elif epoch > self.epoch and done <= self.last:
            self.before += self.last
        self.epoch, self.last = epoch, done
        return self.before + done


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_STEP else None
