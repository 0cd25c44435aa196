"""Every event that can be decoded has a row that any database holds, and is the same event when it is read again."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from nested import nested
from tachograph_agent.events import KINDS, AnyEvent, EventError, Heartbeat, Step, from_dict, to_dict
from tachograph_collector.store.rows import (
    MAX_NESTING,
    Sorted,
    column_text,
    event_of,
    event_row,
    rows_by_run,
    samples_of,
    sort_in,
    why_no_run,
    why_unstorable,
)

_TEXT = st.one_of(st.sampled_from(["", "r", "\x00", "\ud800", "a/b", "🚂"]), st.text(max_size=5))
_FLOATS = st.one_of(st.floats(0, 1e9), st.sampled_from([math.nan, math.inf, -0.0, 0.1]))
_JSON = nested(st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), _FLOATS, _TEXT), _TEXT)
_FIELDS = st.fixed_dictionaries(
    {"kind": st.one_of(st.sampled_from(KINDS), _TEXT, st.just("k" * 300)), "t": st.floats(0, 2.5e11, allow_nan=False)},
    optional={
        "run": _TEXT,
        "attempt": st.one_of(_TEXT, st.integers(-(2**70), 2**70)),
        "node": _TEXT,
        "rank": st.integers(0, 2**63 - 1),
        "dur": st.floats(0, 1e6),
        "step": st.integers(0, 2**63 - 1),
        "to_step": st.integers(0, 2**63 - 1),
        "of_t": st.floats(0, 2.5e11, allow_nan=False),
        "name": _TEXT,
        "detail": _TEXT,
        "labels": st.dictionaries(_TEXT, _JSON, max_size=2),
        "price_per_gpu_hour": _FLOATS,
        "loss": _FLOATS,
        "value": _JSON,
        "own": _JSON,
    },
)


@st.composite
def _events(draw: st.DrawFn) -> list[AnyEvent]:
    events = []
    for raw in draw(st.lists(_FIELDS, max_size=8)):
        try:
            events.append(from_dict(raw))
        except EventError:
            continue  # what a kind requires was not drawn
    return events


def _same(first: Any, second: Any) -> bool:
    """Equal, where NaN is equal to itself."""
    return json.dumps(to_dict(first), sort_keys=True) == json.dumps(to_dict(second), sort_keys=True)


@settings(deadline=None, max_examples=150)
@given(_events())
def test_every_event_is_the_same_when_it_is_read_again(events: list[AnyEvent]) -> None:
    found = Sorted()
    sort_in(found, events)
    read: list[AnyEvent] = []
    for rows in rows_by_run(found, {}).values():
        read += [event_of(row["body"]) for row in rows.events]
        for row in rows.samples:
            read += samples_of(row["kind"], row["data"])
    assert len(read) == len(events)
    for event in events:
        assert any(_same(event, each) for each in read)


@settings(deadline=None, max_examples=100)
@given(_events())
def test_no_column_holds_what_a_database_refuses(events: list[AnyEvent]) -> None:
    for event in events:
        if isinstance(event, Step | Heartbeat):
            continue
        for name, value in event_row(event).items():
            if isinstance(value, str):
                assert "\x00" not in value
                value.encode()
                assert name == "body" or len(value) <= 500
            elif isinstance(value, int):
                assert -(2**63) <= value < 2**63
        assert len(event_row(event)["kind"]) <= 100


def test_what_is_nested_deeply_is_not_taken_and_what_is_nested_a_little_is() -> None:
    deep: Any = 1
    for _ in range(MAX_NESTING):
        deep = [deep]
    assert why_unstorable(from_dict({"kind": "odd", "t": 1, "x": deep})) is None
    assert "nested" in str(why_unstorable(from_dict({"kind": "odd", "t": 1, "x": [deep]})))
    assert "nested" in str(why_unstorable(from_dict({"kind": "step", "t": 1, "step": 1, "x": [deep]})))
    assert "nested" in str(why_unstorable(from_dict({"kind": "heartbeat", "t": 1, "ranks_alive": [deep]})))


def test_a_name_of_a_run_is_any_text_that_both_databases_hold() -> None:
    for name in ("a", "a/b c#2", "\t", "é" * 500, "🚂"):
        assert why_no_run(name) is None
    for name in ("", "\x00", "\udfff", "x" * 501):
        assert why_no_run(name)


def test_a_text_for_a_column_is_cut_and_cleaned() -> None:
    assert column_text(None) is None
    assert column_text("node-1") == "node-1"
    assert column_text("a\x00b\ud800") == "a�b�"
    assert column_text("x" * 900, 100) == "x" * 100
