"""Tables of each worker's step times: one with a column that names the worker, or a file for each worker.

What is told is how long each worker's own part of each step took. Training is taken to be synchronous: a step lasts as
long as its slowest worker, so the timeline is made of those. A time without a unit is taken as milliseconds and said to
be: then only ratios mean something.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import ClassVar, Final

from tachograph_agent.events import LARGEST_STEP, LONGEST_DURATION_SECONDS, AnyEvent, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import Attempts, DurationClock, framed
from tachograph_agent.trainers.table_rows import TableRow, are_names, head_rows, table_rows
from tachograph_agent.trainers.text import integer, number

_WORKERS: Final = ("worker", "worker_id", "rank", "global_rank", "gpu_rank")
_STEPS: Final = ("step", "iteration", "iter", "batch", "global_step", "time", "timestamp", "time_s")
_TIMES: Final = re.compile(
    r"(?:mini_?)?(?:step|iter|iteration|batch|compute|busy)_?(?:time|duration)?(?:_norm|_normalized)?"
    r"(?:[_ (]{1,2}(?P<unit>s|sec|seconds|ms|us)\)?)?"
    r"|dur(?:ation)?(?:[_ (]{1,2}(?P<unit2>s|sec|seconds|ms|us)\)?)?"
)
_UNIT_SECONDS: Final = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6}
_MOST_ROWS: Final = 1_000_000
_NUMBER_IN_NAME: Final = re.compile(r"\d{1,9}")


def _columns(names: Sequence[str]) -> tuple[str | None, str, str] | None:
    """The columns of worker, step and time; None where they can't be told."""
    worker = next((name for name in _WORKERS if name in names), None)
    # `step` alone is a step's number, `step_time` its time; a bare `iteration` or `batch` is never a time.
    times = [name for name in names if name not in _STEPS and name not in _WORKERS and _TIMES.fullmatch(name)]
    step = next((name for name in _STEPS if name in names), None)
    return (worker, step, times[0]) if step is not None and times else None


def _is_header(names: Sequence[str]) -> bool:
    if len(names) > 12 or not are_names(names):
        return False
    columns = _columns(names)
    return columns is not None and (columns[0] is not None or len(names) <= 3) and not any("loss" in n for n in names)


class WorkerCSV:
    """Step times of workers."""

    name: ClassVar[str] = "worker-csv"
    title: ClassVar[str] = "Step times of workers (CSV: worker, step, step time; or a file for each worker)"

    def sniff(self, head: str) -> float:
        """Sure of a header that names worker, step and time, fairly sure without a worker."""
        told = head_rows(head, _is_header)
        columns = _columns(list(told[0])) if told else None
        if not told or columns is None:
            return 0.0
        worker, step, time = columns
        if any(number(row.get(step, "")) is None or number(row.get(time, "")) is None for row in told):
            return 0.0
        return 0.92 if worker is not None else 0.6

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """A step of each worker on a timeline of the slowest ones' times; all rows are held until the last is read."""
        return framed(_Reading(context).events(table_rows(lines, context, _is_header)), context)


class _Reading:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.clock = DurationClock(context)
        self.attempts = Attempts(context)
        self.times: dict[float, dict[int, float]] = {}
        """Seconds of each worker, by step."""
        self.ranks: dict[str, int] = {}
        self.num_rows = 0

    def events(self, table: Iterable[TableRow]) -> Iterator[AnyEvent]:
        columns: tuple[str | None, str, str] | None = None
        for row in table:
            if row.opens or columns is None:
                columns = _columns(list(row.cells)) or columns
            if columns is None or self.num_rows >= _MOST_ROWS:
                reason = "a row under a header whose first row lacks its step or its time"
                self.context.skip(row.line_number, reason if columns is None else f"more than {_MOST_ROWS:,} rows")
                continue
            self._take(row, *columns)
        yield from self._told()

    def _take(self, row: TableRow, worker: str | None, step: str, time: str) -> None:
        at, took = number(row.cells.get(step, "")), number(row.cells.get(time, ""))
        name = row.cells.get(worker) if worker is not None else _worker_of_file(self.context.file)
        if at is None or not 0.0 <= at <= LARGEST_STEP or took is None or not math.isfinite(took) or took < 0.0:
            self.context.skip(row.line_number, "a row without a step or a time that can be one")
            return
        if name is None:
            self.context.skip(row.line_number, "a row without a worker")
            return
        took = round(took * self._unit_seconds(time), 9)
        if took > LONGEST_DURATION_SECONDS:
            self.context.skip(row.line_number, "a step time of more than a year")
            return
        of_step = self.times.setdefault(at, {})
        rank = self._rank(name)
        if rank in of_step:
            self.context.note("Rows of one worker and step more than once: the first of each was taken.")
            return
        of_step[rank] = took
        self.num_rows += 1

    def _rank(self, name: str) -> int:
        """The worker's number if it is one, else its place in the order of appearance."""
        rank = self.ranks.get(name)
        if rank is None:
            told = integer(name)
            rank = told if told is not None and 0 <= told < LARGEST_STEP else None
            if rank is None or rank in self.ranks.values():
                rank = next(free for free in range(len(self.ranks) + 1) if free not in self.ranks.values())
            self.ranks[name] = rank
        return rank

    def _unit_seconds(self, column: str) -> float:
        found = _TIMES.fullmatch(column)
        unit = (found["unit"] or found["unit2"]) if found else None
        if unit is not None:
            return _UNIT_SECONDS[unit]
        self.context.note(
            f"The times in '{column}' have no unit; milliseconds were taken, so only ratios of them mean something."
        )
        return 1e-3

    def _told(self) -> Iterator[AnyEvent]:
        if not self.times:
            return
        self.context.note(
            "Training was taken to be synchronous: a step lasts as long as its slowest worker; what passed between "
            "steps is not in the log."
        )
        yield from self.attempts.begin(self.clock.pass_time(None))
        order = sorted(self.times)
        numbered = _are_steps(order)
        if not numbered:
            self.context.note("The steps have no numbers: they were counted from 1 in the order of their times.")
        from_zero = order[0] == 0
        for index, at in enumerate(order, start=1):
            of_step = self.times[at]
            took = max(of_step.values())
            t = self.clock.pass_time(took)
            for rank, own_s in of_step.items():
                step = (int(at) + from_zero) if numbered else index
                yield Step(t=t, attempt=self.attempts.number, rank=rank, step=step, dur=took, busy_s=own_s)


def _are_steps(order: Sequence[float]) -> bool:
    """Whether the column counts steps: whole numbers of which nearly each follows the last by one."""
    if any(at != int(at) for at in order):
        return False
    return order[-1] - order[0] + 1 <= 1.5 * len(order)


def _worker_of_file(file: str) -> str:
    """The worker that a file is of: the last number in its name, else the name."""
    stem = PurePath(file).name.partition(".")[0]
    numbers = _NUMBER_IN_NAME.findall(stem)
    return numbers[-1] if numbers else stem
