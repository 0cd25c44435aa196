"""``tachograph replay``: a log in, the truth about where the time went out."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

import click
from tachograph_agent.events import microseconds

from tachograph_collector.cli import detecting, writing
from tachograph_collector.cli.errors import BAD_INPUT, EXIT_CODES_HELP, GATE_FAILED, BadInputError, extra_missing
from tachograph_collector.cli.parsing import Instant, NumGpus, Price, Share, Year, Zone, unix_seconds

if TYPE_CHECKING:
    from tachograph_collector.cli.booking import Options
    from tachograph_collector.detect.fleet import FleetSettings
    from tachograph_collector.report.model import RunReport

_EPILOG = f"""\b
Examples:
  tachograph replay run.jsonl
  tachograph replay --tz Europe/Berlin --html report.html slurm-4711.out
  tachograph replay --json --fail-under 90% logs/ > goodput.json
  zcat train.log.gz | tachograph replay --format megatron -
  tachograph replay --pattern ours.toml train.out
  tachograph replay --incidents incidents.jsonl run.jsonl
  tachograph replay --json --detect run.jsonl
  tachograph replay --follow train.out
  tachograph replay --into http://127.0.0.1:8420 run.jsonl

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--format", "format_name", metavar="NAME", help="Read as this format ('tachograph formats' lists them).")
@click.option("--pattern", metavar="FILE", help="Read a log in no known format as this pattern file says (TOML).")
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
@click.option("--incidents", metavar="FILE", help="Write what the detectors found, a JSON object a line; '-' is here.")
@click.option("--thresholds", metavar="FILE", help="TOML file with other thresholds for the detectors.")
@click.option(
    "--detect/--no-detect",
    default=None,
    help="Look for incidents. For the terminal they are looked for; in --json they are only if asked.",
)
@click.option(
    "--fail-under",
    type=Share(),
    help=f"Exit with code {GATE_FAILED} if any run's goodput is under this: 0.9 or 90%.",
)
@click.option("--follow", is_flag=True, help="Follow a log that grows: the report is drawn anew until Ctrl-C.")
@click.option("--into", metavar="URL", help="Load the log into this collector, and report what the collector booked.")
@click.option("--token-file", metavar="FILE", help="With --into: a file with the token; without it TACHOGRAPH_TOKEN.")
@click.option("--ca-file", metavar="FILE", help="With --into: certificates to trust, in PEM.")
def replay(
    logs: tuple[str, ...],
    format_name: str | None,
    pattern: str | None,
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
    incidents: str | None,
    thresholds: str | None,
    detect: bool | None,
    fail_under: float | None,
    follow: bool,
    into: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> int:
    """Say where the time of a recorded run went.

    LOG is an event log or the log that the trainer wrote anyway: a file (plain or compressed), several parts of one
    run, a directory of them, or - for standard input. Every minute is booked as kept, checkpoint, lost or restart.
    """
    outputs = writing.Outputs(as_json=as_json, minutes=minutes, html=html, judge=judge, incidents=incidents)
    writing.check(outputs)
    with_incidents = _with_incidents(outputs, detect=detect, into=into)
    since_us, until_us, now_us = (_us(instant, zone) for instant in (since, until, now))
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise BadInputError(f"--since {since} is not before --until {until}; nothing lies between them")

    from tachograph_collector.cli import booking

    options = booking.Options(
        format=format_name,
        pattern=pattern,
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
        with_incidents=with_incidents,
        thresholds=None if thresholds is None else _thresholds(thresholds, with_incidents=with_incidents),
    )
    if follow:
        _check_followed(logs, outputs, into, (since, until, now))
        from tachograph_collector.cli.following import follow as follow_log

        reports = follow_log(logs[0], options)
    elif into is None:
        if token_file is not None or ca_file is not None:
            raise BadInputError("--token-file and --ca-file say how to reach a collector; give --into URL with them")
        try:
            reports = booking.book(logs, options)
        except BadInputError as error:
            written = any((minutes, html, incidents, fail_under is not None, strict))
            if written or since_us is not None or until_us is not None or not _are_outages(error, options, as_json):
                raise
            return 0
    else:
        reports = _loaded(logs, options, into, token_file, ca_file)
    writing.write(reports, outputs)
    return 0 if fail_under is None else writing.gate(reports, fail_under)


def _are_outages(error: BadInputError, options: Options, as_json: bool) -> bool:
    """Show what was to be booked and is a table of outages; False if it is none."""
    from tachograph_agent.trainers.outage_tables import OutageTableError

    cause = error.__cause__
    if not isinstance(cause, OutageTableError):
        return False
    from tachograph_collector.cli.outages import show

    show(cause.tables, zone=options.zone, span_days=None, gpus=options.gpus, as_json=as_json)
    return True


def _with_incidents(outputs: writing.Outputs, *, detect: bool | None, into: str | None) -> bool:
    """Whether the detectors run: if asked, else where a terminal shows them and what they need is installed."""
    asks = "--detect" if outputs.incidents is None else "--incidents"
    if outputs.incidents is not None or detect:
        if detect is False:
            raise BadInputError("--incidents asks for what --no-detect leaves out; give one of them")
        if into is not None:
            raise BadInputError(f"{asks} is for a log that is read here; leave out --into")
        if not detecting.is_available():
            raise extra_missing(asks)
        return True
    for_terminal = not outputs.as_json and outputs.minutes != "-"
    return for_terminal and detect is None and into is None and detecting.is_available()


def _check_followed(
    logs: tuple[str, ...], outputs: writing.Outputs, into: str | None, times: tuple[datetime | float | None, ...]
) -> None:
    """Refuse what has no meaning for a log that grows."""
    if len(logs) != 1 or logs[0] == "-":
        raise BadInputError(f"--follow {' '.join(logs)}: only a single file can be followed; name the one that grows")
    if into is not None:
        raise BadInputError("--follow reads a log here; what loads a growing log into a collector is tachograph-agent")
    for option, value in zip(("--since", "--until", "--now"), times, strict=True):
        if value is not None:
            raise BadInputError(f"{option} is for a log that is read as a whole; leave it out, or --follow")
    if outputs.as_json or "-" in (outputs.minutes, outputs.incidents):
        raise BadInputError("--follow shows the report on standard output; give --minutes and --incidents a file")


def _thresholds(path: str, *, with_incidents: bool) -> FleetSettings:
    if not detecting.is_available():
        raise extra_missing(f"--thresholds {path}")
    if not with_incidents:
        raise BadInputError(f"--thresholds {path}: no detector runs; add --detect or --incidents FILE, or leave it out")
    return detecting.read_thresholds(path)


def _loaded(
    logs: tuple[str, ...], options: Options, into: str, token_file: str | None, ca_file: str | None
) -> list[RunReport]:
    from tachograph_collector.cli.into import load

    for option, value in (("--now", options.now_us), ("--since", options.since_us), ("--until", options.until_us)):
        if value is not None:
            raise BadInputError(f"{option} is for a log that is read here; --into loads all of it")
    if options.gpus is not None:
        raise BadInputError("--gpus is for a log that is read here; with --into the run's own number counts")
    return load(logs, options, into, token_file, ca_file)


def _us(instant: datetime | float | None, zone: tzinfo | None) -> int | None:
    seconds = unix_seconds(instant, zone)
    return None if seconds is None else microseconds(seconds)
