"""Steps thinned out so that a month draws in one screen: smallest, mean and greatest of each stretch of time.

Memory depends on the number of points asked for, never on that of the steps: they are added piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.service.formats import Column, Table
from tachograph_collector.store.packing import StepColumns

METRICS: Final = ("step_s", "busy_s", "wait_s", "loss", "grad_norm", "tokens")
"""Durations and tokens are those of one step: a record that tells of several is divided by their number."""
_PER_STEP: Final = {"step_s": "dur_s", "busy_s": "busy_s", "wait_s": "wait_s", "tokens": "tokens"}
_AT_ONCE: Final = 262_144
_MOST_STEPS: Final = 2.0**63 - 1024
"""The greatest float that is an int64; records of that many steps exist in broken logs."""
"""Records that are added together: few calls for many small pieces, and little memory."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Buckets:
    """``num`` stretches of equal length from ``start_us`` up to ``end_us``, for each of ``ranks`` or all together.

    Means are weighted by steps. A record belongs where it ended.
    """

    def __init__(
        self, start_us: int, end_us: int, num: int, ranks: Sequence[int] | None, metrics: Sequence[str] = METRICS
    ) -> None:
        self._start_us = start_us
        self._end_us = end_us
        self._num = num
        self._ranks = None if ranks is None else np.unique(np.array(ranks, dtype=np.int64))
        self._metrics = metrics
        size = num * (1 if self._ranks is None else len(self._ranks))
        self._records: Ints = np.zeros(size, dtype=np.int64)
        self._steps: Floats = np.zeros(size)
        self._first: Ints = np.full(size, np.iinfo(np.int64).max)
        self._last: Ints = np.full(size, np.iinfo(np.int64).min)
        self._least: dict[str, Floats] = {name: np.full(size, np.inf) for name in metrics}
        self._most: dict[str, Floats] = {name: np.full(size, -np.inf) for name in metrics}
        self._sums: dict[str, Floats] = {name: np.zeros(size) for name in metrics}
        self._weights: dict[str, Floats] = {name: np.zeros(size) for name in metrics}

    @property
    def num_records(self) -> int:
        """Records added that were of these ranks and this time."""
        return int(self._records.sum())

    def add_all(self, pieces: Iterable[StepColumns]) -> None:
        """Add many pieces, some at once."""
        waiting: list[StepColumns] = []
        num = 0
        for piece in pieces:
            waiting.append(piece)
            num += len(piece)
            if num >= _AT_ONCE:
                self._add(waiting)
                waiting, num = [], 0
        if waiting:
            self._add(waiting)

    def _add(self, pieces: Sequence[StepColumns]) -> None:
        def column(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(piece, name) for piece in pieces])

        at_us, ranks = column("t_us"), column("rank")
        mine = (at_us >= self._start_us) & (at_us < self._end_us)
        series = np.zeros(len(at_us), dtype=np.int64)
        if self._ranks is not None:
            series = np.searchsorted(self._ranks, ranks)
            series[series == len(self._ranks)] = 0
            mine &= self._ranks[series] == ranks
        width_us = (self._end_us - self._start_us) / self._num
        place = np.minimum(((at_us[mine] - self._start_us) / width_us).astype(np.int64), self._num - 1)
        place += series[mine] * self._num
        count = np.maximum(column("count")[mine], 1)
        step = column("step")[mine]
        size = len(self._records)
        self._records += np.bincount(place, minlength=size)
        self._steps += np.bincount(place, weights=count, minlength=size)
        np.minimum.at(self._first, place, step)
        np.maximum.at(self._last, place, step)
        for name in self._metrics:
            values = column(_PER_STEP.get(name, name))[mine]
            told = np.isfinite(values)
            if not told.any():
                continue
            weights = count[told].astype(np.float64)
            one = values[told] / weights if name in _PER_STEP else values[told]
            where = place[told]
            np.minimum.at(self._least[name], where, one)
            np.maximum.at(self._most[name], where, one)
            with np.errstate(over="ignore", invalid="ignore"):  # giant numbers: a mean that is none is told as unknown
                self._sums[name] += np.bincount(where, weights=one * weights, minlength=size)
            self._weights[name] += np.bincount(where, weights=weights, minlength=size)

    def table(self) -> Table:
        """The stretches that have any record, rank by rank in order of time."""
        filled = np.flatnonzero(self._records)
        series, bucket = np.divmod(filled, self._num)
        edges = self._start_us + np.rint(
            np.arange(self._num + 1) * ((self._end_us - self._start_us) / self._num)
        ).astype(np.int64)
        ranks: Any = [None] * len(filled) if self._ranks is None else self._ranks[series]
        columns = [
            Column("rank", "int", ranks),
            Column("start", "time", edges[bucket]),
            Column("end", "time", edges[bucket + 1]),
            Column("first_step", "int", self._first[filled]),
            Column("last_step", "int", self._last[filled]),
            Column("records", "int", self._records[filled]),
            Column("steps", "int", np.minimum(self._steps[filled], _MOST_STEPS).astype(np.int64)),
        ]
        for name in self._metrics:
            weights = self._weights[name][filled]
            with np.errstate(divide="ignore", invalid="ignore"):
                means = self._sums[name][filled] / weights
            for what, values in (
                ("min", self._least[name][filled]),
                ("mean", means),
                ("max", self._most[name][filled]),
            ):
                known = (weights > 0) & np.isfinite(values)
                columns.append(Column(f"{name}_{what}", "float", np.where(known, values, np.nan)))
        return columns
