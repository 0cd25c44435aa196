"""Numbers with their units: read as meant, or refused with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tachograph_collector.model.plan.quantity import Dimension, PlanError, parse, parse_range, shown


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("264 d", "time", 264 * 86_400),
        ("1h30min", "time", 5400),
        (" 1 h 30 min ", "time", 5400),
        ("90minutes", "time", 5400),
        ("250 ms", "time", 0.25),
        ("1e3 s", "time", 1000),
        ("1.1TB", "bytes", 1.1e12),
        ("2 GiB", "bytes", 2 * 2**30),
        ("20 GB/s", "rate", 20e9),
        ("100 Gbit/s", "rate", 12.5e9),
        ("1_000", "count", 1000),
        ("95 %", "share", 0.95),
        ("95%", "share", 0.95),
        ("0.95", "share", 0.95),
        ("2.5", "money", 2.5),
    ],
)
def test_a_number_with_its_unit_is_read(text: str, dimension: Dimension, value: float) -> None:
    assert parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "said"),
    [
        ("264", "time", "has no unit"),
        ("5m", "time", "for minutes write min"),
        ("5 fortnights", "time", "no unit known here"),
        ("20 GB", "rate", "no unit known here"),
        ("20 Gb/s", "rate", "Gbit"),
        ("nan h", "time", "not finite"),
        ("inf s", "time", "not finite"),
        ("1.5", "count", "no whole number"),
        ("8 GPUs", "count", "has no place here"),
        ("3 h", "share", "has no place here"),
        ("1 TB 2 GB", "bytes", "is no number"),
        ("1h -30min", "time", "mixes signs"),
        ("soon", "time", "is no number"),
        ("", "time", "nothing is given"),
    ],
)
def test_what_is_no_number_is_refused_with_the_reason_and_an_example(
    text: str, dimension: Dimension, said: str
) -> None:
    with pytest.raises(PlanError, match=said):
        parse(text, dimension)


@pytest.mark.parametrize("text", ["6..12..50 h", "6h..12h..50h", "360min..12..50h", "6 .. 12 .. 50h", "6…12…50h"])
def test_a_range_takes_the_unit_of_its_last_part(text: str) -> None:
    assert parse_range(text, "time") == (12 * 3600, 6 * 3600, 50 * 3600)


@pytest.mark.parametrize("text", ["6..12h", "6..h", "50..12..6 h", "1..2..3..4 h", "..12 h.."])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"LOW\.\.EXPECTED\.\.HIGH"):
        parse_range(text, "time")


@given(st.floats(1e-3, 1e9), st.sampled_from(["time", "bytes", "rate", "money"]))
def test_what_is_shown_can_be_read_again_and_is_about_the_same(value: float, dimension: Dimension) -> None:
    if dimension in {"bytes", "rate"}:
        value *= 1e3
    assert parse(shown(value, dimension).replace(",", ""), dimension) == pytest.approx(value, rel=6e-3)
