"""``tachograph replay``: a log in, the truth about where the time went out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, tzinfo
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tachograph_agent.events import microseconds

from tachograph_collector.cli import output
from tachograph_collector.cli.errors import BAD_INPUT, EXIT_CODES_HELP, GATE_FAILED, BadInputError, extra_missing
from tachograph_collector.cli.parsing import Instant, NumGpus, Price, Share, Year, Zone, unix_seconds
from tachograph_collector.report.text import visible

if TYPE_CHECKING:
    from tachograph_collector.report.model import RunReport

_TABLE_SUFFIXES = (".csv", ".parquet")

_EPILOG = f"""\b
Examples:
  tachograph replay run.jsonl
  tachograph replay --tz Europe/Berlin --html report.html slurm-4711.out
  tachograph replay --json --fail-under 90% logs/ > goodput.json
  zcat train.log.gz | tachograph replay --format megatron -

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--format", "format_name", metavar="NAME", help="Read as this format ('tachograph formats' lists them).")
@click.option("--tz", "zone", type=Zone(), help="Zone of times that name none, such as Europe/Berlin. Without it: UTC.")
@click.option("--year", type=Year(), help="Year of dates that name none.")
@click.option("--start", type=Instant(), help="When a log without a clock began: ISO 8601 or Unix seconds.")
@click.option("--run", "run_name", metavar="NAME", help="Name of the run where the log names none.")
@click.option("--now", type=Instant(), help="Read as if it were this time: an unfinished run lasts until then.")
@click.option("--since", type=Instant(), help="Look at the time from here only; the shares are of that window.")
@click.option("--until", type=Instant(), help="Look at the time up to here only.")
@click.option("--strict", is_flag=True, help=f"Refuse a log with a line that can't be read (exit code {BAD_INPUT}).")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@click.option("--minutes", metavar="FILE", help="Write a row a minute to FILE.csv or FILE.parquet; '-' is CSV here.")
@click.option("--html", metavar="FILE", help="Write the report as one page that opens offline.")
@click.option("--price", type=Price(), help="Price of one GPU for one hour; goes before the one in the log.")
@click.option("--gpus", type=NumGpus(), help="Number of GPUs, where the log doesn't tell it.")
@click.option(
    "--judge/--no-judge",
    default=None,
    help="Hold the run against the checkpoint model. In the terminal and on the page it is; in --json only if asked.",
)
@click.option(
    "--fail-under",
    type=Share(),
    help=f"Exit with code {GATE_FAILED} if any run's goodput is under this: 0.9 or 90%.",
)
def replay(
    logs: tuple[str, ...],
    format_name: str | None,
    zone: tzinfo | None,
    year: int | None,
    start: datetime | float | None,
    run_name: str | None,
    now: datetime | float | None,
    since: datetime | float | None,
    until: datetime | float | None,
    strict: bool,
    as_json: bool,
    minutes: str | None,
    html: str | None,
    price: float | None,
    gpus: int | None,
    judge: bool | None,
    fail_under: float | None,
) -> int:
    """Say where the time of a recorded run went.

    LOG is an event log or the log that the trainer wrote anyway: a file (plain, gzip, zstd), several parts of one run,
    a directory of them, or - for standard input. Every minute is booked as kept, checkpoint, lost or restart.
    """
    _check_outputs(as_json=as_json, minutes=minutes, html=html, judge=judge)
    since_us, until_us, now_us = (_us(instant, zone) for instant in (since, until, now))
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise BadInputError(f"--since {since} is not before --until {until}; nothing lies between them")

    from tachograph_collector.cli import booking

    reports = booking.book(
        logs,
        booking.Options(
            format=format_name,
            zone=zone,
            year=year,
            start_unix_seconds=unix_seconds(start, zone),
            run=run_name,
            now_us=now_us,
            since_us=since_us,
            until_us=until_us,
            strict=strict,
            price=price,
            gpus=gpus,
            with_loss=html is not None,
        ),
    )
    _write(reports, as_json=as_json, minutes=minutes, html=html, judge=judge)
    return 0 if fail_under is None else _gate(reports, fail_under)


def _us(instant: datetime | float | None, zone: tzinfo | None) -> int | None:
    seconds = unix_seconds(instant, zone)
    return None if seconds is None else microseconds(seconds)


def _check_outputs(*, as_json: bool, minutes: str | None, html: str | None, judge: bool | None) -> None:
    """Refuse what can't be written before a long log is read."""
    if judge and any(find_spec(package) is None for package in ("numpy", "scipy")):
        raise extra_missing("--judge")
    if minutes == "-":
        if as_json:
            raise BadInputError("--json and --minutes - both write to standard output; give --minutes a file")
    elif minutes is not None:
        if not minutes.endswith(_TABLE_SUFFIXES):
            raise BadInputError(f"--minutes {minutes}: the name must end in {' or '.join(_TABLE_SUFFIXES)}")
        if minutes.endswith(".parquet") and find_spec("pyarrow") is None:
            raise extra_missing(f"--minutes {minutes}")
        output.check_writable("--minutes", minutes)
    if html is not None:
        if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
            raise extra_missing(f"--html {html}")
        output.check_writable("--html", html)


def _write(
    reports: Sequence[RunReport], *, as_json: bool, minutes: str | None, html: str | None, judge: bool | None
) -> None:
    """Files first, so that what goes to standard output is only said when they are there.

    The model takes longer to import than a short log to read, and scripts read JSON often: it is in there if asked for.
    """
    shown = judge is not False
    if minutes is not None and minutes != "-":
        from tachograph_collector.report.tables import write_minutes

        write_minutes(reports, Path(minutes))
    if html is not None:
        from tachograph_collector.report.html import render_html

        with output.told_as(f"--html {html}"), output.written_whole(html) as path:
            path.write_text(render_html(reports, with_model=shown), encoding="utf-8")
    if as_json:
        from tachograph_collector.report.json_report import to_json

        sys.stdout.buffer.write(to_json(reports, with_model=bool(judge)))
    elif minutes == "-":
        from tachograph_collector.report.tables import write_minutes

        with output.scratch_folder() as folder:
            table = folder / "minutes.csv"
            write_minutes(reports, table)
            output.to_stdout(table)
    else:
        from tachograph_collector.cli.console import standard_output
        from tachograph_collector.report.terminal import render_terminal

        render_terminal(reports, standard_output(), with_model=shown)


def _gate(reports: Sequence[RunReport], fail_under: float) -> int:
    """Say on standard error whether each run's goodput reached ``fail_under``, and by which definition."""
    click.echo(
        "gate: goodput = kept / wall-clock; kept is the time of work that is part of the model as it now stands, "
        "wall-clock all time of the run or of the window",
        err=True,
    )
    failed = False
    for report in reports:
        goodput = report.books.goodput
        met = goodput is not None and goodput >= fail_under
        failed = failed or not met
        shown = "unknown" if goodput is None else f"{goodput:.4f}"
        relation = "reaches" if met else "is under" if goodput is not None else "can't be held against"
        click.echo(f"gate: {visible(report.books.run)}: goodput {shown} {relation} {fail_under:.4f}", err=True)
    return GATE_FAILED if failed else 0
