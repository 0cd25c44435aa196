"""What options take and what they refuse, with the value and an example in the sentence."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
import pytest
from tachograph_collector.cli.parsing import Instant, NumGpus, Price, Share, Year, Zone, unix_seconds

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("1772366400", None, 1_772_366_400.0),
        ("1772366400.25", BERLIN, 1_772_366_400.25),
        ("2026-03-01T12:00:00Z", BERLIN, 1_772_366_400.0),
        ("2026-03-01 13:00:00+01:00", None, 1_772_366_400.0),
        ("2026-03-01T12:00:00", None, 1_772_366_400.0),
        ("2026-03-01T13:00", BERLIN, 1_772_366_400.0),
        ("2026-03-01", None, 1_772_323_200.0),
        ("0", None, 0.0),
    ],
)
def test_an_instant_is_iso_or_unix_seconds_and_takes_the_zone_where_it_names_none(text, zone, expected) -> None:
    assert unix_seconds(Instant().convert(text, None, None), zone) == expected


@pytest.mark.parametrize("text", ["", "noon", "nan", "inf", "-1", "1e300", "2026-02-30", "0001-01-01", "1970-01-01"])
def test_what_is_no_instant_is_refused_with_the_value(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}'"):
        Instant().convert(text, None, None)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../../etc/passwd", "Europe/", "/etc/localtime", "A" * 300])
def test_a_zone_that_does_not_exist_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(click.BadParameter, match=r"there is no time zone .*Europe/Berlin"):
        Zone().convert(name, None, None)


def test_a_zone_that_exists_is_taken() -> None:
    assert Zone().convert("Europe/Berlin", None, None) == BERLIN


@pytest.mark.parametrize(("text", "expected"), [("0.9", 0.9), ("90%", 0.9), ("0", 0.0), ("1", 1.0), ("100 %", 1.0)])
def test_a_share_is_a_fraction_or_a_percentage(text: str, expected: float) -> None:
    assert Share().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["90", "-0.1", "101%", "nan", "most", ""])
def test_a_share_that_could_be_misread_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"such as 0\.9 or 90%"):
        Share().convert(text, None, None)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "cheap"])
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no price"):
        Price().convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "-3", "1e3", "2.5", "many", "", "9" * 5000, "\u0664"])
def test_what_is_no_number_of_gpus_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no number of GPUs; expected a whole number"):
        NumGpus().convert(text, None, None)
    assert NumGpus().convert("64", None, None) == 64


@pytest.mark.parametrize("text", ["26", "1969", "9999", "this"])
def test_what_is_no_year_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no year; expected four digits"):
        Year().convert(text, None, None)
    assert Year().convert("2026", None, None) == 2026
