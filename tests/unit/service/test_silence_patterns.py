"""Whether a pattern lies within another is said only where it surely does."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st
from tachograph_collector.service.silences import is_within

patterns = st.text("ab*?[]!", max_size=6)


@given(patterns, patterns, st.text("ab", max_size=6))
def test_what_fits_a_pattern_within_another_fits_that_one(inner: str, outer: str, name: str) -> None:
    if is_within(inner, outer) and fnmatchcase(name, inner):
        assert fnmatchcase(name, outer)


def test_the_plain_cases_are_seen() -> None:
    assert is_within("llama-7b", "llama-*")
    assert is_within("llama-7?-*", "llama-*")
    assert is_within("a[bc]", "a[bc]")
    assert not is_within("*", "llama-*")
    assert not is_within("llama*", "llama-*")
    assert not is_within("a*", "a?")
