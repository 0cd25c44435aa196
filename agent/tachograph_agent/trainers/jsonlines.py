"""JSON Lines as loggers write them: behind a prefix perhaps, with bare NaN, the last one cut off."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import clean


def parsed(text: str) -> dict[str, Any] | None:
    """The JSON object that begins in ``text`` at its first brace; None if there is none."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def records(lines: Iterable[str], context: Context) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """Line number, record, line. A line that is none comes with None; one that begins like one and is broken counts."""
    for line_number, raw in enumerate(lines, start=1):
        line = clean(raw)
        record = parsed(line)
        if record is None and line.lstrip().startswith("{"):
            context.skip(line_number, "a line of JSON that is cut off or broken")
            continue
        yield line_number, record, line
