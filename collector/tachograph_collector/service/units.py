"""Sizes and times as people write them: ``16M``, ``4G``; ``500ms``, ``5s``, ``12h``, ``7d``."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|min|m|h|d)", re.ASCII)
_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def bytes_of(text: str) -> int:
    """The number of bytes; raises ``ValueError`` with what is expected."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _BYTES[match[2]]) if match else 0
    if size < 1:
        raise ValueError("expected a size above 0, such as 16M or 4G")
    return size


def seconds_of(text: str) -> float:
    """The number of seconds; raises ``ValueError`` with what is expected."""
    match = _TIME.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= 366 * 100 * 86_400:
        raise ValueError("expected a time above 0 with its unit, such as 5s, 12h or 7d")
    return seconds


def shown_bytes(size: int) -> str:
    """The size as ``bytes_of`` reads it, in the largest unit that is whole."""
    for unit in ("T", "G", "M", "K"):
        if size >= _BYTES[unit] and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return str(size)


def shown_seconds(seconds: float) -> str:
    """The time as ``seconds_of`` reads it, in the largest unit that is whole."""
    for unit in ("d", "h", "min", "s"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds * 1000:g}ms"
