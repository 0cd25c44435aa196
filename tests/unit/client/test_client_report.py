"""What the collector answers comes back as the very books that it was made from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tachograph_agent.trainers.reading import open_log
from tachograph_collector.client import records
from tachograph_collector.client.report import report_of
from tachograph_collector.report.booked import ledger_for, run_reports
from tachograph_collector.report.json_report import run_object
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.terminal import render_terminal
from tachograph_collector.service.formats import Table, json_rows
from tachograph_collector.service.run_tables import segments_table

REPOSITORY = Path(__file__).parents[3]
CASES = sorted((REPOSITORY / "tests" / "data" / "ledger").glob("*.jsonl"))
RECORDED = REPOSITORY / "examples" / "recorded_run.jsonl"
STORED = {"as_of": 1_800_000_000.0, "version": 3, "folded_seq": 9, "revision": 0, "frozen_at": None, "digest": None}


def booked(path: Path) -> list[RunReport]:
    reading = open_log([path])
    ledger = ledger_for(reading, None)
    for batch in reading.batches():
        ledger.add(batch)
    return run_reports(ledger, reading, None)


def through_the_wire(kind: Any, value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def rows(kind: Any, table: Table) -> Any:
    return through_the_wire(list[kind], json_rows(table))


def came_back(report: RunReport) -> RunReport:
    """The report as a client makes it from the collector's answers."""
    summary = through_the_wire(records.RunSummary, {**run_object(report), "stored": STORED})
    minutes = [
        records.Minute(
            start=one.start_us / 1e6,
            kept_s=one.kept_us / 1e6,
            checkpoint_s=one.checkpoint_us / 1e6,
            lost_s=one.lost_us / 1e6,
            restart_s=one.restart_us / 1e6,
            label=one.label,
            revision=one.revision,
            incomplete=one.incomplete,
        )
        for one in report.details.minutes
    ]
    return report_of(summary, rows(records.Segment, segments_table(report.details.segments)), minutes)


@pytest.mark.parametrize("path", [*CASES, RECORDED], ids=lambda path: path.stem)
def test_books_and_details_come_back_to_the_microsecond(path: Path) -> None:
    reports = booked(path)
    assert reports
    for report in reports:
        back = came_back(report)
        assert back.books == report.books
        assert back.details == report.details


def drawn(report: RunReport) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    render_terminal([report], console, with_model=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_report_of_what_came_back_is_the_same() -> None:
    (report,) = booked(RECORDED)
    assert drawn(came_back(report)) == drawn(report)


def test_a_newer_collector_may_say_more() -> None:
    (report,) = booked(RECORDED)
    told = {**run_object(report), "stored": {**STORED, "new": 1}, "new": {"more": []}}
    assert through_the_wire(records.RunSummary, told).run == report.books.run
