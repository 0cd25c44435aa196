"""The layout of a Megatron log's records as one regular expression, so that a big log can be read a block at a time.

A log's records share one layout: the same fields in the same order, and before and after them the same words. What was
found in one record is looked for in the next ones, over a whole block of lines at once; every line that differs in
anything but its numbers is left to the tolerant ``Reader``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ELAPSED: Final = "elapsed time per iteration ("
_STAMP: Final = r"\[(?P<minute>.{16}):0?(?P<second>[0-9.]+)\] "
_BODY: Final = re.compile(r"\biteration +[0-9]{1,18}/ *[0-9]{1,18} *\|")
_STAMP_AT_END: Final = re.compile(r"\[[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?\] $")
_DIGITS: Final = re.compile("[0-9]+")
_NO_TROUBLE: Final = frozenset({"number of skipped iterations", "number of nan iterations"})
_LONGEST_DRESS: Final = 60
"""What stands before or after a record and is longer may be another rank's line, which is read too."""

Row = tuple[str, ...]
"""What ``Columns.rows`` finds in one line: the groups of a record, and last of all the line itself if it is none."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The layout of a log's records. Without a ``pattern`` every record must go the slow way.

    The numbers are the groups' places in a row; None where records of this layout have no such field.
    """

    pattern: re.Pattern[str] | None = None
    unit_s: float = 1.0
    iteration: int = 0
    value: int = 0
    minute: int | None = None
    second: int | None = None
    loss: int | None = None
    norm: int | None = None

    def rows(self, text: str) -> list[Row]:
        """One row for each line of ``text``, which ends with a newline."""
        assert self.pattern is not None
        return self.pattern.findall(text)


NO_COLUMNS: Final = Columns()


def columns_of(line: str, *, has_times: bool) -> Columns:
    """The layout of a line with one record; ``NO_COLUMNS`` if it isn't one of the usual kind."""
    found = _BODY.search(line)
    end = line.rfind("|") + 1
    if found is None or _BODY.search(line, found.end()) is not None or len(line) - end > _LONGEST_DRESS:
        return NO_COLUMNS
    before, stamp = line[: found.start()], ""
    stamped = _STAMP_AT_END.search(before)
    if has_times:
        if stamped is None:
            return NO_COLUMNS
        before, stamp = before[: stamped.start()], _STAMP
    if len(before) > _LONGEST_DRESS:
        return NO_COLUMNS
    groups = {"lm loss" if "| lm loss:" in line else "loss": "loss", "grad norm": "norm"}
    fields = []
    for piece in line[found.end() : end - 1].split("|"):
        name, colon, _ = piece.rpartition(":")
        field, name = name, name.strip()
        if not colon:
            return NO_COLUMNS
        group = groups.pop(name, None)  # the first field of a name counts
        if name.startswith(ELAPSED):
            group = "value"
        # Bars that stand where they stood and the names that matter are proof enough, and quickly looked for.
        if group:
            fields.append(f"{re.escape(field)}:(?P<{group}>[^|]*)\\|")
        elif name in _NO_TROUBLE:
            fields.append(f"{re.escape(field)}: *0 \\|")
        elif name == "global batch size":  # with another batch a step has other tokens
            fields.append(re.escape(piece) + r"\|")
        else:
            fields.append(r"[^|]*\|")
    if sum("<value>" in field for field in fields) != 1:
        return NO_COLUMNS
    head = _dress(before) + stamp + r"iteration +(?P<iteration>[0-9]{1,18})/[^|]*\|"
    unit_s = 0.001 if ELAPSED + "ms)" in line else 1.0
    return _compiled(head + "".join(fields) + _dress(line[end:]), unit_s)


def _dress(text: str) -> str:
    """What launchers put around a record: the same in every line but for its numbers."""
    return "[0-9]+".join(map(re.escape, _DIGITS.split(text)))


@lru_cache(maxsize=64)
def _compiled(record: str, unit_s: float) -> Columns:
    pattern = re.compile(f"{record}\n|([^\n]*)\n")
    place = {name: number - 1 for name, number in pattern.groupindex.items()}
    return Columns(
        pattern,
        unit_s,
        place["iteration"],
        place["value"],
        place.get("minute"),
        place.get("second"),
        place.get("loss"),
        place.get("norm"),
    )
