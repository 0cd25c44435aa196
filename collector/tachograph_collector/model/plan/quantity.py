"""Numbers with their units, as people write them: ``264 d``, ``1h30min``, ``1.2 TB``, ``20 GB/s``, ``95 %``.

Within the program durations are seconds, sizes bytes, rates bytes per second, shares 0 to 1. A number that needs a unit
and has none is refused rather than guessed: a day and an hour differ by what this whole tool is about.
"""

from __future__ import annotations

import math
import re
from typing import Final, Literal

Dimension = Literal["time", "bytes", "rate", "count", "share", "money"]

TIMES: Final = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 365 * 86_400.0}
_LONG_TIMES: Final = {
    "sec": "s", "second": "s", "seconds": "s", "mins": "min", "minute": "min", "minutes": "min", "hr": "h", "hour": "h",
    "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w", "year": "y", "years": "y",
}  # fmt: skip
SIZES: Final = {
    "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "EB": 1e18,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "PiB": 2.0**50,
}  # fmt: skip
_BITS: Final = {"Mbit": 1e6 / 8, "Gbit": 1e9 / 8, "Tbit": 1e12 / 8}
EXAMPLES: Final[dict[Dimension, str]] = {
    "time": "12 h (ms, s, min, h, d, w and y are known)",
    "bytes": "1.2 TB (kB, MB, GB, TB, PB; KiB, MiB ... are known)",
    "rate": "20 GB/s (bytes a second; Gbit/s is known too)",
    "count": "128, a whole number",
    "share": "95 % or 0.95",
    "money": "2.5",
}
_NUMBER: Final = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?|nan"
_PART: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z%/]*)\s*", re.IGNORECASE)


class PlanError(ValueError):
    """Numbers that no plan can be made of. The message says which, its value, what is accepted and what to do."""


def parse(text: str, dimension: Dimension) -> float:
    """The number in ``text`` in the program's unit; raises ``PlanError`` with the reason and an example."""
    parts = _parts(text)
    if len(parts) > 1 and dimension != "time":
        raise PlanError(f"{text!r} is no number; expected {EXAMPLES[dimension]}")
    if len({value < 0 for value, _ in parts}) > 1:
        raise PlanError(f"{text!r} mixes signs; expected {EXAMPLES[dimension]}")
    total = math.fsum(value * _factor(unit, dimension, text) for value, unit in parts)
    total = total / 100 if dimension == "share" and parts[0][1] == "%" else total
    if not math.isfinite(total):
        raise PlanError(f"{text!r} is not finite; expected {EXAMPLES[dimension]}")
    if dimension == "count" and total != int(total):
        raise PlanError(f"{text!r} is no whole number; expected {EXAMPLES[dimension]}")
    return total


def parse_range(text: str, dimension: Dimension) -> tuple[float, float | None, float | None]:
    """(value, low, high) of ``264 d``, or of ``240..264..291 d``: the least, the expected and the greatest.

    A part without a unit takes that of the last.
    """
    words = [word.strip() for word in re.split(r"\.\.+|…", text)]
    if len(words) == 1:
        return parse(text, dimension), None, None
    if len(words) != 3 or not all(words):
        raise PlanError(f"{text!r} is no range; expected LOW..EXPECTED..HIGH, such as 240..264..291 d")
    unit = (_PART.match(words[-1]) or _PART.match("0"))[2]  # type: ignore[index]  # "0" matches
    low, value, high = (parse(word if _has_unit(word) else word + unit, dimension) for word in words)
    if not low <= value <= high:
        raise PlanError(f"{text!r} is not in order; expected LOW..EXPECTED..HIGH, such as 240..264..291 d")
    return value, low, high


def _has_unit(word: str) -> bool:
    return re.fullmatch(_NUMBER, word, re.IGNORECASE) is None


def _parts(text: str) -> list[tuple[float, str]]:
    """(number, unit) of every part of ``1h 30min``; one for anything that is no number at all."""
    rest, parts = text.strip(), []
    while rest:
        found = _PART.match(rest)
        if found is None:
            raise PlanError(f"{text!r} is no number with a unit")
        parts.append((float(found[1].replace("_", "")), found[2]))
        rest = rest[found.end() :]
    if not parts:
        raise PlanError("nothing is given where a number is expected")
    return parts


def _factor(unit: str, dimension: Dimension, text: str) -> float:
    if dimension in {"count", "money"}:
        if unit:
            raise PlanError(f"{text!r}: the unit {unit} has no place here; expected {EXAMPLES[dimension]}")
        return 1.0
    if dimension == "share":
        if unit not in {"", "%"}:
            raise PlanError(f"{text!r}: the unit {unit} has no place here; expected {EXAMPLES[dimension]}")
        return 1.0
    if not unit:
        raise PlanError(f"{text!r} has no unit; expected {EXAMPLES[dimension]}")
    known = _known_units(dimension)
    if unit in known:
        return known[unit]
    raise PlanError(f"{text!r}: {unit!r} is no unit known here{_hint(unit)}; expected {EXAMPLES[dimension]}")


def _known_units(dimension: Dimension) -> dict[str, float]:
    if dimension == "time":
        return TIMES | {name: TIMES[short] for name, short in _LONG_TIMES.items()}
    if dimension == "bytes":
        return SIZES
    return {f"{name}/s": factor for name, factor in (SIZES | _BITS).items()}


def _hint(unit: str) -> str:
    if unit in {"m", "M"}:
        return " (for minutes write min)"
    if re.fullmatch(r"[kKMGTP]b(/s|ps)?", unit):
        return " (write GB for bytes, Gbit for bits)"
    return ""


def shown(value: float, dimension: Dimension) -> str:
    """The number for people, in a unit that suits it, and such that ``parse`` reads it: ``49.5 h``, ``1.2 TB``."""
    if dimension == "count":
        return f"{value:,.0f}"
    if dimension == "share":
        return f"{_digits(value * 100)} %"
    if dimension == "money":
        return _digits(value)
    if dimension == "time":
        return _time(value)
    suffix = "/s" if dimension == "rate" else ""
    for name in ("EB", "PB", "TB", "GB", "MB", "kB", "B"):
        if value >= SIZES[name] * 0.9995 or name == "B":
            return f"{_digits(value / SIZES[name])} {name}{suffix}"
    raise AssertionError("unreachable: B takes what is left")


def _time(seconds: float) -> str:
    for name, above in (("y", 3 * TIMES["y"]), ("d", 3 * 86_400.0), ("h", 2 * 3600.0), ("min", 90.0), ("s", 1.0)):
        if seconds >= above * 0.9995:
            return f"{_digits(seconds / TIMES[name])} {name}"
    return f"{_digits(seconds * 1e3)} ms" if seconds else "0 s"


def _digits(value: float) -> str:
    """Three significant digits, and all of the whole part."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
