"""Batches: one name for one content at one place, whole lines only, and halves that lose nothing."""

from __future__ import annotations

import gzip

import pytest
from agent_server.spools import event, step
from hypothesis import given
from hypothesis import strategies as st
from tachograph_agent.sidecar.batch import batch_of, compressed, halves, has_lifecycle, whole_lines
from tachograph_agent.spool.positions import Range

LINES = step(1) + step(2) + step(3)
PART = (Range("s", 0, len(LINES), "h"), LINES)


def test_same_place_and_content_have_the_same_name() -> None:
    assert batch_of("n", [PART]).name == batch_of("n", [PART]).name


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ("other", PART),
        ("n", (Range("t", 0, len(LINES), "h"), LINES)),
        ("n", (Range("s", 5, len(LINES) + 5, "h"), LINES)),
        ("n", (Range("s", 0, len(LINES), "h"), step(1) + step(2) + step(4))),
    ],
)
def test_another_node_place_or_content_has_another_name(node: str, part: tuple[Range, bytes]) -> None:
    assert batch_of(node, [part]).name != batch_of("n", [PART]).name


def test_torn_lines_are_left_out_and_counted() -> None:
    torn = b'{"kind":"step","r\n' + step(1) + b"garbage\n"
    assert whole_lines(torn) == (step(1), 2)


def test_only_steps_may_wait() -> None:
    assert not has_lifecycle(LINES)
    assert has_lifecycle(LINES + event("checkpoint.persisted"))


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=30))
def test_halves_hold_all_lines_in_order(numbers: list[int]) -> None:
    lines = b"".join(step(number) for number in numbers)
    low, high = halves("n", [(Range("s", 0, len(lines), "h"), lines)])
    assert low.lines + high.lines == lines
    assert low.ranges[0].end == high.ranges[0].start
    assert low.lines
    assert high.lines


def test_short_line_before_a_long_one_is_split_from_it() -> None:
    lines = step(1) + event("failure", detail="x" * 10_000)
    assert [batch.num_lines for batch in halves("n", [(Range("s", 0, len(lines)), lines)])] == [1, 1]


def test_single_line_stays_one() -> None:
    assert len(halves("n", [(Range("s", 0, len(step(1))), step(1))])) == 1


def test_packed_twice_alike() -> None:
    assert compressed(LINES, "gzip") == compressed(LINES, "gzip")
    assert gzip.decompress(compressed(LINES, "gzip")) == LINES
    assert compressed(LINES, "identity") == LINES
