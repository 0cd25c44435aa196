"""Logs into reports for the pandas API: recognise, read, book; no terminal, no files written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from tachograph_agent.events import AnyEvent, microseconds
from tachograph_agent.trainers.reading import Reading, open_log

from tachograph_collector.ledger import Ledger
from tachograph_collector.report.frames import Recording
from tachograph_collector.report.model import RunReport


class LogSource:
    """The ledger's ``StepSource`` over a log that is being read: what was fed before, read from the file again."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def read(self, run: str, since_us: int) -> Iterator[AnyEvent]:
        """Every event of ``run`` fed so far whose ``t`` is at or after ``since_us``, in any order."""
        for batch in self._reading.again(since_us):
            for event in batch:
                if event.run == run:
                    yield event


def recording(
    paths: Sequence[str | Path],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option everywhere
    tz: str | tzinfo | None = None,
    start: datetime | float | None = None,
    run: str | None = None,
    now: datetime | float | None = None,
    price_per_gpu_hour: float | None = None,
) -> Recording:
    """Read the logs and book every run in them; see ``tachograph_collector.load``."""
    zone = ZoneInfo(tz) if isinstance(tz, str) else tz

    def reading_anew() -> Reading:
        return open_log(paths, format=format, tz=zone, start_unix_seconds=_unix_seconds(start, "start"), run=run)

    now_seconds = _unix_seconds(now, "now")
    now_us = None if now_seconds is None else microseconds(now_seconds)
    reading = reading_anew()
    ledger = Ledger(source=LogSource(reading))
    for batch in reading.batches():
        ledger.add(batch)
    reports = [
        RunReport(
            books=ledger.books(name, now_us=now_us),
            details=ledger.details(name, now_us=now_us),
            notes=reading.notes,
            skipped_lines=reading.skipped_lines,
            skips=reading.skips,
            format=reading.format,
            has_clock=reading.has_clock,
            price_per_gpu_hour=price_per_gpu_hour,
        )
        for name in ledger.runs()
    ]
    return Recording(reports, lambda: reading_anew().batches())


def _unix_seconds(at: datetime | float | None, option: str) -> float | None:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{option}={at!r} has no zone; give one, such as tzinfo=datetime.UTC")
        return at.timestamp()
    return at
