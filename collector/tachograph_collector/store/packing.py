"""Steps and heartbeats of one place and stretch of time as one compressed piece of bytes, and back exactly.

A piece is two bytes ``T1`` and a zstd frame; in it, as msgpack, the number of rows and a dictionary of columns (see
columns.py). A field that says its default in every row is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import msgspec
import numpy as np
import zstandard
from msgspec import UNSET
from tachograph_agent.events import Attempt, Event, Heartbeat, Step, from_dict

from tachograph_collector.store import columns
from tachograph_collector.store.columns import Floats, Ints, Packed

MAGIC: Final = b"T1"
FAST: Final = 1
SMALL: Final = 9
"""zstd's level for what is packed once and kept."""

UNKNOWN: Final = -1
"""In a column of whole numbers: nobody said, such as the rank of a log that names none."""

_Packs = Callable[[Sequence[Any]], Packed]
_STEP: Final[dict[str, _Packs]] = {
    "step": columns.pack_integers,
    "count": columns.pack_integers,
    "loss": columns.pack_floats,
    "grad_norm": columns.pack_floats,
    "tokens": columns.pack_floats,
    "busy_s": columns.pack_floats,
    "stage": columns.pack_integers,
    "sections": columns.pack_family,
}
_HEARTBEAT: Final[dict[str, _Packs]] = {
    "seq": columns.pack_integers,
    "interval_s": columns.pack_floats,
    "ranks_alive": columns.pack_json,
    "step": columns.pack_integers,
}
_COMMON: Final[dict[str, _Packs]] = {
    "t": columns.pack_floats,
    "run": columns.pack_json,
    "attempt": columns.pack_json,
    "node": columns.pack_json,
    "rank": columns.pack_integers,
    "dur": columns.pack_floats,
}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, dict[str, Any]])
_DEFAULTS: Final[dict[type[Event], dict[str, Any]]] = {
    cls: {field.name: field.default for field in msgspec.structs.fields(cls)} for cls in (Step, Heartbeat)
}


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Steps as arrays of one length. Floats are NaN, whole numbers ``UNKNOWN``, where nobody said."""

    t_us: Ints
    step: Ints
    count: Ints
    rank: Ints
    stage: Ints
    dur_s: Floats
    busy_s: Floats
    wait_s: Floats
    loss: Floats
    grad_norm: Floats
    tokens: Floats

    def __len__(self) -> int:
        return len(self.t_us)


def pack_steps(steps: Sequence[Step], level: int = FAST) -> bytes:
    """At least one step, of any run, attempt and rank, in one piece."""
    return _pack(Step, steps, _STEP, level)


def unpack_steps(data: bytes) -> list[Step]:
    """The steps as they were packed, in their order."""
    return _unpack(Step, data)


def pack_heartbeats(heartbeats: Sequence[Heartbeat], level: int = FAST) -> bytes:
    """At least one heartbeat, in one piece."""
    return _pack(Heartbeat, heartbeats, _HEARTBEAT, level)


def unpack_heartbeats(data: bytes) -> list[Heartbeat]:
    """The heartbeats as they were packed, in their order."""
    return _unpack(Heartbeat, data)


def step_columns(data: bytes) -> StepColumns:
    """The steps of a piece as arrays, without making an event of each."""
    num, packed = open_piece(data)
    told = packed.get
    if (wait := columns.member(told("sections"), "wait")) is not None or told("sections") is None:
        wait_s = columns.as_floats(wait, num)
    else:
        sections = columns.unpack(packed["sections"], num)
        wait_s = np.array([(each or {}).get("wait", np.nan) for each in sections], dtype=np.float64)
    return StepColumns(
        t_us=np.rint(columns.as_floats(packed["t"], num) * 1e6).astype(np.int64),
        step=columns.as_integers(packed["step"], num, UNKNOWN),
        count=columns.as_integers(told("count"), num, 1),
        rank=columns.as_integers(told("rank"), num, UNKNOWN),
        stage=columns.as_integers(told("stage"), num, UNKNOWN),
        dur_s=columns.as_floats(told("dur"), num),
        busy_s=columns.as_floats(told("busy_s"), num),
        wait_s=wait_s,
        loss=columns.as_floats(told("loss"), num),
        grad_norm=columns.as_floats(told("grad_norm"), num),
        tokens=columns.as_floats(told("tokens"), num),
    )


def _make_step(
    t: float,
    run: str,
    attempt: Attempt | None,
    node: str | None,
    rank: int | None,
    dur: float | None,
    step: int,
    count: int,
    loss: float | None,
    grad_norm: float | None,
    tokens: float | None,
    busy_s: float | None,
    stage: int | None,
    sections: dict[str, float] | None,
) -> Step:
    """What ``Step(**fields)`` makes, at a third of the cost: every step is read back once, to be folded."""
    return Step(
        t=t,
        run=run,
        attempt=attempt,
        node=node,
        rank=rank,
        dur=dur,
        step=step,
        count=count,
        loss=loss,
        grad_norm=grad_norm,
        tokens=tokens,
        busy_s=busy_s,
        stage=stage,
        sections=sections,
    )


_STEP_FIELDS: Final = {name: _DEFAULTS[Step][name] for name in inspect.signature(_make_step).parameters}
"""What ``_make_step`` takes, in its order, and what is meant where a piece leaves it out."""


def _pack(cls: type[Event], events: Sequence[Any], own: dict[str, _Packs], level: int) -> bytes:
    by_name = dict(zip(cls.__struct_fields__, zip(*map(msgspec.structs.astuple, events), strict=True), strict=True))
    num, defaults = len(events), _DEFAULTS[cls]
    unknown = by_name.pop("unknown_fields")
    packed: dict[str, Packed] = {}
    with np.errstate(all="ignore"):  # what a float can't do as microseconds is told by the comparison that follows
        for name, pack in (*_COMMON.items(), *own.items()):
            values = by_name[name]
            if not _is_default(values, defaults[name], num):
                packed[name] = pack(values)
    if unknown.count(UNSET) != num:
        packed["unknown_fields"] = columns.pack_json([None if each is UNSET else each for each in unknown])
    frame = zstandard.ZstdCompressor(level=level).compress(_ENCODER.encode((num, packed)))
    return MAGIC + frame


def _is_default(values: Sequence[Any], default: Any, num: int) -> bool:
    """Whether nobody said anything else. (Only None, 1 and "" are defaults, and no field of theirs holds 1.0.)"""
    return values[0] == default and values.count(default) == num


def open_piece(data: bytes) -> tuple[int, dict[str, Packed]]:
    """How many rows a piece has, and its columns as they are packed; a field that nobody told is not among them."""
    if not data.startswith(MAGIC):
        raise ValueError(f"a piece of samples begins with {data[:2]!r}; expected {MAGIC!r}")
    return _DECODER.decode(zstandard.ZstdDecompressor().decompress(data[len(MAGIC) :]))


def _unpack(cls: type[Any], data: bytes) -> list[Any]:
    num, packed = open_piece(data)
    unknown = packed.pop("unknown_fields", None)
    names = list(packed)
    values = [columns.unpack(column, num) for column in packed.values()]
    if unknown is None and cls is Step and _STEP_FIELDS.keys() >= packed.keys():
        told = dict(zip(names, values, strict=True))
        return list(
            map(_make_step, *(told.get(name) or repeat(default, num) for name, default in _STEP_FIELDS.items()))
        )
    if unknown is None:
        return [cls(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
    events = []
    known = set(cls.__struct_fields__)
    for row, extra in zip(zip(*values, strict=True), columns.unpack(unknown, num), strict=True):
        event = cls(**dict(zip(names, row, strict=True)))
        if extra is not None and known & extra.keys():  # packed by a version to which the field was unknown
            event = from_dict({**msgspec.to_builtins(event), **extra})
        elif extra is not None:
            event.unknown_fields = extra
        events.append(event)
    return events
