"""``tachograph deliveries``: what each sink was told of which incident, and what was given up; tries that again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError
from tachograph_collector.cli.own_database import own_database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tachograph_collector.store.database import Database
    from tachograph_collector.store.outbox import Listed

MAX_SHOWN = 200
_HEADINGS: Final = ("incident", "state", "told", "tries", "next try (UTC)", "sink")

_EPILOG = f"""\b
Examples:
  tachograph deliveries
  tachograph deliveries --dead
  tachograph deliveries --retry 5f0c2a77 --sink oncall
  tachograph deliveries --retry all

The database is the collector's own: give the same --database-url or --config, or the same environment.

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.option("--dead", is_flag=True, help="Only what was given up.")
@click.option("--sink", metavar="NAME", help="Only of that sink.")
@click.option(
    "--retry",
    metavar="ID",
    help="Try what was given up, or waits, of that incident now (the beginning of its id will do); all: of every one.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.option("--database-url", metavar="URL", help="The collector's database, as in 'tachograph collector'.")
@click.option("--config", metavar="FILE", help="The collector's file with settings.")
def deliveries(
    dead: bool, sink: str | None, retry: str | None, as_json: bool, database_url: str | None, config: str | None
) -> int:
    """List what sinks were told of incidents, what they are still to be told, and what was given up.

    Each has one line for each sink and incident, the newest 200.
    """
    with own_database("tachograph deliveries", database_url, config) as database:
        if retry is not None:
            return _retry(database, retry, sink)
        from tachograph_collector.store.outbox import DEAD, read_deliveries

        with database.read() as connection:
            found = read_deliveries(connection, MAX_SHOWN, states=(DEAD,) if dead else None, sink=sink)
    if as_json:
        import msgspec

        for each in found:
            click.echo(msgspec.json.encode(_object(each)).decode())
    elif not found:
        told = "nothing was given up" if dead else "no sink was to be told of an incident yet"
        click.echo(f"{told}, in {database}", err=True)
    else:
        _show(found)
    return 0


def _retry(database: Database, which: str, sink: str | None) -> int:
    from tachograph_collector.store.outbox import DEAD, WAITING, read_deliveries
    from tachograph_collector.store.outbox import retry as try_again

    states, prefix = ((DEAD,), None) if which == "all" else ((DEAD, WAITING), which)
    with database.write() as connection:
        found = read_deliveries(connection, 10_000, states=states, sink=sink, id_prefix=prefix)
        if which != "all" and len({each.delivery.key.incident_id for each in found}) > 1:
            raise BadInputError(f"several incidents begin with {which!r}; give more of its id")
        num = try_again(connection, [each.delivery.key for each in found], database.now_us(connection))
    if not num and which != "all":
        raise BadInputError(
            f"nothing of incident {which!r} was given up or waits; 'tachograph deliveries' lists what there is"
        )
    click.echo(f"{num} {'is' if num == 1 else 'are'} tried again at once, where a collector with that sink runs")
    return 0


def _object(each: Listed) -> dict[str, Any]:
    delivery = each.delivery

    def at(us: int | None) -> float | None:
        return None if us is None else us / 1e6

    return {
        "incident_id": delivery.key.incident_id,
        "sink": delivery.key.sink,
        "state": delivery.state,
        "run": each.run,
        "detector": each.detector,
        "severity": each.severity,
        "summary": each.summary,
        "told": delivery.told,
        "told_at": at(delivery.told_at_us),
        "remote_id": delivery.remote_id,
        "num_tries": delivery.num_tries,
        "since": at(delivery.since_us),
        "next_try_at": at(delivery.next_try_us),
        "error": delivery.error,
    }


def _show(found: list[Listed]) -> None:
    """Each in a line of short columns, and below it what happened and what went wrong, as long as they are."""
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.text import visible

    console = standard_output()
    rows = [_short(each) for each in found]
    widths = [max(map(cell_len, column)) for column in zip(_HEADINGS, *rows, strict=True)]

    def line(cells: Sequence[str]) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        for width in widths[:-1]:
            table.add_column(width=width, no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row(*(Text(cell) for cell in cells))
        return table

    console.print(line(_HEADINGS))
    for each, row in zip(found, rows, strict=True):
        console.print(line(row))
        below = f"{each.severity} {visible(each.run, 60)}: {visible(each.summary, 80)}"
        why = visible(each.delivery.error or "", 120)
        for text in (below, why) if why else (below,):
            console.print(Padding(Text(text), (0, 0, 0, 4), expand=False))


def _short(each: Listed) -> tuple[str, ...]:
    from tachograph_collector.report.text import instant, visible

    delivery = each.delivery
    due_us = delivery.next_try_us if delivery.state == "waiting" else None
    when = "-" if due_us is None else "now" if due_us <= time.time() * 1e6 else instant(due_us, with_seconds=True)
    told, sink = visible(delivery.told or "-"), visible(delivery.key.sink)
    return delivery.key.incident_id[:12], delivery.state, told, str(delivery.num_tries), when, sink
