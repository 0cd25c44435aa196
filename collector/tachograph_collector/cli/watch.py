"""``tachograph watch``: one run's report, live in the terminal; a plain line a minute where there is none."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP
from tachograph_collector.cli.parsing import Period
from tachograph_collector.cli.remote import HELP, asking, remote_options

if TYPE_CHECKING:
    from tachograph_collector.client import Run

DEFAULT_PERIOD_S: Final = 2.0

_EPILOG = f"""\b
Examples:
  tachograph watch llama-70b
  tachograph watch llama-70b >> watched.log

{HELP}

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("run_name", metavar="RUN")
@click.option(
    "--every", "period_s", type=Period(), default=DEFAULT_PERIOD_S, help="Look this often, in seconds. Without it: 2."
)
@remote_options
def watch(run_name: str, period_s: float, url: str | None, token_file: str | None, ca_file: str | None) -> None:
    """Watch a run of a collector until it ends.

    The report stands in the terminal and follows the books, with the incidents that are open below it. Where standard
    output is no terminal, a line is written for each minute, and one for each incident that opens, changes or is over.
    It ends when the run does; Ctrl-C ends it before.
    """
    with asking(url, token_file, ca_file) as client:
        follow(client.run(run_name), period_s)


def follow(run: Run, period_s: float) -> None:
    """Look at the run until it is over, on whatever standard output is."""
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.cli.watching import LineView, LiveView, View, watch_until_over

    console = standard_output()
    with LiveView(console) if console.is_terminal else LineView(click.echo) as view:
        shown: View = view
        watch_until_over(run, shown, lambda: time.sleep(period_s))
    sys.stdout.flush()
