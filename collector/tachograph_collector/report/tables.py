"""The minutes as a table in a file: CSV with the base install, Parquet with the extra ``collector``.

A file appears whole or not at all: it is written beside its target and then renamed.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tachograph_collector.ledger.books import Minute
from tachograph_collector.report.errors import MissingExtraError, TableError
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.text import SECOND, iso, seconds

COLUMNS: Final = (
    "minute",
    "unix_seconds",
    "kept_s",
    "checkpoint_s",
    "lost_s",
    "restart_s",
    "label",
    "revision",
    "incomplete",
    "run",
)
SUFFIXES: Final = (".csv", ".parquet")
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def write_minutes(runs: RunReport | Sequence[RunReport], path: Path) -> int:
    """Write one row per minute and run to ``path``; the number of rows.

    ``.csv`` and ``.parquet`` are told by the name. Raises ``TableError`` for any other name or where the file
    can't be written, ``MissingExtraError`` where pyarrow is missing.
    """
    writers: dict[str, Callable[[Sequence[RunReport], Path], int]] = {".csv": _csv, ".parquet": _parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise TableError(f"{str(path)!r}: minutes are written as CSV or Parquet; name the file .csv or .parquet")
    reports = [runs] if isinstance(runs, RunReport) else runs
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise TableError(f"{str(path)!r} can't be written: {error.strerror or error}") from error
    beside = Path(name)
    try:
        num_rows = writer(reports, beside)
        beside.chmod(0o666 & ~_umask())
        beside.replace(path)
    except OSError as error:
        raise TableError(f"{str(path)!r} can't be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return num_rows


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _rows(runs: Sequence[RunReport]) -> Iterator[tuple[str, Minute]]:
    for run in runs:
        for minute in run.details.minutes:
            yield run.books.run, minute


def _csv(runs: Sequence[RunReport], path: Path) -> int:
    """CSV as RFC 4180 has it, UTF-8; a name that a spreadsheet would run as a formula gets an apostrophe before it."""
    num_rows = 0
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for run, minute in _rows(runs):
            writer.writerow(
                (
                    iso(minute.start_us),
                    minute.start_us // SECOND,
                    seconds(minute.kept_us),
                    seconds(minute.checkpoint_us),
                    seconds(minute.lost_us),
                    seconds(minute.restart_us),
                    minute.label,
                    minute.revision,
                    "true" if minute.incomplete else "false",
                    cell(run),
                )
            )
            num_rows += 1
    return num_rows


def cell(run: str) -> str:
    """The name as a cell that neither a spreadsheet nor a terminal obeys."""
    shown = run.translate(_CONTROLS)
    return f"'{shown}" if run.startswith(_FORMULA) else shown


def _parquet(runs: Sequence[RunReport], path: Path) -> int:
    try:
        import pyarrow as pa  # the base install has no pyarrow
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Parquet (CSV does not)", error.name) from error
    rows = list(_rows(runs))
    minutes = [minute for _, minute in rows]
    columns: dict[str, Any] = {
        "minute": pa.array([minute.start_us for minute in minutes], pa.timestamp("us", tz="UTC")),
        "unix_seconds": pa.array([minute.start_us // SECOND for minute in minutes], pa.int64()),
        "kept_s": pa.array([seconds(minute.kept_us) for minute in minutes], pa.float64()),
        "checkpoint_s": pa.array([seconds(minute.checkpoint_us) for minute in minutes], pa.float64()),
        "lost_s": pa.array([seconds(minute.lost_us) for minute in minutes], pa.float64()),
        "restart_s": pa.array([seconds(minute.restart_us) for minute in minutes], pa.float64()),
        "label": pa.array([minute.label for minute in minutes], pa.string()).dictionary_encode(),
        "revision": pa.array([minute.revision for minute in minutes], pa.int64()),
        "incomplete": pa.array([minute.incomplete for minute in minutes], pa.bool_()),
        "run": pa.array(
            [run.encode("utf-8", "backslashreplace").decode() for run, _ in rows], pa.string()
        ).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    return len(rows)
