"""Where the fields of Megatron's records stand in their lines, so that a big log can be read without searching.

Megatron pads its numbers, and a log's records share one layout: what was found in one record holds for the next ones,
and each use checks enough of it to notice when it doesn't.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ELAPSED: Final = "elapsed time per iteration ("
_NO_TROUBLE: Final = "skipped iterations:   0 | number of nan iterations:   0 |"
_BATCH: Final = re.compile(r"global batch size: *\d+ \|")


@dataclass(slots=True)
class Columns:
    """Where the fields of a record stand in its line; Megatron pads its numbers, so that they rarely move.

    ``elapsed`` is -2, which no line has, while every record must go the slow way.
    """

    elapsed: int = -2
    number: int = 0
    slash: int = 0
    value: int = 0
    unit_s: float = 1.0
    minute: int = 0
    second: int = 0
    """0 in a log without times."""
    stamp_end: int = 0
    minute_text: str = ""
    minute_t: float = 0.0
    to_loss: int = 0
    has_norm: bool = True
    to_norm: int = 0
    no_trouble: str = _NO_TROUBLE
    """What stands in every record in which nothing was skipped; empty where the log doesn't count that."""
    longest: int = 0
    batch_text: str = ""


def columns_of(line: str, *, has_times: bool) -> Columns:
    """The columns of a line with one record in the usual layout; without a place for it if the layout is another."""
    try:
        at = line.index(ELAPSED)
        start = line.index("iteration ", 0, at) + 10
        is_ms = line[at + len(ELAPSED)] == "m"
        value = at + len(ELAPSED) + (5 if is_ms else 4)
        columns = Columns(at, start, line.index("/", start, at), value, 0.001 if is_ms else 1.0, longest=len(line) + 40)
        if has_times:
            columns.minute = line.rindex("[", 0, start) + 1
            columns.second = columns.minute + 17
            columns.stamp_end = line.index("]", columns.second, start)
    except (ValueError, IndexError):
        return Columns()
    columns.has_norm = "| grad norm: " in line
    columns.no_trouble = _NO_TROUBLE if "skipped iterations" in line or "nan iterations" in line else ""
    batch = _BATCH.search(line)
    columns.batch_text = batch.group() if batch else ""
    return columns
