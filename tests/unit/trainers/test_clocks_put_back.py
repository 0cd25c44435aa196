"""Clocks put back while training goes on: no step is done twice, no hour is lost, and what was assumed is said once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import megatron_lines_made_up as megatron
import pytest
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock
from tachograph_collector.cli.booking import Options, book
from tachograph_collector.report.model import RunReport

BERLIN = ZoneInfo("Europe/Berlin")
SUMMER_TIME_ENDS = datetime(2030, 10, 27, 0, 0, tzinfo=UTC)
"""An hour before clocks in Berlin are put back from 03:00 to 02:00, on a Sunday."""


def megatron_line(at: datetime, step: int) -> str:
    stamp = f" [{at:%Y-%m-%d %H:%M:%S}]"
    return stamp + megatron.record(step, None, ms=60_000.0)


def titan_line(at: datetime, step: int) -> str:
    return f"[rank0]:[titan] {at:%Y-%m-%d %H:%M:%S},000 - root - INFO - step: {step}  loss:  9.0  tps: 8,123"


def mmengine_line(at: datetime, step: int) -> str:
    return f"{at:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Epoch(train) [1][{step}/735]  lr: 2e-04  time: 60.0  loss: 2.5"


LINES = [megatron_line, titan_line, mmengine_line]


def report(tmp_path: Path, lines: list[str], zone: ZoneInfo | None = None) -> RunReport:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    (one,) = book([str(path)], Options(zone=zone))
    return one


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("zone", [BERLIN, None])
def test_a_step_a_minute_through_the_hour_that_exists_twice_is_one_attempt(
    tmp_path: Path, line: Callable[[datetime, int], str], zone: ZoneInfo | None
) -> None:
    night = [SUMMER_TIME_ENDS + timedelta(minutes=step) for step in range(1, 150)]
    one = report(tmp_path, [line(at.astimezone(BERLIN), step) for step, at in enumerate(night, start=1)], zone)
    assert one.books.num_attempts == 1
    assert one.books.wall_us == pytest.approx(149 * 60e6, abs=60e6)
    assert one.books.accounts_us["kept"] == one.books.wall_us
    assert sum("put back" in note or "go back by an hour" in note for note in one.notes) == 1


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("hours", [0.3, 3.0, 23.0])
def test_a_clock_that_is_set_back_while_steps_go_on_is_no_rollback(
    tmp_path: Path, line: Callable[[datetime, int], str], hours: float
) -> None:
    begin = datetime(2030, 1, 9, 12, 0, tzinfo=UTC)  # a Wednesday noon
    times = [begin + timedelta(minutes=step, hours=-hours if step > 40 else 0) for step in range(1, 100)]
    one = report(tmp_path, [line(at, step) for step, at in enumerate(times, start=1)])
    assert one.books.num_attempts == 1
    assert one.books.wall_us == pytest.approx(99 * 60e6, abs=120e6)
    assert one.books.accounts_us["lost"] == one.books.accounts_us["restart"] == 0
    (told,) = [note for note in one.notes if "the clock was set back" in note]
    assert f"go back by {hours:.1f} h at step 41" in told


@pytest.mark.parametrize("line", LINES)
def test_a_clock_that_is_set_right_again_is_believed_again(
    tmp_path: Path, line: Callable[[datetime, int], str]
) -> None:
    begin = datetime(2030, 1, 9, 12, 0, tzinfo=UTC)
    times = [begin + timedelta(minutes=step, hours=-3 if step in {40, 41, 70} else 0) for step in range(1, 100)]
    one = report(tmp_path, [line(at, step) for step, at in enumerate(times, start=1)])
    assert one.books.num_attempts == 1
    assert one.books.wall_us == pytest.approx(99 * 60e6, abs=120e6)
    assert one.books.accounts_us["lost"] == one.books.accounts_us["restart"] == 0
    assert len([note for note in one.notes if "the clock was set back" in note]) == 1


@pytest.mark.parametrize("line", LINES)
def test_one_line_of_a_broken_clock_moves_nothing(tmp_path: Path, line: Callable[[datetime, int], str]) -> None:
    begin = datetime(2030, 1, 9, 12, 0, tzinfo=UTC)
    lines = [line(begin + timedelta(minutes=step), step) for step in range(1, 60)]
    lines[30] = line(datetime(1971, 1, 1, tzinfo=UTC), 31)
    one = report(tmp_path, lines)
    assert one.books.wall_us == pytest.approx(59 * 60e6, abs=120e6)
    assert [note for note in one.notes if "set back" in note] == []


def test_parts_in_the_wrong_order_are_no_clock_that_was_set_back(tmp_path: Path) -> None:
    begin = datetime(2030, 1, 9, 12, 0, tzinfo=UTC)
    lines = [megatron_line(begin + timedelta(minutes=step), step) for step in range(1, 60)]
    one = report(tmp_path, [*lines[30:], *lines[:30]])
    assert one.books.wall_us == pytest.approx(59 * 60e6, abs=120e6)
    assert [note for note in one.notes if "set back" in note] == []


def times_of(*stamps: str) -> tuple[list[float], list[str]]:
    context = Context(run="r")
    clock = Clock(context)
    times = [clock.find(f"2030-10-27 {stamp} x") for stamp in stamps]
    begin = datetime(2030, 10, 27, tzinfo=UTC).timestamp()
    return [-1.0 if t is None else t - begin for t in times], context.notes


def test_late_lines_of_other_ranks_stay_in_the_hour_that_they_are_of() -> None:
    times, notes = times_of("02:55:00", "02:59:50", "02:00:10", "02:59:58", "02:30:00", "02:59:00", "03:00:10")
    assert times == [10_500, 10_790, 10_810, 10_798, 12_600, 14_340, 14_410]
    assert sum("moved on by an hour" in note for note in notes) == 1


@pytest.mark.parametrize("stamps", [("12:59:50", "12:00:10"), ("02:59:50", "02:30:00"), ("03:59:50", "01:00:10")])
def test_what_goes_back_otherwise_is_not_taken_for_the_end_of_summer_time(stamps: tuple[str, str]) -> None:
    (before, after), notes = times_of(*stamps)
    assert after < before
    assert [note for note in notes if "hour" in note] == []
