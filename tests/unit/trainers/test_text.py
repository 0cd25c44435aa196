"""Prefixes, numbers and times of day, as trainers and launchers write them."""

from __future__ import annotations

import math
from datetime import timedelta, timezone

import pytest
from tachograph_agent.trainers import text
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock

AT_S = 1_896_174_132.0  # 2030-02-01 11:02:12 UTC


@pytest.mark.parametrize(
    ("line", "bare", "rank"),
    [
        ("[rank13]: hello", "hello", 13),
        ("[default7]:hello", "hello", None),
        (" 4: hello", "hello", 4),
        ("worker-2 | hello", "hello", None),
        ("node-2: hello", "hello", None),
        ("[1,3]<stdout>:hello", "hello", 3),
        ("(Trainer pid=77, ip=10.0.0.1) hello", "hello", None),
        ("[rank3]:\x1b[31m[default3]:\x1b[0m hello", "hello", 3),
        ("iter 120: loss 3.2", "iter 120: loss 3.2", None),
        (".0 | lm loss: 3", ".0 | lm loss: 3", None),
        ("[2030-02-01 11:02:12] x", "[2030-02-01 11:02:12] x", None),
    ],
)
def test_launcher_prefixes_come_off_and_tell_a_global_rank(line: str, bare: str, rank: int | None) -> None:
    found, told = text.split_prefix(line)
    assert (found.strip(), told) == (bare, rank)
    assert text.clean(line).strip() == bare


def test_glued_mpi_lines_are_parted_and_half_written_ones_dropped() -> None:
    line = "[1,2]<stdout>:[[1,3]<stdout>:[2030-02-01 11:02:12.500000: T x.cc:1] one [1,1]<stdout>:two"
    assert text.tagged(line) == [(3, "[2030-02-01 11:02:12.500000: T x.cc:1] one"), (1, "two")]
    assert text.tagged("no tag") == []


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2.5E-01", 0.25), ("5,857", 5857.0), (" 12 ", 12.0), ("-3.5", -3.5), ("48. 87263", 48.087263),
        ("INF", math.inf), ("-Infinity", -math.inf), (".5", 0.5), ("1,024.5", 1024.5),
        ("twelve", None), ("", None), ("12 apples", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_written(written: str, value: float | None) -> None:
    assert text.number(written) == value


@pytest.mark.parametrize("written", ["nan", "NaN", "NAN", " nan "])
def test_nan_is_a_number_in_any_case(written: str) -> None:
    value = text.number(written)
    assert value is not None
    assert math.isnan(value)


def test_durations_carry_their_unit() -> None:
    written = ("250.00ms", "1.5 s", "2", "7us", "3 parsecs")
    assert [text.seconds(told) for told in written] == [0.25, 1.5, 2.0, 7e-6, None]
    nothing = text.seconds("nanms")
    assert nothing is not None
    assert math.isnan(nothing)


def test_whole_numbers_are_whole_and_bounded() -> None:
    assert [text.integer(told) for told in ("1,024", "12.0", "9223372036854775807")] == [1024, 12, 2**63 - 1]
    assert [text.integer(told) for told in ("1.5", "nan", "1e30", "99999999999999999999", "x")] == [None] * 5


def test_a_number_is_found_before_whatever_follows() -> None:
    assert text.leading_number("49.66GiB(52.10%)") == 49.66


def test_fields_between_bars_are_pairs() -> None:
    line = " iteration 7/ 9 | lm loss: 2.5 | elapsed time per iteration (ms): 8.5 | a: b: c | lm loss: 9 | x=3 |"
    assert text.pairs(line) == {"lm loss": "2.5", "elapsed time per iteration (ms)": "8.5", "a: b": "c", "x": "3"}


@pytest.mark.parametrize(
    ("line", "after_s"),
    [
        ("[2030-02-01 11:02:12.250000] x", 0.25),
        ("2030-02-01T11:02:12,250000+00:00 x", 0.25),
        ("2030/02/01 11:02:12 x", 0.0),
        ("2030-02-01 11:02:12. 50000: T x.cc", 0.05),
        ("2030-02-01 11:02:12 PM x", 12 * 3600.0),
        ("2030-02-01T13:02:12+02:00 x", 0.0),
        ("[Fri Feb  1 11:02:12 2030] x", 0.0),
        ("[E201 11:02:12.500000000 x.cpp:1] x", 0.5),
        ("E0201 11:02:12.500000 77 x.py:1] x", 0.5),
        ("[02/01 11:02:12] x", 0.0),
        ("Feb  1 11:02:12 node-7 kernel: x", 0.0),
    ],
)
def test_times_are_found_in_every_dress(line: str, after_s: float) -> None:
    assert Clock(Context("r7", year=2030)).find(line) == pytest.approx(AT_S + after_s, rel=0, abs=1e-5)


@pytest.mark.parametrize(
    "line", ["", "x", "10:42", "[2030-13-41 11:02:12] x", "[Xyz 41 11:02:12 2030]", "E999 11:02:12 x"]
)
def test_what_is_no_time_is_none(line: str) -> None:
    assert Clock(Context("r7")).find(line) is None


def test_a_zone_that_was_told_is_used_and_one_that_was_taken_is_said() -> None:
    told = Context("r7", tz=timezone(timedelta(hours=-8)))
    assert Clock(told).find("2030-02-01 11:02:12") == AT_S + 8 * 3600
    assert told.notes == []
    taken = Context("r7")
    Clock(taken).find("2030-02-01 11:02:12")
    Clock(taken).find("2030-02-01 11:02:13")
    assert len(taken.notes) == 1
    assert "UTC" in taken.notes[0]


def test_a_missing_year_is_the_one_of_the_dated_lines_or_said_to_be_unknown() -> None:
    context = Context("r7")
    clock = Clock(context)
    clock.find("2030-01-31 23:00:00")
    assert clock.find("[E201 11:02:12.000 x]") == AT_S
    unknown = Context("r7")
    assert Clock(unknown).find("[E229 11:02:12.000 x]") is not None
    assert any("no year" in note for note in unknown.notes)


def test_new_year_passes_in_dates_without_a_year() -> None:
    clock = Clock(Context("r7", year=2029))
    before, after = clock.find("[12/31 23:59:00] x"), clock.find("[01/01 00:01:00] x")
    assert before is not None
    assert after is not None
    assert after - before == 120.0
    straggler = clock.find("[12/31 23:59:30] x")
    assert straggler == before + 30.0


def test_the_kernels_seconds_since_boot_are_no_calendar_time() -> None:
    line = "[ 1234.500000] NVRM: x"
    assert Clock(Context("r7")).find(line) is None
    assert text.seconds_since_boot(line) == 1234.5
