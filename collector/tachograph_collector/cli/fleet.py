"""``tachograph fleet``: what all of a collector's runs came to within a window, in GPU-hours and money."""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP
from tachograph_collector.cli.parsing import Instant, Price, Zone, unix_seconds
from tachograph_collector.cli.remote import HELP, asking, remote_options

if TYPE_CHECKING:
    from rich.table import Table

    from tachograph_collector.client.records import Fleet
    from tachograph_collector.report.terminal import Page

MAX_CAUSES: Final = 12
_ACCOUNTS: Final = ("kept", "checkpoint", "lost", "restart", "idle", "held")

_EPILOG = f"""\b
Examples:
  tachograph fleet --since 2026-03-01 --until 2026-04-01 --price 2.5
  tachograph fleet --tz Europe/Berlin --since 2026-03-01 --until 2026-04-01 --name 'team-a/*'
  tachograph fleet --since 2026-03-01 --until 2026-04-01 --json | jq .gpu_hours

{HELP}

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.option("--tz", "zone", type=Zone(), help="Zone of --since and --until. Without it: UTC.")
@click.option("--since", type=Instant(), help="Time from here on. Without it: from the first run's start.")
@click.option("--until", type=Instant(), help="Time before this. Without it: up to now.")
@click.option("--name", metavar="PATTERN", help="Only runs of this name; * and ? stand for any characters, any one.")
@click.option(
    "--origin",
    type=click.Choice(("live", "replay", "rehearsal")),
    multiple=True,
    help="Runs of this origin; may be repeated. Without it: live.",
)
@click.option("--price", type=Price(), help="Price of one GPU for one hour, of runs that tell none.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@remote_options
def fleet(
    zone: tzinfo | None,
    since: datetime | float | None,
    until: datetime | float | None,
    name: str | None,
    origin: tuple[str, ...],
    price: float | None,
    as_json: bool,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> None:
    """Say what all runs of a collector came to, in GPU-hours and money.

    By account (kept, checkpoint, lost, restart, and idle: held and in no attempt) and by cause. Runs of which nobody
    knows the GPUs or the price are left out of those sums, counted and named.
    """
    from_s, to_s = unix_seconds(since, zone), unix_seconds(until, zone)
    with asking(url, token_file, ca_file) as client:
        told = client.fleet(from_s, to_s, name=name, origin=list(origin) or None, price=price)
        where = client.url
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        return
    if not told.runs:
        kinds = " or ".join(told.origins) or "live"
        hint = "" if origin else "; recorded runs count with --origin replay"
        click.echo(f"{where} has no run of origin {kinds} in that time{hint}")
        return
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.terminal import Page

    _write(told, Page(standard_output(as_table=True)))


def _write(told: Fleet, page: Page) -> None:
    from tachograph_collector.report.text import count, percent, visible

    held = told.gpu_hours.get("held", 0.0)
    window = f"{_instant(told.since, 'the first start')} to {_instant(told.until, 'now')}"
    page.line(f"{count(told.runs, 'run')}, {window} (UTC)", "bold")
    page.line(f"{held:,.1f} GPU-hours held, {percent(told.gpu_goodput)} of them kept")
    page.blank()
    has_money = told.runs_without_price < told.runs
    table = _table(("account", "GPU-hours", "share", *(("money",) if has_money else ())))
    for account in _ACCOUNTS:
        hours = told.gpu_hours.get(account, 0.0)
        cells = [account, f"{hours:,.1f}", percent(hours / held if held else None)]
        table.add_row(*map(page.text, cells + [f"{told.money.get(account, 0.0):,.2f}"] * has_money))
    page.show(table)
    dear = [each for each in told.causes if each.account != "kept" and each.gpu_hours]
    dear.sort(key=lambda each: -(each.gpu_hours or 0.0))
    if dear:
        page.blank()
        causes = _table(("why", "cause", "GPU-hours", *(("money",) if has_money else ())))
        for each in dear[:MAX_CAUSES]:
            why = each.account if not each.sub or each.sub == each.account else f"{each.account}/{each.sub}"
            cells = [visible(why, 40), visible(each.cause or "-", 60), f"{each.gpu_hours or 0.0:,.1f}"]
            causes.add_row(*map(page.text, cells + [f"{each.money or 0.0:,.2f}"] * has_money))
        page.show(causes)
        if len(dear) > MAX_CAUSES:
            page.line(f"and {count(len(dear) - MAX_CAUSES, 'more cause')}: --json has them all")
    _say_unknown(told, page)


def _say_unknown(told: Fleet, page: Page) -> None:
    """Which runs are in none of these sums, and what would bring them in."""
    from tachograph_collector.report.text import count, visible

    if told.runs_without_gpus:
        names = ", ".join(visible(each, 60) for each in told.unknown_runs[:5])
        page.blank()
        page.line(
            f"not counted: {count(told.runs_without_gpus, 'run')} of which nobody says how many GPUs ({names}); "
            "runs tell it with world_size, or the scheduler's hooks with allocation.start"
        )
    if told.runs_without_price and told.runs_without_price < told.runs:
        page.line(f"not in the money: {count(told.runs_without_price, 'run')} without a price; --price gives one")


def _table(titles: tuple[str, ...]) -> Table:
    from rich import table as of_rich

    table = of_rich.Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")
    for title in titles:
        is_number = title in {"GPU-hours", "share", "money"}
        table.add_column(title, justify="right" if is_number else "left", no_wrap=True)
    return table


def _instant(unix_s: float | None, else_: str) -> str:
    from tachograph_collector.report.text import instant

    return else_ if unix_s is None else instant(round(unix_s * 1e6))
