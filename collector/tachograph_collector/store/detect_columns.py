"""A stored piece of steps as the detectors' columns, without making an event of each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from tachograph_agent.events import LONGEST_DURATION_SECONDS

from tachograph_collector.detect.columns import MAX_COUNT, MAX_STAGE, NO_RANK, Flags, Floats, StepColumns, Wholes
from tachograph_collector.store import columns
from tachograph_collector.store.columns import Packed
from tachograph_collector.store.packing import open_piece

_NOBODY_SAID: Final = -(2**63)
_BEFORE_THE_COLLECTIVE: Final = ("data", "forward", "backward")


def detect_columns(data: bytes) -> StepColumns:
    """What ``detect.columns.columns_of`` makes of the steps of the piece."""
    num, packed = open_piece(data)
    told = packed.get
    count = np.minimum(columns.as_floats(told("count"), num, 1.0), MAX_COUNT)
    dur_s = columns.as_floats(told("dur"), num)
    work_s = _work(packed, num, dur_s)
    rank = columns.as_integers(told("rank"), num, NO_RANK)
    attempt, attempt_index = _attempts(told("attempt"), num)
    nodes, stages = _places(packed, num, rank, attempt, attempt_index)
    with np.errstate(invalid="ignore", over="ignore"):
        return StepColumns(
            attempt=attempt,
            attempt_index=attempt_index,
            t_us=np.rint(columns.as_floats(packed["t"], num) * 1e6).astype(np.int64),
            rank=rank,
            step=columns.as_integers(packed["step"], num, 0),
            count=count,
            one_s=dur_s / count,
            dur_s=dur_s,
            work_s=np.where((work_s > 0) & (work_s < LONGEST_DURATION_SECONDS), work_s, np.nan) / count,
            loss=columns.as_floats(told("loss"), num),
            has_loss=_is_told(told("loss"), num),
            norm=columns.as_floats(told("grad_norm"), num),
            has_norm=_is_told(told("grad_norm"), num),
            nodes=nodes,
            stages=stages,
        )


def _is_told(column: Packed | None, num: int) -> Flags:
    """Where something was told, which may be NaN."""
    if column is None:
        return np.zeros(num, dtype=np.bool_)
    if column[0] in (columns.INTEGERS, columns.MICROS, columns.FLOATS, columns.FAMILY):
        return np.ones(num, dtype=np.bool_)
    return np.array([value is not None for value in columns.unpack(column, num)], dtype=np.bool_)


def _work(packed: dict[str, Packed], num: int, dur_s: Floats) -> Floats:
    busy = packed.get("busy_s")
    is_busy = _is_told(busy, num)
    if busy is not None and is_busy.all():
        return columns.as_floats(busy, num)
    own = _of_sections(packed, num, dur_s)
    return own if busy is None else np.where(is_busy, columns.as_floats(busy, num), own)


def _of_sections(packed: dict[str, Packed], num: int, dur_s: Floats) -> Floats:
    """The step less its waiting; else the sections before the collective."""
    column = packed.get("sections")
    if column is None:
        return np.full(num, np.nan)
    names: list[Any]
    if column[0] == columns.FAMILY:
        names = list(column[1])
        sections = {name: columns.as_floats(columns.member(column, name), num) for name in names}
        has = {name: np.ones(num, dtype=np.bool_) for name in names}
    else:
        rows = columns.unpack(column, num)
        names = ["wait", *_BEFORE_THE_COLLECTIVE]
        sections = {name: np.array([(row or {}).get(name, np.nan) for row in rows], np.float64) for name in names}
        has = {name: np.array([name in (row or {}) for row in rows], dtype=np.bool_) for name in names}
    own = np.zeros(num)
    with np.errstate(over="ignore", invalid="ignore"):
        for name in names:  # in the order in which they were told: a sum of floats depends on it
            if name in _BEFORE_THE_COLLECTIVE:
                own = np.where(has[name], own + sections[name], own)
        own = np.where(own == 0, np.nan, own)
        if "wait" in names:
            own = np.where(has["wait"] & _is_told(packed.get("dur"), num), dur_s - sections["wait"], own)
    return own


def _attempts(column: Packed | None, num: int) -> tuple[list[str], Wholes]:
    if column is None:
        return ["0"], np.zeros(num, dtype=np.int64)
    if column[0] == columns.CONSTANT:
        [name] = columns.unpack(column, 1)
        return ["0" if name is None else str(name)], np.zeros(num, dtype=np.int64)
    names = ["0" if name is None else str(name) for name in columns.unpack(column, num)]
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return list(index), np.array([index[name] for name in names], dtype=np.int64)


def _places(
    packed: dict[str, Packed], num: int, rank: Wholes, attempt: list[str], attempt_index: Wholes
) -> tuple[dict[str, dict[int, str | None]], dict[str, dict[int, int | None]]]:
    """Each attempt's ranks with the node and the stage that each told last."""
    node = packed.get("node")
    stage = columns.as_integers(packed.get("stage"), num, _NOBODY_SAID)
    named = [None] * num if node is None else columns.unpack(node, num)
    nodes: dict[str, dict[int, str | None]] = {}
    stages: dict[str, dict[int, int | None]] = {}
    for place, name in enumerate(attempt):
        mine = np.nonzero(attempt_index == place)[0]
        ranks, last = np.unique(rank[mine][::-1], return_index=True)
        rows = mine[::-1][last]
        nodes[name] = {int(one): named[row] for one, row in zip(ranks, rows, strict=True)}
        stages[name] = {int(one): _stage(int(stage[row])) for one, row in zip(ranks, rows, strict=True)}
    return nodes, stages


def _stage(value: int) -> int | None:
    return value if abs(value) <= MAX_STAGE else None
