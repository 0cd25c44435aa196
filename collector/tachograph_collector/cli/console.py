"""Standard output as the reports write to it."""

from __future__ import annotations

from rich.console import Console

from tachograph_collector.cli.errors import ReaderGoneError

_WIDE = 1000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let our own edge name the exit code; rich would exit with 1, which is a gate's."""
        raise ReaderGoneError


def standard_output(*, as_table: bool = False) -> Console:
    """A console on standard output; colours and width are what the terminal there can do.

    ``as_table``: where there is no terminal, lines are as long as they need to be, for whoever cuts them into columns.
    """
    console = _Console()
    if as_table and not console.is_terminal:
        console.width = _WIDE
    return console
