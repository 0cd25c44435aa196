"""``tachograph diff``: two runs side by side."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

import click

from tachograph_collector.cli import detecting
from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, extra_missing
from tachograph_collector.cli.parsing import Price, Year, Zone

if TYPE_CHECKING:
    from tachograph_collector.report.model import RunReport

_EPILOG = f"""\b
Examples:
  tachograph diff before.jsonl after.jsonl
  tachograph diff --run-a warm --run-b cold logs/a.jsonl logs/b.jsonl

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("log_a", metavar="A")
@click.argument("log_b", metavar="B")
@click.option("--format", "format_name", metavar="NAME", help="Read both as this format.")
@click.option("--pattern", metavar="FILE", help="Read both as this pattern file says (TOML).")
@click.option("--tz", "zone", type=Zone(), help="Zone of times that name none, such as Europe/Berlin. Without it: UTC.")
@click.option("--year", type=Year(), help="Year of dates that name none.")
@click.option("--run-a", metavar="NAME", help="The run of A, where that log holds several.")
@click.option("--run-b", metavar="NAME", help="The run of B, where that log holds several.")
@click.option("--price", type=Price(), help="Price of one GPU for one hour; goes before the one in the logs.")
@click.option(
    "--detect/--no-detect",
    default=None,
    help="Count the incidents of both. They are counted where what detectors need is installed.",
)
def diff(
    log_a: str,
    log_b: str,
    format_name: str | None,
    pattern: str | None,
    zone: tzinfo | None,
    year: int | None,
    run_a: str | None,
    run_b: str | None,
    price: float | None,
    detect: bool | None,
) -> None:
    """Show two runs side by side.

    A and B are logs as 'tachograph replay' takes them: files or directories, event logs or trainers' own logs. Both may
    be the same log, if it holds several runs.
    """
    if detect and not detecting.is_available():
        raise extra_missing("--detect")
    from tachograph_collector.cli import booking
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.diff import render_diff

    options = booking.Options(
        format=format_name,
        pattern=pattern,
        zone=zone,
        year=year,
        price=price,
        with_incidents=detecting.is_available() if detect is None else detect,
    )
    if log_a == log_b == "-":
        raise BadInputError("A and B are both standard input; name a file for one of them")
    one = _chosen(booking.book([log_a], options), log_a, "--run-a", run_a)
    other = _chosen(booking.book([log_b], options), log_b, "--run-b", run_b)
    render_diff(one, other, standard_output())


def _chosen(reports: list[RunReport], log: str, option: str, name: str | None) -> RunReport:
    """The one run that is meant; raises ``BadInputError`` with the names if it can't be told."""
    names = [report.books.run for report in reports]
    if name is None:
        if len(reports) > 1:
            raise BadInputError(f"{log}: holds {len(names)} runs; choose one of {', '.join(names)} with {option}")
        return reports[0]
    if name not in names:
        raise BadInputError(f"{log}: holds no run {name!r}; it holds {', '.join(names)}")
    return reports[names.index(name)]
