"""``tachograph nodes``: which nodes have most held against them over runs, or one node's record."""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP
from tachograph_collector.cli.parsing import Days, Instant, NumRuns, Zone, unix_seconds
from tachograph_collector.cli.remote import HELP, asking, remote_options

if TYPE_CHECKING:
    from tachograph_collector.client.node_records import NodeDetail, NodeRecord

SURES: Final = ("sure", "suspect", "not sure", "unknown", "no failure")
MAX_MARKS: Final = 20

_EPILOG = f"""\b
Examples:
  tachograph nodes
  tachograph nodes --sure sure --sure suspect
  tachograph nodes node-05
  tachograph nodes --since 2026-03-01 --json | jq '.nodes[0]'

{HELP}

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("node", metavar="[NODE]", required=False)
@click.option("--tz", "zone", type=Zone(), help="Zone of --since and --until. Without it: UTC.")
@click.option("--since", type=Instant(), help="What happened from here on. Without it: 90 days ago.")
@click.option("--until", type=Instant(), help="What happened before this. Without it: now.")
@click.option(
    "--origin",
    type=click.Choice(("live", "replay", "rehearsal")),
    multiple=True,
    help="Runs of this origin; may be repeated. Without it: live.",
)
@click.option("--sure", type=click.Choice(SURES), multiple=True, help="Only nodes of which it is so sure.")
@click.option("--half-life", type=Days(), help="After so many days a mark counts half. Without it: 7.")
@click.option("--limit", type=NumRuns(), default=30, help="At most this many, the most suspect first. Without it: 30.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@remote_options
def nodes(
    node: str | None,
    zone: tzinfo | None,
    since: datetime | float | None,
    until: datetime | float | None,
    origin: tuple[str, ...],
    sure: tuple[str, ...],
    half_life: float | None,
    limit: int,
    as_json: bool,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> None:
    """Rank nodes by what is held against them over runs.

    Counted are failures that a node was the first to have, Xids, and the times that it was named as a straggler or as
    suspect of corruption; what is long ago counts less. Whether a node fails oftener than the others, or luck may be
    all, is said beside it. With NODE, its record.
    """
    from_s, to_s = unix_seconds(since, zone), unix_seconds(until, zone)
    chosen = list(origin) or None
    with asking(url, token_file, ca_file) as client:
        if node is not None:
            detail = client.node(node, since=from_s, until=to_s, origin=chosen, half_life_days=half_life)
            lines = []
        else:
            lines = list(
                client.nodes(
                    how_sure=list(sure) or None,
                    since=from_s,
                    until=to_s,
                    origin=chosen,
                    half_life_days=half_life,
                    limit=limit + 1,
                )
            )
    if as_json:
        import msgspec

        told = msgspec.json.encode({"nodes": lines[:limit]} if node is None else detail)
        sys.stdout.buffer.write(told + b"\n")
    elif node is not None:
        _record(detail)
    elif not lines:
        click.echo(f"{client.url} knows no node of such runs in this time; agents tell of nodes, and live runs count")
    else:
        _table(lines[:limit])
        if len(lines) > limit:
            click.echo(f"and more: --limit {limit * 10} shows them")


def _table(lines: list[NodeRecord]) -> None:
    from rich.table import Table

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.terminal import Page
    from tachograph_collector.report.text import instant, visible

    page = Page(standard_output(as_table=True))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("node", overflow="fold")
    for title in ("score", "failures", "Xids", "straggler"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("last (UTC)", no_wrap=True)
    table.add_column("how sure", overflow="fold")
    for line in lines:
        cells = (
            visible(line.node or "(no name)", 200),
            f"{line.score:.2f}",
            str(line.failures),
            str(line.xids + line.application_xids),
            str(line.straggler + line.episodes),
            "-" if line.last_at is None else instant(round(line.last_at * 1e6)),
            line.how_sure if line.failures == 0 else f"{line.how_sure}: {visible(line.sentence, 300)}",
        )
        table.add_row(*(page.text(cell) for cell in cells))
    page.show(table)


def _record(one: NodeDetail) -> None:
    from rich.table import Table

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.terminal import Page
    from tachograph_collector.report.text import duration, visible

    page = Page(standard_output(as_table=True))
    page.line(f"{visible(one.node or '(no name)', 200)}: score {one.score:.2f}, {one.rank} of {one.num_nodes}", "bold")
    page.line(f"{one.how_sure}: {visible(one.sentence, 300)}")
    if one.exposure_s is not None:
        page.line(f"in runs for {duration(round(one.exposure_s * 1e6))}")
    for title, rows in (("runs", _stays(one)), ("held against it", _marks(one))):
        if not rows:
            continue
        page.heading(title)
        table = Table(box=None, padding=(0, 2, 0, 2), show_edge=False, show_header=False)
        for row in rows:
            table.add_row(*(page.text(cell) for cell in row))
        page.show(table)
    if one.num_marks > MAX_MARKS:
        page.line(f"and {one.num_marks - MAX_MARKS} more: --json has up to 1,000")


def _stays(one: NodeDetail) -> list[tuple[str, ...]]:
    from tachograph_collector.report.text import instant, visible

    return [
        (
            visible(stay.run or "(no name)", 200),
            f"{instant(round(stay.first_heard_at * 1e6))} to {instant(round(stay.last_heard_at * 1e6))}",
            stay.state,
        )
        for stay in one.stays
    ]


def _marks(one: NodeDetail) -> list[tuple[str, ...]]:
    from tachograph_collector.report.text import instant, visible

    return [
        (instant(round(mark.at * 1e6)), mark.kind.replace("_", " "), visible(mark.run, 80), visible(mark.detail, 200))
        for mark in one.marks[:MAX_MARKS]
    ]
