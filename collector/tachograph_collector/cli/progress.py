"""A progress bar on standard error, for a person who waits for a large log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tachograph_agent.trainers.reading import Reading

LARGE_BYTES: Final = 50_000_000


@contextmanager
def progress_bar(
    reading: Reading, *, from_bytes: int = LARGE_BYTES, doing: str = "reading"
) -> Iterator[Callable[[], None]]:
    """A function to call now and then; it shows how much is read if the log is large and a terminal is there."""
    if reading.size_bytes < from_bytes or not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(doing, total=reading.size_bytes)
        yield lambda: progress.update(task, completed=reading.bytes_read)


def _nothing() -> None:
    """Show nothing: nobody watches, or there is nothing to wait for."""
