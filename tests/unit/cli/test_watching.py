"""Watching a run: it is shown when it changes, goes on while the collector is away, and ends when the run does."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from tachograph_collector.cli.watching import LineView, LiveView, View, watch_until_over
from tachograph_collector.client import AwayError, ProblemError, UnknownRunError
from tachograph_collector.client.incident_records import Acknowledgement, Incident
from tachograph_collector.client.records import Details, Minute, Records, RunSummary, Stored

T0 = 1_800_000_000.0  # 2027-01-15 08:00 UTC
UNBOOKED = ProblemError("not yet", 404, "no time of it is booked yet", b'{"title": "Not booked yet"}')


def summary(minute: float, version: int, status: str = "running", name: str = "r") -> RunSummary:
    """A run of so many minutes, all kept."""
    wall_s = minute * 60
    return RunSummary(
        run=name,
        start=T0,
        end=T0 + wall_s,
        status=status,
        wall_s=wall_s,
        kept_s=wall_s,
        checkpoint_s=0.0,
        lost_s=0.0,
        restart_s=0.0,
        at_risk_s=30.0,
        goodput=1.0,
        goodput_low=0.9,
        attempts=1,
        failures=0,
        steps=int(wall_s),
        minutes={"kept": int(minute)},
        details=Details(),
        stored=Stored(as_of=T0 + wall_s, version=version),
    )


class Run:
    """Says the next of what it is to say, whenever it is asked."""

    name = "r"

    def __init__(self, *says: RunSummary | Exception, flagged: list[list[Incident]] | None = None) -> None:
        self.says = list(says)
        self.flagged = flagged or []
        self.asked_since: list[float] = []
        self.since: list[float] = []

    def summary(self) -> RunSummary:
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def incidents(self, since: float) -> Records[Incident]:
        self.asked_since.append(since)
        found = self.flagged.pop(0) if self.flagged else []
        return Records(Incident, found)

    def minutes(self, since: float) -> Records[Minute]:
        self.since.append(since)
        labels = ("kept", "restart", "lost", "kept")
        rows = [
            Minute(
                start=T0 + 60 * number,
                kept_s=60.0,
                checkpoint_s=0.0,
                lost_s=0.0,
                restart_s=0.0,
                label=label,
                revision=1,
                incomplete=False,
            )
            for number, label in enumerate(labels)
        ]
        return Records(Minute, rows)


def watched(run: Any, view: View) -> int:
    """How often it was waited until the watch ended."""
    waits = []
    watch_until_over(run, view, lambda: waits.append(1))
    return len(waits)


def lines_of(*says: RunSummary | Exception) -> list[str]:
    lines: list[str] = []
    watched(Run(*says), LineView(lines.append))
    return lines


def test_a_line_is_written_for_each_minute_and_one_at_the_end() -> None:
    seconds = (60.2, 60.5, 60.9, 61.1, 61.2)
    says = [summary(minute, version) for version, minute in enumerate(seconds)]
    lines = lines_of(*says, summary(61.3, 9, "completed"))
    assert [line.split("  ")[:3] for line in lines] == [
        ["2027-01-15 09:00 UTC", "r", "running"],
        ["2027-01-15 09:01 UTC", "r", "running"],
        ["2027-01-15 09:01 UTC", "r", "completed"],
    ]
    assert lines[0].split("  ")[3:] == ["step 3,612", "goodput 100.0 %", "at risk 30 s", "0 failures", "kept"]


def test_what_has_not_changed_is_not_shown_again() -> None:
    run = Run(summary(1.1, 5), summary(1.1, 5), summary(2.1, 6), summary(2.1, 6), summary(3.1, 7, "failed"))
    assert watched(run, LineView(lambda _: None)) == 4
    assert len(run.since) == 3


def test_the_last_sixty_minutes_are_asked_for() -> None:
    run = Run(summary(100.5, 1, "completed"))
    watched(run, LineView(lambda _: None))
    assert run.since == [T0 + 41 * 60]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "abandoned"])
def test_it_ends_when_the_run_does_however_it_ends(status: str) -> None:
    assert watched(Run(summary(1.1, 1), summary(2.1, 2, status)), LineView(lambda _: None)) == 1


def test_a_collector_that_goes_away_is_said_once_and_asked_again() -> None:
    away = AwayError("no collector answers at http://c")
    lines = lines_of(summary(1.1, 1), away, away, summary(2.1, 2), away, summary(3.1, 3, "completed"))
    assert [line.split("  ")[0] for line in lines] == [
        "2027-01-15 08:01 UTC",
        "no collector answers at http://c; trying again",
        "2027-01-15 08:02 UTC",
        "no collector answers at http://c; trying again",
        "2027-01-15 08:03 UTC",
    ]


def test_a_collector_that_was_never_there_and_a_run_that_nobody_knows_end_it_at_once() -> None:
    for error in (AwayError("no collector answers"), UnknownRunError("no run 'r'", "no run")):
        with pytest.raises(type(error)):
            lines_of(error)


def test_a_run_that_is_not_booked_yet_is_waited_for() -> None:
    lines = lines_of(UNBOOKED, UNBOOKED, summary(1.1, 1, "completed"))
    assert lines[0] == "nothing of r is booked yet; looking again"
    assert len(lines) == 2


def drawn(show: Callable[[LiveView], None], width: int = 100) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=60, color_system=None)
    with LiveView(console) as view:
        show(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_live_report_has_the_verdict_the_accounts_and_the_latest_minutes() -> None:
    text = drawn(lambda view: watched(Run(summary(4.0, 7), summary(4.5, 8, "completed")), view))
    assert "100.0 % of 4 min was kept so far; nothing lost." in text
    assert "the last 4 minutes, 2 kept, 1 lost, 1 restart" in text
    assert "█░x█" in text
    assert "as of 2027-01-15 08:04:00 UTC, version 7; Ctrl-C ends this" in text
    last = text[text.rindex("version 8") :]
    assert "Ctrl-C" not in last


def test_the_live_report_keeps_what_was_shown_while_the_collector_is_away() -> None:
    def away(view: LiveView) -> None:
        view.show(summary(4.0, 7), [])
        view.say("no collector answers; trying again")

    text = drawn(away)
    last = text[text.rindex("r · running") :]
    assert "no collector answers; trying again" in last


def test_a_hostile_name_moves_no_cursor() -> None:
    hostile = summary(4.0, 7, name="\x1b[2Jr\r\n[bold]x")
    assert "\x1b[2J" not in drawn(lambda view: view.show(hostile, []))
    lines: list[str] = []
    LineView(lines.append).show(hostile, [])
    assert "\x1b" not in lines[0]
    assert "\n" not in lines[0]


def flagged(number: int = 1, **more: Any) -> Incident:
    """An open hang, unless told otherwise."""
    told: dict[str, Any] = {
        "incident_id": f"{number}f1c2d0b7a9e", "run": "r", "detector": "hang", "subject": "run", "severity": "warning",
        "is_open": True, "opened_at": T0 + 60, "found_at": T0 + 90, "updated_at": T0 + 90,
        "summary": f"the job \x1b[31mhangs {number}",
    }  # fmt: skip
    return Incident(**(told | more))


def test_what_becomes_of_incidents_is_written_once_as_it_happens() -> None:
    acknowledged = Acknowledgement(at=T0, author="ada")
    over = flagged(is_open=False, severity="critical", acknowledged=acknowledged, cleared_at=T0 + 120)
    run = Run(
        *(summary(1.1, 5) for _ in range(6)),
        summary(1.2, 6, "completed"),
        flagged=[
            [],
            [flagged()],
            [flagged()],
            [flagged(severity="critical"), flagged(2)],
            [flagged(severity="critical", acknowledged=acknowledged), flagged(2)],
            [over, flagged(2)],
            [over, flagged(2)],
        ],
    )
    lines: list[str] = []
    watched(run, LineView(lines.append))
    assert [line for line in lines if line.startswith("incident")] == [
        "incident 1f1c2d0b open  warning: the job \\x1b[31mhangs 1",
        "incident 1f1c2d0b graver  critical: the job \\x1b[31mhangs 1",
        "incident 2f1c2d0b open  warning: the job \\x1b[31mhangs 2",
        "incident 1f1c2d0b acknowledged by ada  critical: the job \\x1b[31mhangs 1",
        "incident 1f1c2d0b over  critical: the job \\x1b[31mhangs 1",
    ]
    assert run.asked_since == [T0 + 66] * 7, "since the watch began, so that what is over is seen"


def test_what_is_open_stands_below_the_report() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    run = Run(summary(1.1, 5), summary(2.1, 6, "failed"), flagged=[[flagged(), flagged(2)], [flagged()]])
    with LiveView(console) as view:
        watched(run, view)
    last = out.getvalue().rpartition("open incident")[2]
    assert "1f1c2d0b" in last
    assert "2f1c2d0b" not in last
    assert "\x1b[31mhangs" not in out.getvalue()
