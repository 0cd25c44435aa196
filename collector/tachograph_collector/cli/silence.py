"""``tachograph silence``: of which incidents nobody is to be told, and until when."""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError
from tachograph_collector.cli.incident import an_id, author_option, author_or_user
from tachograph_collector.cli.parsing import Instant, NumRuns, Zone, unix_seconds
from tachograph_collector.cli.remote import HELP, asking, remote_options

_EPILOG = f"""\b
Examples:
  tachograph silence add --node node-0421 --for 2h --why 'its fans are being replaced'
  tachograph silence ls
  tachograph silence end 8c2b1a09

Incidents that are silenced are found and recorded as any other. To add and to end one takes a token for operate.

{HELP}

{EXIT_CODES_HELP}
"""


@click.group(epilog=_EPILOG)
def silence() -> None:
    """Say of which incidents nobody is to be told for a while, list that, and take it back."""


@silence.command(
    epilog="\b\nExamples:\n  tachograph silence add --node node-0421 --for 2h --why 'its fans are being replaced'\n"
    "  tachograph silence add --run 'llama-*' --detector straggler --until 2026-03-02T06:00Z --why 'a new fabric'"
)
@click.option("--run", "run_pattern", metavar="PATTERN", help="Runs of this name, as a shell pattern; '*' is all.")
@click.option("--detector", metavar="NAME", help="What this detector flags.")
@click.option("--subject", metavar="PATTERN", help="What is flagged, such as 'rank 7', as a shell pattern.")
@click.option("--node", metavar="NAME", help="What is about this node.")
@click.option("--for", "lasts", metavar="TIME", help="How long, such as 30min, 2h or 7d.")
@click.option("--tz", "zone", type=Zone(), help="Zone of --from and --until. Without it: UTC.")
@click.option("--from", "since", type=Instant(), help="When it begins. Without it: now.")
@click.option("--until", type=Instant(), help="When it ends; instead of --for.")
@click.option("--why", metavar="TEXT", required=True, help="What for; whoever wonders that nobody was told reads it.")
@author_option
@remote_options
def add(
    run_pattern: str | None,
    detector: str | None,
    subject: str | None,
    node: str | None,
    lasts: str | None,
    zone: tzinfo | None,
    since: datetime | float | None,
    until: datetime | float | None,
    why: str,
    author: str | None,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> None:
    """Let nobody be told of incidents that fit all that is given, for a while. Prints the silence's ID."""
    if run_pattern is detector is subject is node is None:
        raise BadInputError("name a run, detector, subject or node; --run '*' silences everything")
    if (lasts is None) == (until is None):
        raise BadInputError("a silence needs an end: give one of --for 2h and --until TIME")
    with asking(url, token_file, ca_file) as client:
        made = client.silence(
            run=run_pattern,
            detector=detector,
            subject=subject,
            node=node,
            since=unix_seconds(since, zone),
            until=unix_seconds(until, zone),
            lasts=lasts,
            why=why,
            author=author_or_user(author),
        )
    from tachograph_collector.cli.incident_words import when

    click.echo(made.silence_id)
    click.echo(f"silent until {when(made.until)} UTC; 'tachograph silence end {made.silence_id[:8]}' ends it", err=True)


@silence.command(epilog="\b\nExample:\n  tachograph silence ls --all")
@click.option("--all", "with_old", is_flag=True, help="Also those that hold no longer.")
@click.option("--limit", type=NumRuns(), default=50, help="At most this many, the newest first. Without it: 50.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@remote_options
def ls(with_old: bool, limit: int, as_json: bool, url: str | None, token_file: str | None, ca_file: str | None) -> None:
    """List the silences that hold, or are still to begin."""
    with asking(url, token_file, ca_file) as client:
        found = client.silences(is_over=None if with_old else False, limit=limit + 1)
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode({"silences": found[:limit]}) + b"\n")
        return
    if not found:
        click.echo(f"{client.url} has no silence" + ("" if with_old else " that holds"))
        return
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.cli.incident_words import show_silences
    from tachograph_collector.report.terminal import Page

    show_silences(found[:limit], Page(standard_output(as_table=True)))
    if len(found) > limit:
        click.echo(f"and more: --limit {limit * 10} shows them")


@silence.command(epilog="\b\nExample:\n  tachograph silence end 8c2b1a09")
@click.argument("silence_id", metavar="ID", callback=an_id("silence", "tachograph silence ls"))
@remote_options
def end(silence_id: str, url: str | None, token_file: str | None, ca_file: str | None) -> None:
    """Take a silence back before its time. The beginning of its ID is enough."""
    with asking(url, token_file, ca_file) as client:
        ended = client.end_silence(silence_id)
    from tachograph_collector.cli.incident_words import about
    from tachograph_collector.report.text import visible

    click.echo(f"{visible(ended.silence_id[:8])}  {about(ended)}: {visible(ended.state, 20)}")
