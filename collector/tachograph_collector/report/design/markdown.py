"""Markdown that says what was meant: names are escaped, tables have as many cells as their head."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tachograph_collector.report.text import visible

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def escaped(name: str, limit: int = 80) -> str:
    """Somebody's name as plain text in Markdown: nothing in it is markup, a comment or a new line."""
    return _SPECIAL.sub(r"\\\1", visible(name, limit))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A table; the columns in ``right`` are set to the right. An empty cell is an empty cell."""
    marks = ["---:" if column in right else "---" for column in range(len(head))]
    lines = [list(head), marks]
    for row in rows:
        assert len(row) == len(head), f"{len(row)} cells under {len(head)} heads"
        lines.append(list(row))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def bullets(sentences: Iterable[str]) -> str:
    """One line each."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def section(title: str, *paragraphs: str) -> str:
    """A heading and what stands under it; empty paragraphs are left out."""
    return "\n\n".join([f"## {title}", *(text for text in paragraphs if text)])
