"""Consoles that print a record as a header and, below it, a ``key: value`` or ``key=value`` a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tachograph_agent.trainers.rows import numbered

MOST_FIELDS: Final = 1000
_FIELD: Final = re.compile(r"\s*(?P<name>[A-Za-z][^=:\n]{0,120}?) ?(?P<sign>=|: )\s*(?P<value>[^\s=]{1,60})\s*$")
_BAR: Final = re.compile(r"\d{1,3}%\|[^|]*\| *\d+/")


@dataclass(slots=True)
class Block:
    """A record: its header's match, the line that it is in, its number, and what stands below."""

    header: re.Match[str]
    line: str
    line_number: int
    origin: str
    fields: dict[str, str] = field(default_factory=dict)


def blocks(lines: Iterable[str], header: re.Pattern[str], sign: str) -> Iterator[Block | str]:
    """Records of which the end has come, and the lines between them; ``sign`` parts a name from its value.

    A line with a time of day or a bracket at its front ends a record: it is another message.
    """
    open_block: Block | None = None
    for line_number, line, origin in numbered(lines):
        found = header.search(line)
        if found is not None:
            if open_block is not None:
                yield open_block
            open_block = Block(found, line, line_number, origin)
            continue
        if open_block is not None:
            pair = None if line[:1].isdigit() else _FIELD.match(line)
            if pair is not None and pair["sign"].strip() == sign:
                if origin == open_block.origin and len(open_block.fields) < MOST_FIELDS:
                    open_block.fields.setdefault(pair["name"].strip(), pair["value"])
                continue
            if not line.strip() or _BAR.search(line):
                continue  # a launcher's empty line, or a bar drawn over it, ends no record
            yield open_block
            open_block = None
        yield line
    if open_block is not None:
        yield open_block
