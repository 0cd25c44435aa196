"""``tachograph show``: the report of one run of a collector, the same as ``replay`` of its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Final

import click
from tachograph_agent.events import microseconds

from tachograph_collector.cli import writing
from tachograph_collector.cli.errors import EXIT_CODES_HELP, GATE_FAILED, BadInputError
from tachograph_collector.cli.parsing import Instant, Price, Share, Zone, unix_seconds
from tachograph_collector.cli.remote import HELP, asking, remote_options

if TYPE_CHECKING:
    from tachograph_collector.client import Run
    from tachograph_collector.client.incident_records import Incident
    from tachograph_collector.report.model import RunReport

_EPILOG = f"""\b
Examples:
  tachograph show llama-70b
  tachograph show llama-70b --since 2026-03-01 --until 2026-03-02
  tachograph show llama-70b --json --fail-under 90% > goodput.json

{HELP}

{EXIT_CODES_HELP}
"""

NOT_JUDGED: Final = (
    "No detector has looked at this run yet, so that none of its incidents are shown. They look at a recording when "
    "nothing more has come of it for 10 s; ask again then."
)


@click.command(epilog=_EPILOG)
@click.argument("run_name", metavar="RUN")
@click.option("--tz", "zone", type=Zone(), help="Zone of --since and --until. Without it: UTC.")
@click.option("--since", type=Instant(), help="Look at the time from here only; the shares are of that window.")
@click.option("--until", type=Instant(), help="Look at the time up to here only.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output, as replay does.")
@click.option("--minutes", metavar="FILE", help="Write a row a minute to FILE.csv or FILE.parquet; '-' is CSV here.")
@click.option("--html", metavar="FILE", help="Write the report as one page that opens offline.")
@click.option("--price", type=Price(), help="Price of one GPU for one hour; goes before the one of the run.")
@click.option(
    "--judge/--no-judge",
    default=None,
    help="Hold the run against the checkpoint model. In the terminal and on the page it is; in --json only if asked.",
)
@click.option("--fail-under", type=Share(), help=f"Exit with code {GATE_FAILED} if its goodput is under this.")
@remote_options
def show(
    run_name: str,
    zone: tzinfo | None,
    since: datetime | float | None,
    until: datetime | float | None,
    as_json: bool,
    minutes: str | None,
    html: str | None,
    price: float | None,
    judge: bool | None,
    fail_under: float | None,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> int:
    """Say where the time of a collector's run went.

    RUN is its name, as 'tachograph ls' lists it; the second run of a name is NAME#2. The report is that of 'tachograph
    replay', as the books stand now, with the incidents that are open, or with all of a run that is over.
    """
    outputs = writing.Outputs(as_json=as_json, minutes=minutes, html=html, judge=judge)
    writing.check(outputs)
    since_us, until_us = (_us(instant, zone) for instant in (since, until))
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise BadInputError(f"--since {since} is not before --until {until}; nothing lies between them")
    with asking(url, token_file, ca_file) as client:
        run = client.run(run_name)
        report = report_now(run, price)
        if not as_json and minutes != "-":
            report = _with_incidents(report, run)
    if since_us is not None or until_us is not None:
        report = _window(report, since_us, until_us)
    writing.write([report], outputs)
    return 0 if fail_under is None else writing.gate([report], fail_under)


def report_now(run: Run, price: float | None = None) -> RunReport:
    """The run as its books stand now; asked for again if they change in between, since parts must be of one version."""
    from tachograph_collector.client.report import report_of

    summary = run.summary()
    for _ in range(5):
        segments, minutes = run.segments(), run.minutes()
        again = run.summary()
        if again.stored.version == summary.stored.version:
            break
        summary = again
    return report_of(again, segments, minutes, price=price)


def _with_incidents(report: RunReport, run: Run) -> RunReport:
    """With what is open; of a run that is over nothing is, so with all that was found."""
    only_open = True if report.books.status == "running" else None
    return told_with(report, list(run.incidents(is_open=only_open)), was_judged=any(True for _ in run.sights()))


def told_with(report: RunReport, found: Sequence[Incident], *, was_judged: bool) -> RunReport:
    """The report with these incidents; with a note where there are none since no detector has looked yet."""
    from tachograph_collector.client.flagged import seen

    if found:
        return replace(report, incidents=[seen(one) for one in found])
    return report if was_judged else replace(report, notes=[*report.notes, NOT_JUDGED])


def _us(instant: datetime | float | None, zone: tzinfo | None) -> int | None:
    seconds = unix_seconds(instant, zone)
    return None if seconds is None else microseconds(seconds)


def _window(report: RunReport, since_us: int | None, until_us: int | None) -> RunReport:
    from tachograph_collector.report.model import Window
    from tachograph_collector.report.text import iso, visible
    from tachograph_collector.report.windows import clip

    clipped = clip(report, Window(since_us, until_us))
    if clipped is None:
        books = report.books
        raise BadInputError(
            f"nothing of {visible(books.run)} lies in that window: it is from {iso(books.start_us)} to "
            f"{iso(books.end_us)}; move --since or --until"
        )
    return clipped
