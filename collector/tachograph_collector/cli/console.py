"""Standard output as the reports write to it."""

from __future__ import annotations

from rich.console import Console

from tachograph_collector.cli.errors import ReaderGoneError


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let our own edge name the exit code; rich would exit with 1, which is a gate's."""
        raise ReaderGoneError


def standard_output() -> Console:
    """A console on standard output; colours and width are what the terminal there can do."""
    return _Console()
