"""Intervals that people can remember: 8 min rather than 8.45, 80 steps rather than 78."""

from __future__ import annotations

import math
from typing import Final

_SECONDS: Final = (1, 2, 3, 5, 10, 15, 20, 30, 45)
_MINUTES: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 90, 105, 120, 150)
_HOURS: Final = (3, 3.5, 4, 5, 6, 8, 10, 12, 16, 18, 24, 36, 48, 72, 96, 120, 168, 240, 336)
_STEPS: Final = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
INTERVALS_S: Final = tuple(
    sorted({float(s) for s in _SECONDS} | {m * 60.0 for m in _MINUTES} | {h * 3600.0 for h in _HOURS})
)


def interval_s(exact_s: float, least_s: float = 0.0) -> float:
    """The nearest (by ratio) convenient interval of at least ``least_s``; beyond the table the exact one."""
    allowed = [each for each in INTERVALS_S if each >= least_s]
    if not allowed or exact_s > 1.5 * INTERVALS_S[-1] or exact_s < INTERVALS_S[0] / 1.5:
        return max(exact_s, least_s)
    return min(allowed, key=lambda each: abs(math.log(each / exact_s)))


def num_steps(exact_s: float, step_s: float, least_s: float = 0.0) -> int:
    """The nearest convenient whole number of steps that last at least ``least_s``; at least 1."""
    wanted, least = exact_s / step_s, max(1, math.ceil(least_s / step_s - 1e-9))
    digits = range(max(0, math.floor(math.log10(max(wanted, least, 1))) + 2))
    allowed: set[int] = {
        round(lead * 10.0**digit) for digit in digits for lead in _STEPS if (lead * 10.0**digit) % 1 == 0
    }
    return min((each for each in allowed if each >= least), key=lambda each: (abs(math.log(each / wanted)), each))
