"""What is shown of a log while it grows."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live
from tachograph_agent.trainers.growing import GrowingLog
from tachograph_collector.cli.booking import Options, book
from tachograph_collector.cli.following import Following, LineView, LiveView, run
from tachograph_collector.report.model import RunReport

T0 = 1_893_553_200.0  # 2030-01-02 03:00 UTC


def lines(*steps: int) -> str:
    """Steps of 10 s each, from 03:00."""
    return "".join(
        f"[rank0]:[titan] 2030-01-02 03:{step // 6:02d}:{step % 6 * 10:02d},000 - root - INFO - "
        f"step: {step}  loss:  9.0  grad_norm:  1.0  tps: 8,123\n"
        for step in steps
    )


class Looks:
    """A view that remembers, and a wait during which things happen at given times."""

    def __init__(self, *happens: tuple[float, Callable[[], object]]) -> None:
        self.now = T0
        self.shown: list[list[RunReport]] = []
        self._happens = list(happens)

    def show(self, reports: Sequence[RunReport]) -> None:
        self.shown.append(list(reports))

    def wait(self) -> bool:
        if not self._happens:
            return True
        self.now, happens = self._happens.pop(0)
        happens()
        return False


def append(path: Path, text: str) -> Callable[[], object]:
    def write() -> None:
        with path.open("a") as file:
            file.write(text)

    return write


def nothing() -> None:
    """Nothing happens."""


def test_a_report_is_made_when_the_log_has_grown_or_a_minute_is_over_and_not_else(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(lines(1, 2, 3))
    looks = Looks(
        (T0 + 31, nothing),
        (T0 + 40, append(path, lines(4))),
        (T0 + 41, nothing),
        (T0 + 59, nothing),
        (T0 + 90, nothing),
    )
    looks.now = T0 + 30
    following = Following(GrowingLog(path, tz=UTC), Options(), unix_clock=lambda: looks.now)
    run(following, looks, looks.wait)
    assert [reports[0].books.steps for reports in looks.shown] == [3, 4, 4]
    # The run isn't over: it lasts until now.
    assert [reports[0].books.end_us / 1e6 - T0 for reports in looks.shown] == [30.0, 40.0, 90.0]
    assert {reports[0].books.status for reports in looks.shown} == {"running"}


def test_the_last_report_is_that_of_a_replay_as_of_then(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(lines(1, 2, 3))
    looks = Looks((T0 + 60, append(path, lines(4, 5))), (T0 + 300, append(path, lines(3, 4, 5).replace("03:", "04:"))))
    following = Following(GrowingLog(path, tz=UTC), Options(), unix_clock=lambda: looks.now)
    run(following, looks, looks.wait)
    looks.now = T0 + 7200
    (last,) = following.reports(is_last=True)
    (whole,) = book([str(path)], Options(zone=UTC, now_us=round((T0 + 7200) * 1e6)))
    assert last.books == whole.books
    assert any(minute.revision > 1 for minute in last.details.minutes)  # it had been booked otherwise while it ran
    minutes = [replace(minute, revision=1) for minute in last.details.minutes]
    assert replace(last.details, minutes=minutes) == whole.details


def test_times_ahead_of_the_clock_are_shown_as_they_are_and_the_zone_is_doubted_once(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(lines(1, 2, 3))
    looks = Looks((T0 - 7000, append(path, lines(4))))
    looks.now = T0 - 7200
    following = Following(GrowingLog(path, tz=UTC), Options(), unix_clock=lambda: looks.now)
    run(following, looks, looks.wait)
    (last,) = following.reports(is_last=True)
    assert last.books.end_us / 1e6 == T0 + 40
    assert sum("ahead of this machine's clock" in note for note in last.notes) == 1


def test_nothing_is_shown_as_a_run_before_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    looks = Looks(
        (T0, append(path, "[rank0]:[titan] 2030-01-02 03:00:00,000 - root - INFO - Starting job: a made-up one\n"))
    )
    following = Following(GrowingLog(path, tz=UTC), Options(), unix_clock=lambda: looks.now)
    run(following, looks, looks.wait)
    assert following.reports(is_last=True) == []


def test_the_terminal_shows_the_newest_run_and_how_to_end_it(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(lines(*range(1, 20)))
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=400, height=50, color_system=None)
    following = Following(GrowingLog(path, tz=UTC), Options(), unix_clock=lambda: T0 + 200)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        view = LiveView(console, live, str(path))
        view.show([])
        run(following, view, lambda: True)
    assert "waiting for what" in screen.getvalue()
    assert "train · running" in screen.getvalue()
    assert "Ctrl-C ends this" in screen.getvalue()


def test_without_a_terminal_a_line_is_written_for_each_minute(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(lines(1, 2, 3))
    said: list[str] = []
    looks = Looks(*((T0 + at, append(path, lines(at // 10))) for at in range(40, 200, 10)))
    looks.now = T0 + 30
    following = Following(GrowingLog(path, tz=UTC), Options(), unix_clock=lambda: looks.now)
    run(following, LineView(said.append), looks.wait)
    assert [line[:16] for line in said] == [f"2030-01-02 03:0{minute}" for minute in range(4)]
    assert all("running" in line and "goodput" in line for line in said)
