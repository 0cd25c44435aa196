"""What is packed comes out exactly as it went in, to the bit, and as columns says the same."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import nested
from tachograph_agent.events import LATEST_UNIX_SECONDS, Heartbeat, Step, decode, encode, microseconds, to_dict
from tachograph_collector.store.packing import (
    FAST,
    SMALL,
    UNKNOWN,
    pack_heartbeats,
    pack_steps,
    step_columns,
    unpack_heartbeats,
    unpack_steps,
)

_NUMBERS = st.integers(0, 2**63 - 1)
_WHOLE = st.one_of(st.integers(0, 5), st.integers(-(2**70), 2**70))
_FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 0.1, 2.5, 1e-6, 1e300, 5e-324]), st.floats()
)
_SECONDS = st.one_of(
    st.floats(0, LATEST_UNIX_SECONDS, exclude_max=True, allow_nan=False),
    st.integers(0, 10**15).map(lambda us: us / 1e6),
    st.sampled_from([0.0, 1760000000.25, 253402300799.999, -0.0]),
)
_TEXTS = st.one_of(st.sampled_from(["", "node-1", "\x00", "\ud800", "ü"]), st.text(max_size=5))
_JSON = nested(st.one_of(st.none(), st.booleans(), _WHOLE, _FLOATS, _TEXTS), _TEXTS, max_size=2)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "t": _SECONDS,
    "run": _TEXTS,
    "attempt": _maybe(st.one_of(_WHOLE, _TEXTS)),
    "node": _maybe(_TEXTS),
    "rank": _maybe(_NUMBERS),
    "dur": _maybe(_SECONDS),
}
_OWN: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    Step: {
        "step": _NUMBERS,
        "count": st.one_of(st.just(1), st.integers(1, 2**63 - 1)),
        "loss": _maybe(_FLOATS),
        "grad_norm": _maybe(_FLOATS),
        "tokens": _maybe(_FLOATS),
        "busy_s": _maybe(_SECONDS),
        "stage": _maybe(_WHOLE),
        "sections": _maybe(st.dictionaries(st.sampled_from(["data", "wait", "\ud800"]), _FLOATS, max_size=2)),
    },
    Heartbeat: {
        "seq": _maybe(_NUMBERS),
        "interval_s": _maybe(_SECONDS),
        "ranks_alive": _maybe(_JSON),
        "step": _maybe(_NUMBERS),
    },
}
_UNKNOWN_FIELDS = st.dictionaries(st.sampled_from(["a", "b", "\x00"]), _JSON, min_size=1, max_size=2)


@st.composite
def _events(draw: st.DrawFn, cls: type) -> list[Any]:
    """A few drawn in every detail, and sometimes repeated to many, as a long stretch is."""
    fields = _COMMON | _OWN[cls]
    events = []
    for values in draw(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=6)):
        event = cls(**values)
        if draw(st.booleans()) and draw(st.booleans()):
            event.unknown_fields = draw(_UNKNOWN_FIELDS)
        events.append(event)
    return events * draw(st.sampled_from([1, 1, 30]))


def _bits(value: Any) -> Any:
    """A value so that what differs in type, sign of zero or being NaN differs."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: _bits(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_bits(each) for each in value]
    return (type(value).__name__, value)


def _told(event: Any) -> Any:
    return {name: _bits(getattr(event, name)) for name in event.__struct_fields__}


@settings(deadline=None, max_examples=100)
@given(_events(Step), st.sampled_from([FAST, SMALL]))
def test_steps_come_out_exactly_as_they_went_in(steps: list[Step], level: int) -> None:
    assert [_told(step) for step in unpack_steps(pack_steps(steps, level))] == [_told(step) for step in steps]


@settings(deadline=None, max_examples=50)
@given(_events(Heartbeat))
def test_heartbeats_come_out_exactly_as_they_went_in(heartbeats: list[Heartbeat]) -> None:
    unpacked = unpack_heartbeats(pack_heartbeats(heartbeats))
    assert [_told(heartbeat) for heartbeat in unpacked] == [_told(heartbeat) for heartbeat in heartbeats]


@settings(deadline=None, max_examples=50)
@given(_events(Step))
def test_columns_say_what_the_steps_say(steps: list[Step]) -> None:
    found = step_columns(pack_steps(steps))
    assert len(found) == len(steps)
    assert found.t_us.tolist() == [microseconds(step.t) for step in steps]
    assert found.step.tolist() == [step.step for step in steps]
    assert found.count.tolist() == [step.count for step in steps]
    assert found.rank.tolist() == [UNKNOWN if step.rank is None else step.rank for step in steps]
    stages = [UNKNOWN if step.stage is None or abs(step.stage) >= 2**63 else step.stage for step in steps]
    assert found.stage.tolist() == stages
    for name, told in (("dur_s", "dur"), ("busy_s", "busy_s"), ("loss", "loss"), ("tokens", "tokens")):
        values = [getattr(step, told) for step in steps]
        np.testing.assert_array_equal(getattr(found, name), [math.nan if each is None else each for each in values])
    waits = [(step.sections or {}).get("wait", math.nan) for step in steps]
    np.testing.assert_array_equal(found.wait_s, waits)


def _recorded_steps(num: int) -> list[Step]:
    return [
        Step(
            t=1760000000.0 + 4 * (index // 8) + index % 8 / 1000,
            run="atlas-7b",
            attempt=3,
            node="node-17",
            rank=index % 8,
            step=index // 8 + 1,
            dur=4.001 + index % 7 / 1000,
            busy_s=3.7 + index % 5 / 1000,
            loss=10.0 / (1 + index // 8),
            sections={"data": 0.01, "wait": 0.25},
        )
        for index in range(num)
    ]


def test_a_stretch_of_steps_takes_a_fraction_of_its_json() -> None:
    steps = _recorded_steps(1200)
    assert len(pack_steps(steps)) < sum(map(len, map(encode, steps))) / 20


def test_a_field_that_became_known_since_it_was_packed_is_read_as_known() -> None:
    step = Step(t=1.0, step=2)
    step.unknown_fields = {"busy_s": 0.5, "flavour": "up"}
    (read,) = unpack_steps(pack_steps([step]))
    assert isinstance(read, Step)
    assert (read.busy_s, read.unknown_fields) == (0.5, {"flavour": "up"})


def test_a_line_of_a_log_comes_back_word_for_word() -> None:
    line = json.dumps({"kind": "step", "t": 1760000120.25, "step": 5, "count": 5, "dur": 32.5, "colour": ["red", 1e30]})
    event = decode(line)
    assert isinstance(event, Step)
    (read,) = unpack_steps(pack_steps([event]))
    assert to_dict(read) == json.loads(line)


def test_what_is_no_piece_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        unpack_steps(b"XX123")
