"""Tables as JSON, CSV, Parquet or Arrow: one set of columns, in whichever form the request takes.

In JSON an instant is Unix seconds and a duration seconds, as in ``replay --json``. CSV writes instants as ISO 8601,
Parquet and Arrow as UTC timestamps with microseconds. Unknown is ``null``, and an empty cell in CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from fastapi import Depends, Query
from numpy.typing import NDArray
from starlette.requests import Request

from tachograph_collector.report.tables import cell
from tachograph_collector.report.text import iso, seconds_or_none
from tachograph_collector.service.problems import Problem, shown

Format = Literal["json", "csv", "parquet", "arrow"]
MEDIA_TYPES: Final[dict[Format, str]] = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
Kind = Literal["time", "seconds", "int", "float", "text", "bool", "json"]
Values = Sequence[Any] | NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column. ``time`` and ``seconds`` are given in microseconds; ``json`` is any JSON value."""

    name: str
    kind: Kind
    values: Values
    only: Literal["json", "flat"] | None = None
    """Where it is told: ``flat`` is CSV, Parquet and Arrow, which have no objects in their cells."""


Table = Sequence[Column]


# -- which ----------------------------------------------------------------------------------------------------------


def _asked_format(
    request: Request,
    format: Annotated[  # noqa: A002 - the name of the parameter everywhere
        Format | None, Query(description="The form of the answer; goes before the Accept header.")
    ] = None,
) -> Format:
    """The form of the answer: ``?format=``, else the best of Accept, JSON at a tie. ``Problem`` 406 for none."""
    if format is not None:
        return format
    accept = request.headers.get("accept", "").strip()
    if not accept:
        return "json"
    wanted = _accepted(accept)
    found: Format = max(MEDIA_TYPES, key=lambda name: _quality(MEDIA_TYPES[name], wanted))  # the first at a tie
    if _quality(MEDIA_TYPES[found], wanted) <= 0:
        raise Problem(
            406,
            "Not acceptable",
            f"Accept: {shown(accept)} leaves none of {', '.join(MEDIA_TYPES.values())}; accept one of them, or ask "
            f"with ?format={'|'.join(MEDIA_TYPES)}",
        )
    return found


AskedFormat = Annotated[Format, Depends(_asked_format)]


def _accepted(accept: str) -> dict[str, float]:
    wanted = {}
    for part in accept[:4096].split(","):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    quality = min(1.0, max(0.0, float(value)))
                except ValueError:
                    quality = 1.0
        if name:
            wanted[name] = quality
    return wanted


def _quality(media_type: str, wanted: dict[str, float]) -> float:
    for pattern in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        if pattern in wanted:
            return wanted[pattern]
    return 0.0


# -- how ------------------------------------------------------------------------------------------------------------


def json_rows(table: Table) -> list[Any]:
    """The rows as records that msgspec writes as objects; numbers that are none become ``null``."""
    columns = [column for column in table if column.only != "flat"]
    record = _record(tuple(column.name for column in columns))
    return list(map(record, *(_json_values(column) for column in columns)))


@lru_cache(maxsize=64)
def _record(names: tuple[str, ...]) -> type:
    return msgspec.defstruct("Row", list(names), gc=False)


def _json_values(column: Column) -> Sequence[Any]:
    values = column.values
    if column.kind in {"time", "seconds"}:
        if isinstance(values, np.ndarray):
            return list((values / 1e6).tolist())
        return [seconds_or_none(value) for value in values]
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    return [well(value) for value in values] if column.kind == "text" else values


def well(value: str | None) -> str | None:
    """The text with lone surrogates, which UTF-8 can't write, as escapes."""
    return None if value is None else value.encode("utf-8", "backslashreplace").decode("utf-8")


def flat_bytes(table: Table, form: Format) -> bytes:
    """The rows as CSV, Parquet or Arrow."""
    columns = [column for column in table if column.only != "json"]
    return _csv(columns) if form == "csv" else _arrow(columns, form)


def _csv(table: Table) -> bytes:
    """CSV as RFC 4180 has it; text that a spreadsheet would run as a formula gets an apostrophe before it."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([column.name for column in table])
    writer.writerows(zip(*(_csv_values(column) for column in table), strict=True))
    return file.getvalue().encode("utf-8", "backslashreplace")


def _csv_values(column: Column) -> Sequence[Any]:
    match column.kind:
        case "time" if isinstance(column.values, np.ndarray):
            written = np.datetime_as_string(column.values.astype("datetime64[us]"), "us")
            return [f"{each.removesuffix('.000000')}Z" for each in written.tolist()]
        case "time":
            return [None if value is None else iso(value) for value in column.values]
        case "text":
            return [None if value is None else cell(value) for value in column.values]
        case "bool":
            return [None if value is None else "true" if value else "false" for value in column.values]
        case "json":
            return [None if value is None else cell(_json_text(value)) for value in column.values]
        case "float":
            return [None if value is None or value != value else value for value in _plain(column.values)]
        case "seconds":
            return _json_values(column)
        case _:
            return _plain(column.values)


def _plain(values: Values) -> Sequence[Any]:
    return list(values.tolist()) if isinstance(values, np.ndarray) else values


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _arrow(table: Table, form: Format) -> bytes:
    import pyarrow as pa  # takes 0.2 s to load; JSON has no need of it
    import pyarrow.parquet as pq

    kinds: dict[Kind, Any] = {
        "time": pa.timestamp("us", tz="UTC"),
        "seconds": pa.float64(),
        "int": pa.int64(),
        "float": pa.float64(),
        "text": pa.string(),
        "bool": pa.bool_(),
        "json": pa.string(),
    }
    whole = pa.table({column.name: pa.array(_arrow_values(column), kinds[column.kind]) for column in table})
    sink = pa.BufferOutputStream()
    if form == "parquet":
        pq.write_table(whole, sink)
    else:
        with pa.ipc.new_stream(sink, whole.schema) as writer:
            writer.write_table(whole)
    return bytes(sink.getvalue())


def _arrow_values(column: Column) -> Values:
    match column.kind:
        case "seconds":
            return _json_values(column)
        case "text":
            return [well(value) for value in column.values]
        case "json":
            return [None if value is None else _json_text(value) for value in column.values]
        case "float":
            return [None if value is None or value != value else value for value in _plain(column.values)]
        case _:
            return column.values
