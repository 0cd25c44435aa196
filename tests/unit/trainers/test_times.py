"""Times that leave something out: what was taken is right where it can be, and said once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock
from tachograph_agent.trainers.zones import local_zone
from tachograph_collector.cli.booking import Options, book
from tachograph_collector.report.model import RunReport

BERLIN = ZoneInfo("Europe/Berlin")


def unix(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc] # the first are ints


def found(context: Context, *lines: str) -> list[float | None]:
    clock = Clock(context)
    return [clock.find(line) for line in lines]


def report(tmp_path: Path, text: str, **told: Any) -> RunReport:
    path = tmp_path / "train.log"
    path.write_text(text)
    (one,) = book([str(path)], Options(**told))
    return one


def titan(stamp: str, step: int) -> str:
    return f"[rank0]:[titan] {stamp} - root - INFO - step: {step}  loss:  9.0  grad_norm:  1.0  tps: 8,123\n"


def test_the_hour_that_exists_twice_goes_on_in_the_order_of_lines() -> None:
    context = Context(run="r", tz=BERLIN)
    stamps = ["01:59:00", "02:00:10", "02:50:00", "02:49:30", "02:00:20", "02:30:00", "02:59:50", "03:00:10"]
    times = found(context, *(f"2030-10-27 {stamp} x" for stamp in stamps))
    begin = unix(2030, 10, 26, 23, 59)
    assert [None if t is None else t - begin for t in times] == [0, 70, 3060, 3030, 3680, 5460, 7250, 7270]
    assert context.notes == [
        (
            "In Europe/Berlin the clock was put back: 02:00 to 03:00 on 2030-10-27 exists twice. What comes after "
            "later times was taken for the second."
        )
    ]


def test_an_hour_that_does_not_exist_is_read_and_the_zone_doubted_once() -> None:
    context = Context(run="r", tz=BERLIN)
    times = found(context, "2030-03-31 01:59:50 x", "2030-03-31 02:00:10 x", "2030-03-31 02:10:00 x")
    assert times == [unix(2030, 3, 31, 0, 59, 50), unix(2030, 3, 31, 1, 0, 10), unix(2030, 3, 31, 1, 10)]
    assert [("put forward over 02:00 to 03:00" in note, "another --tz" in note) for note in context.notes] == [
        (True, True)
    ]


def test_a_night_of_changing_clocks_books_no_hour_twice_and_none_away(tmp_path: Path) -> None:
    utc = [unix(2030, 10, 27, 0, 0) + 600 * step for step in range(1, 13)]
    local = [datetime.fromtimestamp(t, tz=BERLIN).strftime("%Y-%m-%d %H:%M:%S,000") for t in utc]
    text = "".join(titan(stamp, step) for step, stamp in enumerate(local, start=1))
    one = report(tmp_path, text, zone=BERLIN)
    assert one.books.end_us - one.books.start_us == 12 * 600_000_000
    assert one.books.accounts_us["kept"] == one.books.wall_us
    assert one.books.num_attempts == 1


def test_a_fixed_zone_knows_no_summer_time() -> None:
    context = Context(run="r", tz=UTC)
    assert found(context, "2030-10-27 02:30:00 x", "2030-10-27 02:00:00 x") == [
        unix(2030, 10, 27, 2, 30),
        unix(2030, 10, 27, 2),
    ]
    assert context.notes == []


def test_no_zone_is_utc_and_said_once(tmp_path: Path) -> None:
    text = "".join(titan(f"2030-01-02 03:0{step}:00,000", step) for step in range(1, 6))
    one = report(tmp_path, text)
    assert one.books.end_us / 1e6 == unix(2030, 1, 2, 3, 5)
    assert [note for note in one.notes if "zone" in note] == [
        "Times in this log name no zone; UTC was taken (--tz ZONE names another)."
    ]
    placed = report(tmp_path, text, zone=ZoneInfo("Asia/Shanghai"))
    assert placed.books.end_us / 1e6 == unix(2030, 1, 1, 19, 5)
    assert [note for note in placed.notes if "zone" in note] == []


def test_two_zones_in_one_record_are_each_read_in_their_own_and_said_once() -> None:
    context = Context(run="r", tz=ZoneInfo("Asia/Shanghai"))
    times = found(
        context,
        "2030-01-02T11:00:00+08:00 typed by people",
        "2030-01-02T03:00:10Z from a machine",
        "2030-01-02 11:00:20 of the trainer",
        "2030-01-02T11:00:30+08:00 typed by people",
    )
    begin = unix(2030, 1, 2, 3)
    assert [None if t is None else t - begin for t in times] == [0, 10, 20, 30]
    assert context.notes == ["Times in this log name several zones; each was read in its own."]


@pytest.mark.parametrize("letters", ["PST", "PDT", "CET", "JST"])
def test_zones_told_by_letters_are_not_believed_and_said(letters: str) -> None:
    context = Context(run="r")
    assert found(context, f"2030-05-02 03:00:00 {letters} begun", f"2030-05-02 03:01:00 ({letters}) x") == [
        unix(2030, 5, 2, 3),
        unix(2030, 5, 2, 3, 1),
    ]
    assert sum(f"name the zone {letters}, which is not believed" in note for note in context.notes) == 1
    assert sum("UTC was taken" in note for note in context.notes) == 1
    told = Context(run="r", tz=ZoneInfo("America/Los_Angeles"))
    assert found(told, f"2030-05-02 03:00:00 {letters} begun") == [unix(2030, 5, 2, 10)]
    assert told.notes == []


@pytest.mark.parametrize("word", ["INFO", "WARN", "STEP", "ESTIMATED", "UTC", "GMT", "Z"])
def test_a_word_behind_a_time_is_no_zone_told_by_letters(word: str) -> None:
    context = Context(run="r")
    assert found(context, f"2030-05-02 03:00:00 {word} x") == [unix(2030, 5, 2, 3)]
    assert not any("not believed" in note for note in context.notes)


def test_new_years_eve_in_a_log_without_years_is_one_night(tmp_path: Path) -> None:
    context = Context(run="r", tz=UTC, year=2029)
    times = found(
        context, "Dec 31 23:59:50 n1 x", "Jan  1 00:00:10 n1 x", "Dec 31 23:59:55 n1 late", "Jan  1 00:01:00 n1 x"
    )
    eve = unix(2029, 12, 31, 23, 59, 50)
    assert [None if t is None else t - eve for t in times] == [0, 20, 5, 70]
    assert len(context.notes) == 1
    assert "no year; 2029 was taken" in context.notes[0]


@pytest.mark.parametrize("year", [2036, 2031, 1999])
def test_single_lines_far_in_the_future_or_past_neither_stretch_the_run_nor_end_it(year: int, tmp_path: Path) -> None:
    stamps = [f"2030-01-02 03:0{step}:00,000" for step in range(1, 8)]
    sound = report(tmp_path, "".join(titan(stamp, step) for step, stamp in enumerate(stamps, start=1)))
    stamps[3] = stamps[3].replace("2030", str(year))
    one = report(tmp_path, "".join(titan(stamp, step) for step, stamp in enumerate(stamps, start=1)))
    assert (one.books.start_us, one.books.end_us) == (sound.books.start_us, sound.books.end_us)
    assert (one.books.steps, one.books.num_attempts) == (7, 1)
    assert sum("set aside" in note for note in one.notes) == 1
    lost_us = sound.books.accounts_us["kept"] - one.books.accounts_us["kept"]
    assert 0 <= lost_us <= 2 * 60_000_000  # what the line would have told, and the time since it


def test_a_log_without_times_starts_at_zero_or_where_it_is_told_and_says_so(tmp_path: Path) -> None:
    text = "".join(f"iter {n}: loss 3.2100, time 60000.00ms, mfu 31.20%\n" for n in range(5))
    bare = report(tmp_path, text)
    assert (bare.has_clock, bare.books.start_us) == (False, 0)
    assert sum("starts at 0" in note for note in bare.notes) == 1
    placed = report(tmp_path, text, start_unix_seconds=unix(2030, 1, 2))
    assert placed.books.start_us / 1e6 == unix(2030, 1, 2)
    assert placed.books.accounts_us == bare.books.accounts_us


def test_this_machines_zone_has_its_summer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    zone = local_zone()
    assert [datetime(2030, month, 1, tzinfo=zone).utcoffset() for month in (1, 7)] == [
        datetime(2030, month, 1, tzinfo=BERLIN).utcoffset() for month in (1, 7)
    ]
    monkeypatch.setenv("TZ", "no such zone")
    assert local_zone() is not None


def test_a_log_without_a_year_that_knows_no_29_february_is_not_silent_for_a_day() -> None:
    context = Context(run="r")
    stamps = ["02/28 23:59:50", "03/01 00:00:10", "02/28 23:59:58", "03/01 00:01:00", "04/01 00:00:00"]
    times = found(context, *(f"[{stamp}] x" for stamp in stamps))
    begin = unix(1972, 2, 28, 23, 59, 50)
    assert [None if t is None else t - begin for t in times] == [0, 20, 8, 70, 31 * 86_400 + 10]
    assert [note for note in context.notes if "without a 29th" in note] != []
    leap = found(Context(run="r"), "[02/28 23:59:50] x", "[02/29 00:00:10] x", "[03/01 00:00:10] x")
    assert [None if t is None else t - begin for t in leap] == [0, 20, 86_420]
    told = found(Context(run="r", year=2028), "[02/28 23:59:50] x", "[03/01 00:00:10] x")
    assert [None if t is None else t - unix(2028, 2, 28, 23, 59, 50) for t in told] == [0, 86_420]
