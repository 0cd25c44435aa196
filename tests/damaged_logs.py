"""Logs as they come out of accidents: mutated, cut off, spliced from others, with whole lines lost or repeated."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

NUM_DAMAGED = 100_000 if os.environ.get("TACHOGRAPH_PROOF") == "long" else 300
"""For each format; ``TACHOGRAPH_PROOF=long`` asks for as many as the proof does."""

_ODD = (
    "\x00",
    "\x1b[31m",
    "\ufeff",
    "\ufffd",
    "\u2028",
    '"',
    "'",
    ",",
    ",,",
    ";",
    "|",
    "\t",
    "\n",
    "\r",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e308",
    "1e999",
    "9" * 18,
    "9" * 19,
    "9" * 40,
    "9" * 5000,
    "0x10",
    "1_000",
    "١٢٣",
    "²",
    " ",
    "9999-99-99T99:99:99",
    "0000-00-00",
    "None",
    "Unknown",
    "{",
    "[",
    "(",
    "=",
    ":",
    "%",
)


def damaged(samples: Sequence[str], own: int, num: int, seed: int = 7) -> Iterator[str]:
    """``num`` damaged versions of ``samples[own]``, always the same; the others lend pieces for splicing."""
    choose = random.Random(seed * 1000 + own)
    for _ in range(num):
        text = samples[own]
        for _ in range(choose.choice((1, 1, 2, 3, 8))):
            text = _once(text, samples, choose)
        yield text


def _once(text: str, samples: Sequence[str], choose: random.Random) -> str:
    at = choose.randrange(len(text) + 1)
    until = min(len(text), at + choose.choice((1, 1, 3, 10, 100)))
    kind = choose.randrange(9)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[at:]
    if kind == 2:
        return text[:at] + text[until:]
    if kind == 3:
        return text[:at] + choose.choice(_ODD) + text[choose.choice((at, until)) :]
    if kind == 4:
        return text[:at] + chr(choose.randrange(1, 0x3000)) + text[at + 1 :]
    if kind == 5:
        other = choose.choice(samples)
        start = choose.randrange(len(other) + 1)
        return text[:at] + other[start : start + choose.choice((5, 50, 500))] + text[at:]
    lines = text.split("\n")
    first, second = choose.randrange(len(lines)), choose.randrange(len(lines))
    if kind == 6:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == 7:
        lines.insert(first, lines[second])
    else:
        del lines[first]
    return "\n".join(lines)
