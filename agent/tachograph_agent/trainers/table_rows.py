"""Rows of a table in text (CSV and its kin): the header wherever it stands, cells by name, what doesn't fit counted.

A header can stand in the middle of a file (a logger that was resumed) and once a file (parts of one run): the row after
each says so. A cell in quotes may hold separators; no cell of these formats holds a line break.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import number

_SEPARATORS: Final = (",", ";", "\t", "|")
_MOST_COLUMNS: Final = 2000

IsHeader = Callable[[Sequence[str]], bool]
"""Whether these cells, stripped and in lower case, are the names of a format's columns."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: the cells that aren't empty, by the column's name in lower case."""

    line_number: int
    cells: dict[str, str]
    opens: bool
    """The first row under a header."""
    columns: Sequence[str]
    """All names of the header."""


def split(line: str, separator: str) -> list[str]:
    """The cells of a line, stripped."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    except csv.Error:
        return []


def _cells(line: str, separator: str, num: int) -> list[str]:
    """The cells of a row; a separator at its end adds none."""
    cells = split(line, separator)
    if len(cells) == num + 1 and not cells[-1]:
        cells.pop()
    return cells


def header(line: str, is_header: IsHeader) -> tuple[list[str], str] | None:
    """The names in a header line, in lower case, and what separates them; None if it is none."""
    for separator in _SEPARATORS:
        if separator not in line:
            continue
        names = [name.lower() for name in split(line, separator)]
        if len(names) > 1 and not names[-1]:
            names.pop()  # `sacct --parsable` ends each line with a bar
        if 1 < len(names) <= _MOST_COLUMNS and is_header(names):
            return names, separator
    return None


def table_rows(lines: Iterable[str], context: Context, is_header: IsHeader) -> Iterator[TableRow]:
    """The rows of a table; one with more or fewer cells than its header, or before any, is counted and left out."""
    names: list[str] = []
    separator = ","
    opens = False
    for line_number, line in enumerate(lines, start=1):
        line = line.lstrip("\ufeff")
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isdigit():  # most rows begin with a number, and looking twice costs
            found = header(line, is_header)
            if found is not None:
                names, separator = found
                opens = True
                continue
        cells = _cells(line, separator, len(names))
        if not names:
            context.skip(line_number, "a row before any header")
        elif len(cells) != len(names):
            context.skip(line_number, f"a row of {len(cells)} cells under a header of {len(names)}")
        else:
            yield TableRow(
                line_number, {name: cell for name, cell in zip(names, cells, strict=True) if cell}, opens, names
            )
            opens = False


def head_rows(head: str, is_header: IsHeader, num: int = 20) -> list[dict[str, str]] | None:
    """The first rows of a table whose header is the first line that isn't empty; None if that is no header."""
    lines = [line for line in head.split("\n", 200)[:200] if line.strip() and not line.startswith("#")]
    found = header(lines[0].lstrip("\ufeff"), is_header) if lines else None
    if found is None:
        return None
    names, separator = found
    told = []
    for line in lines[1 : num + 1]:
        cells = _cells(line, separator, len(names))
        if len(cells) == len(names):
            told.append({name: cell for name, cell in zip(names, cells, strict=True) if cell})
    return told


def are_names(cells: Sequence[str]) -> bool:
    """Whether all these can be names of columns: none is a number, and none but the first (an index) is empty."""
    return all(cell and number(cell) is None for cell in cells[1:]) and number(cells[0]) is None
