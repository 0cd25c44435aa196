"""``tachograph incidents``: what a collector flagged, one a line; what is open first, the gravest of it first."""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP
from tachograph_collector.cli.parsing import Instant, NumRuns, Zone, unix_seconds
from tachograph_collector.cli.remote import HELP, asking, remote_options

if TYPE_CHECKING:
    from tachograph_collector.client.incident_records import Incident

_EPILOG = f"""\b
Examples:
  tachograph incidents
  tachograph incidents --open 'llama-*'
  tachograph incidents --severity critical --since 2026-03-01 --json

'tachograph incident show ID' says all that is known of one; the beginning of an ID is enough.

{HELP}

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("run_pattern", metavar="[RUN]", required=False)
@click.option("--open", "only_open", is_flag=True, help="Only those that are open.")
@click.option("--detector", "detectors", metavar="NAME", multiple=True, help="Only those of it; may be given again.")
@click.option(
    "--severity",
    "severities",
    type=click.Choice(("info", "warning", "critical")),
    multiple=True,
    help="Only those of it; may be given again.",
)
@click.option("--node", metavar="NAME", help="Only those that are about this node.")
@click.option("--origin", type=click.Choice(("live", "replay", "rehearsal")), help="Only those of runs of this origin.")
@click.option("--tz", "zone", type=Zone(), help="Zone of --since and --until. Without it: UTC.")
@click.option("--since", type=Instant(), help="Only those that were open after this.")
@click.option("--until", type=Instant(), help="Only those that began before this.")
@click.option("--limit", type=NumRuns(), default=50, help="At most this many. Without it: 50.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@remote_options
def incidents(
    run_pattern: str | None,
    only_open: bool,
    detectors: tuple[str, ...],
    severities: tuple[str, ...],
    node: str | None,
    origin: str | None,
    zone: tzinfo | None,
    since: datetime | float | None,
    until: datetime | float | None,
    limit: int,
    as_json: bool,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> None:
    """List what a collector flagged.

    RUN is a name, in which * and ? stand for any characters and for any one. What is open comes first, the gravest of
    it first, then what is over; each line says since when, what, and whether somebody is on it.
    """
    with asking(url, token_file, ca_file) as client:
        found: list[Incident] = []
        for is_open in (True,) if only_open else (True, False):
            if len(found) <= limit:
                found += client.incidents(
                    run_pattern,
                    detector=detectors or None,
                    severity=severities or None,
                    origin=origin,
                    node=node,
                    is_open=is_open,
                    since=unix_seconds(since, zone),
                    until=unix_seconds(until, zone),
                    limit=limit + 1 - len(found),
                )
        if not found and run_pattern is not None and not any(each in run_pattern for each in "*?["):
            client.run(run_pattern).place()  # a run that nobody knows is told with those that are like it
    if as_json:
        import msgspec

        from tachograph_collector.cli.incident_words import in_order

        sys.stdout.buffer.write(msgspec.json.encode({"incidents": in_order(found[:limit])}) + b"\n")
        return
    if not found:
        is_narrowed = any((run_pattern, detectors, severities, node, origin, since is not None, until is not None))
        kind = " that fits what is asked for" if is_narrowed else ""
        click.echo(f"{client.url} knows no {'open ' if only_open else ''}incident{kind}")
        return
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.cli.incident_words import in_order, show_table
    from tachograph_collector.report.terminal import Page

    show_table(in_order(found[:limit]), Page(standard_output(as_table=True)))
    if len(found) > limit:
        click.echo(f"and more: --limit {limit * 10} shows them")
