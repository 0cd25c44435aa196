"""Records as pandas frames: the types of the columns are those of the records, also of a frame without rows."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from tachograph_collector.client.records import TIME
from tachograph_collector.report.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

_PLAIN: Final = {int: "Int64", float: "float64", str: "string", bool: "boolean"}


def frame_of(kind: type[Struct], rows: Sequence[Struct]) -> pd.DataFrame:
    """One row a record. Objects and lists stay what they are, in a column of objects."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("a data frame", error.name) from error
    columns = {}
    for field in msgspec.structs.fields(kind):
        values = [getattr(row, field.name) for row in rows]
        columns[field.encode_name] = _column(field.type, values, pd)
    return pd.DataFrame(columns)


def _column(told: Any, values: Sequence[Any], pd: Any) -> Any:
    kind, is_time = _kind(told)
    if is_time:
        whole = [None if value is None else round(value * 1e6) for value in values]
        return pd.to_datetime(pd.Series(whole, dtype="Int64"), unit="us", utc=True).astype("datetime64[us, UTC]")
    return pd.Series(list(values), dtype=_PLAIN.get(kind, "object"))


def _kind(told: Any) -> tuple[Any, bool]:
    """The type without None, and whether it is an instant."""
    if typing.get_origin(told) in {types.UnionType, typing.Union}:
        (told,) = [each for each in typing.get_args(told) if each is not type(None)]
    if typing.get_origin(told) is typing.Annotated:
        base, *extra = typing.get_args(told)
        return base, any((getattr(each, "extra", None) or {}).get("is") == TIME for each in extra)
    return told, False
