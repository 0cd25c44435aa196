"""One column of many events as bytes, and back exactly: what was None, NaN, -0.0 or a giant number is so again.

A packed column is ``[code, parameter, data]``, where code is one of the letters below. Numbers are stored as the
differences between neighbours in the fewest bytes that hold them, and the bytes of one place together, since that is
what compresses. Most times and durations are told in whole microseconds, and are kept as such where that loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Packed = list[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CONSTANT: Final = "c"
INTEGERS: Final = "i"
MICROS: Final = "u"
FLOATS: Final = "d"
JSON: Final = "j"
SPARSE: Final = "s"
FAMILY: Final = "f"
LIST: Final = "l"

FEW: Final = 24
"""Fewer values than this are listed as they are: arranging them costs more than it saves."""

_MICRO: Final = 1e6
_EXACT: Final = 2.0**53
_WIDTHS: Final = tuple(
    (np.dtype(f"<i{size}"), -(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) for size in (1, 2, 4, 8)
)


def pack_integers(values: Sequence[Any]) -> Packed:
    """A column of whole numbers or None."""
    first = values[0]
    if values.count(first) == len(values):
        return _constant(first)
    if len(values) < FEW:
        return _listed(values)
    if None in values:
        return _sparse(values, pack_integers)
    try:
        array = np.array(values, dtype=np.int64)
    except OverflowError:
        return pack_json(values)
    return [INTEGERS, *_deltas(array)]


def pack_floats(values: Sequence[Any]) -> Packed:
    """A column of floats or None. Call it under ``np.errstate(all="ignore")``."""
    first = values[0]
    if first != 0.0 and values.count(first) == len(values):  # 0.0 and -0.0 are equal and are not the same
        return [CONSTANT, first, None]
    if len(values) < FEW:
        return [LIST, None, values]
    if None in values:
        return _sparse(values, pack_floats)
    array = np.array(values, dtype=np.float64)
    micros = np.rint(array * _MICRO)
    if np.abs(micros).max() < _EXACT:
        whole = micros.astype(np.int64)
        if np.array_equal((whole / _MICRO).view(np.int64), array.view(np.int64)):  # to the bit: -0.0 and 0.0 differ
            return [MICROS, *_deltas(whole)]
    return [FLOATS, None, _shuffled(array.astype("<f8", copy=False))]


def pack_json(values: Sequence[Any]) -> Packed:
    """A column of anything that JSON can tell, NaN and Infinity besides."""
    first = values[0]
    if (first is None or type(first) is str) and values.count(first) == len(values):
        return [CONSTANT, _textual(first), None] if _textual(first) is first else _as_json(values)
    if type(first) is int and set(map(type, values)) == {int} and values.count(first) == len(values):
        return _constant(first)
    return _as_json(values)


def pack_family(values: Sequence[Any]) -> Packed:
    """A column of dictionaries of floats or None; where all have the same names, one column a name."""
    if None in values:
        return pack_json(values) if values.count(None) == len(values) else _sparse(values, pack_family)
    names = list(values[0])
    try:
        columns = [[each[name] for each in values] for name in names]
    except KeyError:
        return _as_json(values)
    if any(len(each) != len(names) for each in values) or any(_textual(name) is not name for name in names):
        return _as_json(values)
    return [FAMILY, names, [pack_floats(column) for column in columns]]


def unpack(column: Packed, num: int) -> list[Any]:
    """The values of a column of ``num`` rows, as they were packed."""
    code, parameter, data = column
    values: list[Any]
    if code == CONSTANT:
        values = [parameter if data is None else json.loads(data)] * num
    elif code == LIST:
        values = list(data)
    elif code == INTEGERS:
        values = _undeltas(parameter, data, num).tolist()
    elif code == MICROS:
        values = (_undeltas(parameter, data, num) / _MICRO).tolist()
    elif code == FLOATS:
        values = _unshuffled(data, np.dtype("<f8"), num).tolist()
    elif code == SPARSE:
        there = _mask(parameter, num)
        found = iter(unpack(data, int(there.sum())))
        values = [next(found) if is_there else None for is_there in there.tolist()]
    elif code == FAMILY:
        rows = zip(*(unpack(each, num) for each in data), strict=True) if data else [()] * num
        values = [dict(zip(parameter, row, strict=True)) for row in rows]
    else:
        values = json.loads(data)
    return values


def as_floats(column: Packed | None, num: int, missing: float = np.nan) -> Floats:
    """A column of numbers as an array, ``missing`` where nothing was told."""
    if column is None:
        return np.full(num, missing)
    code, parameter, data = column
    if code == CONSTANT:
        return np.full(num, missing if parameter is None else float(parameter))
    if code == INTEGERS:
        return _undeltas(parameter, data, num).astype(np.float64)
    if code == MICROS:
        return _undeltas(parameter, data, num) / _MICRO
    if code == FLOATS:
        return _unshuffled(data, np.dtype("<f8"), num).astype(np.float64)
    if code == SPARSE:
        there = _mask(parameter, num)
        array = np.full(num, missing)
        array[there] = as_floats(data, int(there.sum()), missing)
        return array
    return np.array([missing if value is None else float(value) for value in unpack(column, num)], dtype=np.float64)


def as_integers(column: Packed | None, num: int, missing: int) -> Ints:
    """A column of whole numbers as an array, ``missing`` where nothing was told or 64 bits can't hold it."""
    if column is None:
        return np.full(num, missing, dtype=np.int64)
    code, parameter, data = column
    if code == CONSTANT:
        return np.full(num, missing if parameter is None else parameter, dtype=np.int64)
    if code == INTEGERS:
        return _undeltas(parameter, data, num)
    if code == SPARSE:
        there = _mask(parameter, num)
        array = np.full(num, missing, dtype=np.int64)
        array[there] = as_integers(data, int(there.sum()), missing)
        return array
    values = unpack(column, num)
    return np.array([each if each is not None and -(2**63) <= each < 2**63 else missing for each in values], np.int64)


def member(column: Packed | None, name: str) -> Packed | None:
    """One name's column out of a column of dictionaries, where they were packed by name; None if not."""
    if column is None or column[0] != FAMILY or name not in column[1]:
        return None
    found: Packed = column[2][column[1].index(name)]
    return found


def _constant(value: Any) -> Packed:
    if _is_held(value):
        return [CONSTANT, value, None]
    return [CONSTANT, None, json.dumps(value)]


def _listed(values: Sequence[Any]) -> Packed:
    return [LIST, None, values] if all(map(_is_held, values)) else _as_json(values)


def _is_held(value: Any) -> bool:
    """Whether it is None or a whole number that 64 bits hold."""
    return value is None or -(2**63) <= value < 2**63


def _as_json(values: Sequence[Any]) -> Packed:
    return [JSON, None, json.dumps(values, separators=(",", ":"))]


def _textual(value: Any) -> Any:
    """The value itself, unless it is a text that UTF-8 can't hold: a lone surrogate, which JSON can tell."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value


def _sparse(values: Sequence[Any], pack: Callable[[Sequence[Any]], Packed]) -> Packed:
    there = np.array([value is not None for value in values])
    return [SPARSE, np.packbits(there).tobytes(), pack([value for value in values if value is not None])]


def _mask(data: bytes, num: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(data, np.uint8), count=num).astype(bool)


def _deltas(array: Ints) -> tuple[list[Any], bytes]:
    """First value and width, and the differences; they may wrap around, and wrap back when they are summed."""
    deltas = np.diff(array)
    low, high = (int(deltas.min()), int(deltas.max())) if len(deltas) else (0, 0)
    width = next(dtype for dtype, least, most in _WIDTHS if least <= low and high <= most)
    return [int(array[0]), width.itemsize], _shuffled(deltas.astype(width))


def _undeltas(parameter: Sequence[int], data: bytes, num: int) -> Ints:
    first, size = parameter
    array = np.empty(num, dtype=np.int64)
    array[0] = first
    array[1:] = _unshuffled(data, np.dtype(f"<i{size}"), num - 1)
    return np.cumsum(array, dtype=np.int64)


def _shuffled(array: npt.NDArray[Any]) -> bytes:
    size = array.itemsize
    return array.tobytes() if size == 1 else array.view(np.uint8).reshape(-1, size).T.tobytes()


def _unshuffled(data: bytes, dtype: np.dtype[Any], num: int) -> npt.NDArray[Any]:
    raw = np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(raw.reshape(dtype.itemsize, num).T).view(dtype).reshape(num)
