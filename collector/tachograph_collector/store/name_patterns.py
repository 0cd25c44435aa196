"""Patterns of names in SQL: ``*`` and ``?`` as a shell has them, on both databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection


def like(connection: Connection, column: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    """``*`` and ``?`` as a shell has them, everything else as it is; upper and lower case differ."""
    if not {"*", "?"} & set(pattern):
        return column == pattern
    if connection.dialect.name == "sqlite":  # its LIKE takes upper for lower case
        return column.op("GLOB", is_comparison=True)(pattern.replace("[", "[[]"))
    escaped = pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return column.like(escaped.replace("*", "%").replace("?", "_"), escape="\\")
