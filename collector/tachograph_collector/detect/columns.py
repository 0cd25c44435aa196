"""Steps as columns: what detectors need of many step records at once, an array a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray
from tachograph_agent.events import LONGEST_DURATION_SECONDS, Step

MAX_COUNT: Final = 1e9
MAX_STAGE: Final = 1_000_000
"""A greater number is no stage of a pipeline."""
NO_RANK: Final = -1
"""Stands for records that name no rank."""

Floats: TypeAlias = NDArray[np.float64]
Wholes: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

if TYPE_CHECKING:
    Array: TypeAlias = NDArray[Any]
else:
    Array = np.ndarray  # what msgspec knows a field by when it restores one


class StepColumns(Struct):
    """Step records, an array a field, all of one length. NaN where a record doesn't say, but for ``has_*``."""

    attempt: list[str]
    """The names of the attempts, each once; ``attempt_index`` points into it."""
    attempt_index: Array
    t_us: Array
    rank: Array
    step: Array
    count: Array
    """Steps of the record."""
    one_s: Array
    """The time of one step, by the wall clock."""
    dur_s: Array
    """The time of the whole record."""
    work_s: Array
    """A rank's own work for one step, before it waits for others; see ``_work``."""
    loss: Array
    has_loss: Array
    norm: Array
    has_norm: Array
    nodes: dict[str, dict[int, str | None]]
    """Of each rank, by attempt: the next one may have put it elsewhere."""
    stages: dict[str, dict[int, int | None]]
    moved_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """How much later than ``t_us`` each was told, by a clock that is off; zeros if not given."""

    def __post_init__(self) -> None:
        if not len(self.moved_us):
            self.moved_us = np.zeros(len(self.t_us), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.t_us)

    def take(self, which: Any) -> StepColumns:
        """The rows ``which`` (a slice, a mask or indexes)."""
        arrays = {name: getattr(self, name)[which] for name in ARRAYS}
        return StepColumns(attempt=self.attempt, nodes=self.nodes, stages=self.stages, **arrays)


ARRAYS: Final = (
    "attempt_index", "t_us", "rank", "step", "count", "one_s", "dur_s", "work_s",
    "loss", "has_loss", "norm", "has_norm", "moved_us",
)  # fmt: skip

_NAN: Final = float("nan")


def _work(step: Step) -> float:
    """Busy time; else the step less its waiting; else the sections before the collective, summed. For all ``count``."""
    if step.busy_s is not None:
        return step.busy_s
    sections = step.sections
    if not sections:
        return _NAN
    wait = sections.get("wait")
    if wait is not None and step.dur is not None:
        return step.dur - wait
    return sum(value for name, value in sections.items() if name in ("data", "forward", "backward")) or _NAN


def _stage(step: Step) -> int | None:
    return step.stage if step.stage is not None and abs(step.stage) <= MAX_STAGE else None


def columns_of(steps: Sequence[Step]) -> StepColumns:
    """The records as columns, in their order."""
    num = len(steps)
    names = [str(one.attempt) if one.attempt is not None else "0" for one in steps]
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    ranks = [NO_RANK if one.rank is None else one.rank for one in steps]
    count = np.minimum(np.array([one.count for one in steps], dtype=np.float64), MAX_COUNT)
    dur = np.array([_NAN if one.dur is None else one.dur for one in steps], dtype=np.float64)
    losses = [one.loss for one in steps]
    norms = [one.grad_norm for one in steps]
    work = np.array([_work(one) for one in steps], dtype=np.float64)
    nodes: dict[str, dict[int, str | None]] = {name: {} for name in index}
    stages: dict[str, dict[int, int | None]] = {name: {} for name in index}
    if len(index) == 1:
        nodes[names[0]] = dict(zip(ranks, [one.node for one in steps], strict=True))
        stages[names[0]] = dict(zip(ranks, [_stage(one) for one in steps], strict=True))
    else:
        for name, rank, one in zip(names, ranks, steps, strict=True):
            nodes[name][rank], stages[name][rank] = one.node, _stage(one)
    return StepColumns(
        attempt=list(index),
        attempt_index=np.array([index[name] for name in names], dtype=np.int64)
        if len(index) > 1
        else np.zeros(num, dtype=np.int64),
        t_us=np.rint(np.array([one.t for one in steps], dtype=np.float64) * 1e6).astype(np.int64),
        rank=np.array(ranks, dtype=np.int64),
        step=np.array([one.step for one in steps], dtype=np.int64),
        count=count,
        one_s=dur / count,
        dur_s=dur,
        work_s=np.where((work > 0) & (work < LONGEST_DURATION_SECONDS), work, np.nan) / count,
        loss=np.array([_NAN if one is None else one for one in losses], dtype=np.float64),
        has_loss=np.array([one is not None for one in losses], dtype=np.bool_),
        norm=np.array([_NAN if one is None else one for one in norms], dtype=np.float64),
        has_norm=np.array([one is not None for one in norms], dtype=np.bool_),
        nodes=nodes,
        stages=stages,
    )


def joined(parts: Sequence[StepColumns]) -> StepColumns:
    """All records of ``parts``, by time, rank and step; those that were told the same in all three stay once."""
    if len(parts) == 1:
        whole = parts[0]
    else:
        index: dict[str, int] = {}
        places = []
        for part in parts:
            mapped = np.array([index.setdefault(name, len(index)) for name in part.attempt] or [0], dtype=np.int64)
            places.append(mapped[part.attempt_index])
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS[1:]}
        nodes: dict[str, dict[int, str | None]] = {}
        stages: dict[str, dict[int, int | None]] = {}
        for part in parts:
            for name in part.attempt:
                nodes.setdefault(name, {}).update(part.nodes.get(name, {}))
                stages.setdefault(name, {}).update(part.stages.get(name, {}))
        whole = StepColumns(
            attempt=list(index), attempt_index=np.concatenate(places), nodes=nodes, stages=stages, **arrays
        )
    order = np.lexsort((whole.step, whole.rank, whole.t_us))
    whole = whole.take(order)
    if len(whole) > 1:
        same = (np.diff(whole.t_us) == 0) & (np.diff(whole.rank) == 0) & (np.diff(whole.step) == 0)
        if same.any():
            whole = whole.take(np.concatenate(([True], ~same)))
        if whole.moved_us.any():
            whole = _once_as_told(whole)
    return whole


def _once_as_told(whole: StepColumns) -> StepColumns:
    """Without what was told again after it had shown how far its clock is off, and was placed elsewhere than before."""
    told_us = whole.t_us + whole.moved_us
    order = np.lexsort((whole.step, whole.rank, told_us))
    same = (np.diff(told_us[order]) == 0) & (np.diff(whole.rank[order]) == 0) & (np.diff(whole.step[order]) == 0)
    stays = np.ones(len(whole), dtype=np.bool_)
    stays[order[1:][same]] = False
    return whole if stays.all() else whole.take(stays)


def encode_array(value: Any) -> Any:
    """For msgspec: an array as its type, its shape and its bytes."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), list(value.shape), np.ascontiguousarray(value).tobytes())
    raise NotImplementedError(f"no way to save a {type(value).__name__}")


def decode_array(kind: type, value: Any) -> Any:
    """For msgspec: the array that ``encode_array`` wrote."""
    if not issubclass(getattr(kind, "__origin__", kind), np.ndarray):
        raise NotImplementedError(f"no way to restore a {kind}")
    dtype, shape, data = value
    return np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape).copy()


encoder: Final = msgspec.msgpack.Encoder(enc_hook=encode_array)
