"""What a check says: how it is, and what to do where it isn't well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Level = Literal["ok", "warn", "fail"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    ``fail``: something that was asked for can't work so. ``warn``: it works, and not as well as it could, or it will be
    misread. ``advice`` is what to do; beside an ``ok`` it says what more could be had.
    """

    check: str
    level: Level
    found: str
    advice: str = ""


def ok(check: str, found: str, advice: str = "") -> Finding:
    """All is well."""
    return Finding(check, "ok", found, advice)


def warn(check: str, found: str, advice: str) -> Finding:
    """It works, and could be better."""
    return Finding(check, "warn", found, advice)


def fail(check: str, found: str, advice: str) -> Finding:
    """It can't work so."""
    return Finding(check, "fail", found, advice)
