"""``tachograph ls``: the runs of a collector, one a line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP
from tachograph_collector.cli.parsing import NumRuns
from tachograph_collector.cli.remote import HELP, asking, remote_options

if TYPE_CHECKING:
    from tachograph_collector.client.records import RunLine

STATUSES: Final = ("running", "completed", "failed", "cancelled", "abandoned")

_EPILOG = f"""\b
Examples:
  tachograph ls
  tachograph ls --status running 'llama-*'
  tachograph ls --json | jq '.runs[] | {{run, goodput}}'

{HELP}

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("pattern", metavar="[PATTERN]", required=False)
@click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
@click.option("--origin", type=click.Choice(("live", "replay", "rehearsal")), help="Only runs of this origin.")
@click.option("--limit", type=NumRuns(), default=50, help="At most this many, the latest start first. Without it: 50.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@remote_options
def ls(
    pattern: str | None,
    status: str | None,
    origin: str | None,
    limit: int,
    as_json: bool,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> None:
    """List the runs of a collector.

    PATTERN is a name, in which * and ? stand for any characters and for any one. Each line says the run's status, its
    goodput, the step that it has reached, how much work no checkpoint covers yet, how many of its incidents are open,
    and when it was last heard of.
    """
    with asking(url, token_file, ca_file) as client:
        runs = client.runs(pattern, status=status, origin=origin, limit=limit + 1)
    more, lines = len(runs) > limit, runs[:limit]
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode({"runs": lines}) + b"\n")
        return
    if not lines:
        click.echo(_nothing(client.url, pattern, status, origin))
        return
    _table(lines)
    if more:
        click.echo(f"and more: --limit {limit * 10} shows them")


def _nothing(url: str, pattern: str | None, status: str | None, origin: str | None) -> str:
    from tachograph_collector.report.text import visible

    if pattern is None and status is None and origin is None:
        return f"{url} has no run yet; 'tachograph replay LOG --into {url}' loads a recorded one"
    asked = [f"named {visible(repr(pattern))}"] * (pattern is not None)
    asked += [f"of status {status}"] * (status is not None) + [f"of origin {origin}"] * (origin is not None)
    return f"{url} has no run {', '.join(asked)}"


def _table(lines: list[RunLine]) -> None:
    from rich.table import Table

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.terminal import Page
    from tachograph_collector.report.text import duration, instant, number, percent, visible

    page = Page(standard_output(as_table=True))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("run", overflow="fold")
    table.add_column("status", no_wrap=True)
    for title in ("goodput", "step", "at risk", "incidents"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("last heard (UTC)", no_wrap=True)
    for line in lines:
        marked = line.status if line.origin in {None, "live"} else f"{line.status} ({line.origin})"
        heard = line.end if line.last_heard is None else line.last_heard
        cells = (
            visible(line.run or "(no name)", 200),
            marked,
            percent(line.goodput),
            number(line.steps),
            duration(None if line.at_risk_s is None else round(line.at_risk_s * 1e6)),
            number(line.open_incidents),
            instant(round(heard * 1e6)),
        )
        table.add_row(*(page.text(cell) for cell in cells))
    page.show(table)
