"""Logs into reports for the pandas API: recognise, read, book; no terminal, no files written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from tachograph_agent.events import microseconds
from tachograph_agent.trainers.reading import Reading, open_log

from tachograph_collector.report.booked import ledger_for, run_reports, without_garbage_collection
from tachograph_collector.report.frames import Recording


def recording(
    paths: Sequence[str | Path],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option everywhere
    tz: str | tzinfo | None = None,
    year: int | None = None,
    start: datetime | float | None = None,
    run: str | None = None,
    now: datetime | float | None = None,
    price_per_gpu_hour: float | None = None,
    pattern: str | Path | None = None,
) -> Recording:
    """Read the logs and book every run in them; see ``tachograph_collector.load``."""
    zone = ZoneInfo(tz) if isinstance(tz, str) else tz

    def reading_anew() -> Reading:
        return open_log(
            paths,
            format=format,
            tz=zone,
            year=year,
            start_unix_seconds=_unix_seconds(start, "start"),
            run=run,
            pattern=pattern,
        )

    now_seconds = _unix_seconds(now, "now")
    now_us = None if now_seconds is None else microseconds(now_seconds)
    reading = reading_anew()
    ledger = ledger_for(reading, now_us)
    with without_garbage_collection():
        for batch in reading.batches():
            ledger.add(batch)
        reports = run_reports(ledger, reading, now_us, price=price_per_gpu_hour)
    return Recording(reports, lambda: reading_anew().batches())


def _unix_seconds(at: datetime | float | None, option: str) -> float | None:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{option}={at!r} has no zone; give one, such as tzinfo=datetime.UTC")
        return at.timestamp()
    return at
