"""``tachograph replay LOG --into URL``: a recorded run into a collector, and what the collector booked of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import click
from tachograph_agent.trainers.containment import AdapterError
from tachograph_agent.trainers.files import MissingExtraError, ReadingError
from tachograph_agent.trainers.reading import Reading, open_log

from tachograph_collector.cli.booking import Options, refuse_skipped
from tachograph_collector.cli.errors import BadInputError, DefectError, ExtraMissingError
from tachograph_collector.cli.progress import progress_bar
from tachograph_collector.cli.remote import asking
from tachograph_collector.cli.show import report_now
from tachograph_collector.client import Client
from tachograph_collector.client.upload import Upload, Uploaded, wait_until_booked
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.text import count, joined, visible

BOOKED_WITHIN_S: Final = 120.0
LOOK_EVERY_S: Final = 0.2
SHOW_PROGRESS_FROM_BYTES: Final = 2_000_000
MAX_SHOWN_RUNS: Final = 50


def load(
    paths: Sequence[str], options: Options, url: str, token_file: str | None, ca_file: str | None
) -> list[RunReport]:
    """Send the log's events, wait until they are booked, and give the reports as the collector has them.

    Raises ``BadInputError`` and its like in one sentence. What was loaded is said on standard error.
    """
    try:
        reading = open_log(
            paths,
            format=options.format,
            tz=options.zone,
            year=options.year,
            start_unix_seconds=options.start_unix_seconds,
            run=options.run,
            pattern=options.pattern,
        )
        with asking(url, token_file, ca_file) as client:
            uploaded = _send(reading, client, strict=options.strict)
            _say(uploaded, reading, client.url)
            late = wait_until_booked(client, uploaded.runs, _until(time.monotonic() + BOOKED_WITHIN_S))
            if late:
                names = joined([visible(name, 80) for name in late[:5]])
                raise BadInputError(
                    f"{client.url} has taken {names} and not booked all of it within {BOOKED_WITHIN_S:.0f} s; "
                    f"'tachograph show' will tell when it has"
                )
            reports = [report_now(client.run(name), options.price) for name in booked_runs(client, uploaded.runs)]
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except AdapterError as error:
        raise DefectError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    if not reports:
        raise BadInputError(
            "no step, save or start is among the log's events: there is no run to be booked; "
            "'tachograph replay LOG' without --into says what is in it"
        )
    if uploaded.num_accepted:
        click.echo("incidents are looked for now; 'tachograph show' lists them in some 15 s", err=True)
    return [_with_reading(report, reading) for report in reports]


def _with_reading(report: RunReport, reading: Reading) -> RunReport:
    """The report with what only the reading of the log knows."""
    return replace(
        report,
        notes=[*reading.notes, *report.notes],
        skipped_lines=reading.skipped_lines,
        skips=reading.skips,
        format=reading.format,
        has_clock=reading.has_clock,
    )


def _send(reading: Reading, client: Client, *, strict: bool) -> Uploaded:
    upload = Upload(client)
    with progress_bar(reading, from_bytes=SHOW_PROGRESS_FROM_BYTES, doing="loading") as advance:
        for batch in reading.batches():
            if strict:
                refuse_skipped(reading)
            upload.add(batch)
            advance()
        if strict:
            refuse_skipped(reading)
        return upload.finish()


def booked_runs(client: Client, names: Sequence[str]) -> list[str]:
    """The runs that were booked under these names: a name may hold a second run, ``name#2``."""
    found = []
    for name in names[:MAX_SHOWN_RUNS]:
        like = {line.run for line in client.runs(name)}  # a name with * in it finds others, too
        generations = sorted((each for each in like if each.startswith(f"{name}#")), key=lambda each: (len(each), each))
        found += [name] * (name in like) + generations
    return found


def _say(uploaded: Uploaded, reading: Reading, url: str) -> None:
    if not uploaded.runs:
        raise BadInputError(f"{', '.join(file.name for file in reading.files)}: no event is in it; nothing was loaded")
    told = [f"{count(uploaded.num_accepted, 'event')} loaded into {url}"]
    told += [f"{uploaded.num_known:,} were there already"] if uploaded.num_known else []
    told += [f"{count(uploaded.num_rejected, 'event')} refused"] if uploaded.num_rejected else []
    told += [f"{count(reading.skipped_lines, 'line')} could not be read"] if reading.skipped_lines else []
    click.echo("; ".join(told), err=True)
    for reason in uploaded.reasons:
        click.echo(f"refused: {visible(reason, 400)}", err=True)
    if not uploaded.num_accepted and not uploaded.num_known:
        raise BadInputError(f"{url} took none of the log's events; see above why")


def _until(end_s: float) -> Callable[[], bool]:
    def wait() -> bool:
        time.sleep(LOOK_EVERY_S)
        return time.monotonic() < end_s

    return wait
