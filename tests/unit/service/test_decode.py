"""Bodies to events: exactly what the vocabulary reads, and a bad line costs its batch nothing."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested import nested
from tachograph_agent import events as vocabulary
from tachograph_collector.service import decode
from tachograph_collector.service.decode import Decoded, bounds_for, decode_body
from tachograph_collector.service.problems import Problem

NOW_UNIX_S = 1_800_000_000.0
LIVE = bounds_for("live", NOW_UNIX_S)
REPLAY = bounds_for("replay", NOW_UNIX_S)


def line(kind: str = "step", **fields: Any) -> bytes:
    told = {"kind": kind, "t": NOW_UNIX_S, "run": "r"} | ({"step": 1} if kind == "step" else {}) | fields
    return json.dumps(told).encode() + b"\n"


def reasons(found: Decoded) -> list[str]:
    return [each.reason for each in found.rejected]


def test_a_body_of_known_events_gives_the_vocabularys_own_records() -> None:
    found = decode_body(line(loss=2.5, rank=3) + line("failure", category="gpu") + line("run.end"), LIVE)
    assert [type(event) for event in found.events] == [vocabulary.Step, vocabulary.Failure, vocabulary.RunEnd]
    assert found.events[0] == vocabulary.decode(line(loss=2.5, rank=3))
    assert found.num_rejected == 0


@pytest.mark.parametrize(
    "extra",
    [
        {"unheard": [1, {"of": None}]},
        {"": {"kind": "failure", "t": 1}},
        {"loss": float("nan")},
        {"node": ""},
        {"labels": {"a": 1}},
    ],
)
def test_what_the_fast_way_would_lose_is_kept(extra: dict[str, Any]) -> None:
    found = decode_body(line() + line(**extra), LIVE)
    assert len(found.events) == 2
    assert vocabulary.encode(found.events[1]) == vocabulary.encode(vocabulary.decode(line(**extra)))


def test_an_unknown_kind_is_kept_whole() -> None:
    found = decode_body(line("weather", rain=True), LIVE)
    assert vocabulary.to_dict(found.events[0]) == json.loads(line("weather", rain=True))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"nonsense\n", "not JSON"),
        (b"[1]\n", "not an object"),
        (b'{"kind": "step"\n', "not JSON"),
        (b"\xff\xfe\n", "not JSON"),
        (b'{"kind":' + b"[" * 100_000 + b"\n", "JSON"),
        (line(t=-1), "'t' is -1"),
        (line(t="soon"), "'t' is 'soon'"),
        (line(step=2**63), "step"),
        (line(run=""), "has no 'run'"),
        (line(run="x" * 201), "'run' has 201 characters"),
        (line(run="a\0b"), "NUL"),
        (line(node="a\0b"), "'node'"),
        (line(attempt="y" * 300), "'attempt' has 300 characters"),
        (line(attempt=2**63), "'attempt' is a number beyond 64 bits"),
        (line("k" * 101), "'kind'"),
        (line("k\0"), "'kind'"),
        (line(t=5), "'t' is 5 (1970-01-01)"),
        (line(t=9.2e9), "'t' is 9.2e+09 (2261-"),
        (line(t=NOW_UNIX_S + 86_401), "set that node's clock"),
        (b'{"kind":"weather","t":1800000000,"run":"\\ud800","rain":NaN}\n', "can't be written back"),
        (b'{"kind":"weather","t":1800000000,"run":"r","rain":NaN,"x":"\\udfff"}\n', "can't be written back"),
        (line(pad="p" * 2**20), "a line of"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason_and_those_beside_it_are_taken(bad: bytes, reason: str) -> None:
    found = decode_body(line(step=1) + bad + line(step=2), LIVE)
    assert [event.step for event in found.events if isinstance(event, vocabulary.Step)] == [1, 2]
    assert (found.num_rejected, found.rejected[0].line_number) == (1, 2)
    assert reason in found.rejected[0].reason
    assert found.rejected[0].line == bad.rstrip(b"\n")[: decode.KEPT_BYTES]
    found.rejected[0].reason.encode()
    assert found.rejected[0].reason.isprintable()


def test_an_event_without_a_run_is_refused() -> None:
    found = decode_body(b'{"kind":"step","t":1800000000,"step":1}\n', LIVE)
    assert found.events == []
    assert "names its run" in reasons(found)[0]


def test_what_is_replayed_may_be_old_and_what_is_live_may_not() -> None:
    old = line(t=1_000_000_000)
    assert decode_body(old, REPLAY).num_rejected == 0
    assert "Tachograph-Origin: replay" in reasons(decode_body(old, LIVE))[0]
    assert "2000 to 2099" in reasons(decode_body(line(t=5), REPLAY))[0]


@pytest.mark.parametrize(
    "run", ["<script>alert(1)</script>", "'; DROP TABLE runs; --", "../../etc/passwd", "名前 🚀", "a/b"]
)
def test_names_with_odd_characters_are_names(run: str) -> None:
    assert decode_body(line(run=run), LIVE).runs == {run}


def test_blank_lines_line_ends_of_windows_and_a_byte_order_mark_are_no_events_and_no_errors() -> None:
    body = b"\xef\xbb\xbf" + line().replace(b"\n", b"\r\n") + b"\n  \n" + line(x=1).replace(b"\n", b"\r\n")
    found = decode_body(body, LIVE)
    assert (len(found.events), found.num_rejected) == (2, 0)


def test_runs_that_the_token_may_not_write_to_are_refused_line_by_line() -> None:
    found = decode_body(line(run="mine") + line(run="yours") + line(run="mine"), LIVE, lambda run: run == "mine")
    assert (len(found.events), found.num_rejected, found.num_not_allowed) == (2, 1, 1)
    assert "may not write to run 'yours'" in reasons(found)[0]


def test_only_so_many_refused_lines_are_kept_and_all_are_counted() -> None:
    found = decode_body(b"x\n" * (decode.MAX_KEPT + 5), LIVE)
    assert (len(found.rejected), found.num_rejected) == (decode.MAX_KEPT, decode.MAX_KEPT + 5)


@pytest.mark.parametrize(
    "body",
    [
        line(rank=3, node="n1", attempt="1", loss=2.5, dur=4.0) * 5000,
        b'{"kind":"step","t":1800000000,"run":"a","step":1}\n' * 5000,
        line(pad="y" * 100) * 5000,
        line("x", a=1, b=2, c=[], d={}, e=3) * 5000,
        line("x", a=[[]] * 40) * 5000,
        b"x\n" * 5000,
    ],
)
def test_no_body_takes_more_memory_than_was_charged_for_it(body: bytes) -> None:
    charged: list[int] = []
    decode_body(line() + line("x"), LIVE)
    tracemalloc.start()
    try:
        found = decode_body(body, LIVE, charge=charged.append)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.events or found.rejected
    kept_bytes = sum(200 + len(each.line) + 2 * len(each.reason) for each in found.rejected)
    assert peak_bytes <= sum(charged) + kept_bytes


def test_a_body_for_which_there_is_no_memory_is_not_decoded() -> None:
    def charge(_: int) -> None:
        raise Problem(503, "x", "y")

    with pytest.raises(Problem):
        decode_body(line(), LIVE, charge=charge)


def test_a_body_of_too_many_lines_is_to_be_sent_in_smaller_ones() -> None:
    with pytest.raises(Problem) as raised:
        decode_body(b"\n" * decode.MAX_LINES, LIVE)
    assert raised.value.status == 413


_values = nested(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8), st.text(max_size=8)
)
_names = st.sampled_from(["t", "run", "attempt", "node", "rank", "dur", "step", "loss", "count", "reason", "", "extra"])
_objects = st.dictionaries(_names, _values, max_size=8).flatmap(
    lambda told: st.sampled_from([*vocabulary.KINDS, "weather"]).map(
        lambda kind: {"t": NOW_UNIX_S, "run": "r", "step": 1} | told | {"kind": kind}
    )
)


@given(
    st.lists(
        _objects.map(lambda told: json.dumps(told).encode())
        | st.binary(max_size=30).filter(lambda told: told[:3] != b"\xef\xbb\xbf"),
        max_size=8,
    )
)
def test_any_body_is_read_as_its_lines_are_one_by_one(lines: list[bytes]) -> None:
    lines = [each.replace(b"\n", b" ") for each in lines]
    found = decode_body(b"\n".join(lines), LIVE)
    alone = [decode_body(each, LIVE) for each in lines]
    assert [vocabulary.encode(event) for event in found.events] == [
        vocabulary.encode(event) for one in alone for event in one.events
    ]
    assert found.num_rejected == sum(one.num_rejected for one in alone)
    for event in found.events:
        assert type(event).__module__ == "tachograph_agent.events"
        assert vocabulary.encode(vocabulary.decode(vocabulary.encode(event))) == vocabulary.encode(event)


def test_a_rehearsal_goes_on_now_and_has_the_bounds_of_a_live_run() -> None:
    assert bounds_for("rehearsal", NOW_UNIX_S) == LIVE
    assert bounds_for("rehearsal", NOW_UNIX_S) != REPLAY
