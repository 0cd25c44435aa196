"""Times, shares and other people's names in words."""

from __future__ import annotations

import pytest
from tachograph_collector.report import text

S = text.SECOND


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (0, "0 s"),
        (1, "<1 ms"),
        (250_000, "250 ms"),
        (12_300_000, "12.3 s"),
        (59_960_000, "1 min"),
        (250 * S, "4 min 10 s"),
        (3_599_600_000, "1 h"),
        (18_720 * S, "5 h 12 min"),
        (86_399 * S, "1 d"),
        (76 * 3600 * S, "3 d 4 h"),
        (-60 * S, "−1 min"),
        (None, "unknown"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(us: int | None, words: str) -> None:
    assert text.duration(us) == words


@pytest.mark.parametrize(
    ("us", "words"),
    [(3_597_500_000, "1.0 h"), (59_970_000, "1 min"), (11 * 3600 * S + 720 * S, "11.2 h"), (0, "0 s")],
)
def test_a_duration_in_one_unit_never_says_sixty_of_it(us: int, words: str) -> None:
    assert text.hours(us) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "100.0 %"), (0.99999, ">99.9 %"), (0.0, "0.0 %"), (0.0001, "<0.1 %"), (0.784, "78.4 %"), (None, "unknown")],
)
def test_not_all_is_never_a_hundred_percent_and_something_never_none(share: float | None, words: str) -> None:
    assert text.percent(share) == words


@pytest.mark.parametrize("us", [0, -1, 253_402_300_799 * S, 9_300_000_000 * S])
def test_instants_from_1970_to_9999_can_be_written(us: int) -> None:
    assert text.iso(us).endswith("Z")
    assert len(text.instant(us)) == len("2026-03-01 00:00")


def test_nothing_hidden_survives_in_a_name_and_long_ones_are_cut() -> None:
    hostile = "a\x00\x1b[2J\r\n\t\u202e\u200b\ud800\u2028b"
    shown = text.visible(hostile)
    assert shown.isprintable()
    assert shown.startswith("a\\x00\\x1b[2J\\r\\n\\t")
    assert shown.endswith("b")
    assert len(text.visible("x" * 10_000, 50)) == 50
    assert text.visible("é😀", ascii_only=True).isascii()


def test_lists_read_like_a_sentence() -> None:
    assert [text.joined(list(letters)) for letters in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert (text.count(1, "failure"), text.count(1_200, "failure")) == ("1 failure", "1,200 failures")


@pytest.mark.parametrize(
    ("value", "digits", "words"),
    [(0.0, 1, "0.0"), (0.007, 1, "<0.1"), (0.06, 1, "0.1"), (0.0009, 2, "<0.01"), (0.3, 0, "<1"),
     (12_345.6, 1, "12,346"), (None, 1, "unknown")],
)  # fmt: skip
def test_an_amount_of_something_is_never_said_to_be_nothing(value: float | None, digits: int, words: str) -> None:
    assert text.amount(value, digits) == words


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [(0, "0.0 MB"), (1, "0.1 MB"), (680_500, "0.7 MB"), (842_512_345_678, "842.5 GB"), (14 * 10**14, "1,400.0 TB"),
     (None, "unknown")],
)  # fmt: skip
def test_a_size_is_said_in_the_unit_that_fits(num_bytes: int | None, words: str) -> None:
    assert text.size(num_bytes) == words
