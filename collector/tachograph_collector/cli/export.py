"""``tachograph export``: a run's tables, or all its events, into a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from tachograph_collector.cli import output
from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, extra_missing
from tachograph_collector.cli.remote import HELP, asking, remote_options
from tachograph_collector.report.text import visible

if TYPE_CHECKING:
    from tachograph_collector.client import Run
    from tachograph_collector.client.client import Form

TABLES: Final = ("minutes", "attempts", "restarts", "checkpoints", "steps", "segments", "revisions")
EVENTS: Final = "events"
_FORMS: Final[dict[str, Form]] = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}
_LINES: Final = ".jsonl"

_EPILOG = f"""\b
Examples:
  tachograph export llama-70b --out llama-70b.jsonl
  tachograph replay llama-70b.jsonl
  tachograph export llama-70b --what checkpoints --out saves.parquet

{HELP}

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("run_name", metavar="RUN")
@click.option(
    "--out",
    "-o",
    metavar="FILE",
    required=True,
    help="Where to: FILE.csv, FILE.parquet, FILE.arrow or FILE.jsonl; '-' is JSON lines on standard output.",
)
@click.option(
    "--what",
    type=click.Choice((EVENTS, *TABLES)),
    help="What of the run. Without it: events into FILE.jsonl, minutes into any other.",
)
@remote_options
def export(
    run_name: str, out: str, what: str | None, url: str | None, token_file: str | None, ca_file: str | None
) -> None:
    """Write a run of a collector to a file.

    The events are the run's whole log: 'tachograph replay' of that file books the same, and 'tachograph replay --into'
    loads it into another collector. The tables are what the collector booked; steps are thinned out. The file appears
    whole or not at all.
    """
    suffix = _LINES if out == "-" else Path(out).suffix.lower()
    if suffix not in (*_FORMS, _LINES):
        raise BadInputError(f"--out {out}: the name must end in {', '.join(_FORMS)} or {_LINES}")
    chosen = what or (EVENTS if suffix == _LINES else "minutes")
    if chosen == EVENTS and suffix != _LINES:
        raise BadInputError(f"--what events --out {out}: events are JSON lines; name the file {_LINES}")
    if out != "-":
        output.check_writable("--out", out)
    with asking(url, token_file, ca_file) as client:
        run = client.run(run_name)
        if chosen == EVENTS and (pruned := run.place().pruned):
            click.echo(
                f"older events of it were pruned ({visible(pruned)}): the file tells less than the books do", err=True
            )
        if out == "-":
            _write_lines(run, chosen, sys.stdout.buffer)
            return
        with output.told_as(f"--out {out}"), output.written_whole(out) as path, path.open("wb") as file:
            if suffix == _LINES:
                _write_lines(run, chosen, file)
            else:
                _WRITERS[_FORMS[suffix]](run, chosen, file)


def _write_lines(run: Run, what: str, file: BinaryIO) -> None:
    if what == EVENTS:
        file.writelines(run.events())
        return
    import msgspec

    file.writelines(msgspec.json.encode(row) + b"\n" for row in getattr(run, what)())


def _write_csv(run: Run, what: str, file: BinaryIO) -> None:
    """Pages one behind the other, the names of the columns once."""
    file.writelines(
        page if index == 0 else page.partition(b"\n")[2] for index, page in enumerate(run.table(what, "csv"))
    )


def _write_arrow(run: Run, what: str, file: BinaryIO) -> None:
    """One stream: the first page as it is, or all of them as the batches of one."""
    pages = run.table(what, "arrow")
    first, second = next(pages), next(pages, None)
    if second is None:
        file.write(first)
        return
    pa = _pyarrow("--out FILE.arrow of more than one page")
    schema = pa.ipc.open_stream(first).schema
    with pa.ipc.new_stream(file, schema) as writer:
        for page in (first, second, *pages):
            writer.write_table(pa.ipc.open_stream(page).read_all())


def _write_parquet(run: Run, what: str, file: BinaryIO) -> None:
    """One file: the first page as it is, or all of them as its row groups."""
    pages = run.table(what, "parquet")
    first, second = next(pages), next(pages, None)
    if second is None:
        file.write(first)
        return
    pa = _pyarrow("--out FILE.parquet of more than one page")
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(first))
    with pq.ParquetWriter(file, table.schema) as writer:
        writer.write_table(table)
        for page in (second, *pages):
            writer.write_table(pq.read_table(pa.BufferReader(page)))


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ImportError as error:
        raise extra_missing(what) from error
    return pa


_WRITERS: Final[dict[Form, Callable[[Run, str, BinaryIO], None]]] = {
    "csv": _write_csv,
    "arrow": _write_arrow,
    "parquet": _write_parquet,
}
