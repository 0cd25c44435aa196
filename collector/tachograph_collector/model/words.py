"""How the judge's sentences put durations, shares and money. ``report.text`` does so for reports, in microseconds."""

from __future__ import annotations

import math

_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))


def span(seconds: float) -> str:
    """``38 min``, ``3.1 h``, ``2.4 d``, ``1.5 s``; two or three digits, in one unit."""
    if math.isinf(seconds):
        return "any length"
    for name, length in _UNITS:
        if seconds >= (1.5 * length if name != "min" else 0.99 * length):
            return f"{number(seconds / length)} {name}"
    return f"{number(seconds)} s"


def number(value: float) -> str:
    """Three digits at most, thousands with separators: ``0.5``, ``12.3``, ``1,240``."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return text.removesuffix(".0")


def percent(share: float) -> str:
    """``83.9 %``"""
    return f"{share * 100:.1f} %"


def points(value: float) -> str:
    """``7.1 points``, ``1.0 point``, ``0.04 points``"""
    told = f"{value:.2f}" if 0 < abs(value) < 0.1 else f"{value:.1f}"
    return f"{told} point{'' if told == '1.0' else 's'}"


def count(num: int, noun: str) -> str:
    """``1 failure``, ``4 failures``"""
    return f"{num:,} {noun}{'' if num == 1 else 's'}"
