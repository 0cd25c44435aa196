"""Sizes and times are read as they are shown."""

from __future__ import annotations

import pytest
from tachograph_collector.service.units import bytes_of, seconds_of, shown_bytes, shown_seconds


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("16M", 16 << 20), ("1.5K", 1536), ("4G", 4 << 30)])
def test_a_size_is_read(text: str, size: int) -> None:
    assert bytes_of(text) == size
    assert bytes_of(shown_bytes(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5.0), ("2min", 120.0), ("12h", 43200.0), ("7d", 604800.0)]
)
def test_a_time_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(shown_seconds(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1M", "3X", "M", "1e9", "nan", "٣"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="16M"):
        bytes_of(text)


@pytest.mark.parametrize("text", ["", "5", "0s", "-1s", "5 weeks", "inf", "99999999999d"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="12h"):
        seconds_of(text)
