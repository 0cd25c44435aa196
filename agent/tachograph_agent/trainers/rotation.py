"""Rotated logs: ``train.log`` is the newest part, ``train.log.1`` the one before, ``train.log.2.gz`` an older one.

A number counts back, a date counts on. A name is a part's only if the log that it is a part of lies there too, so that
files that are merely numbered (ranks) keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tachograph_agent.trainers.packing import SUFFIXES

_PART: Final = re.compile(r"(.+?)(?:\.(\d{1,3})|[-.](\d{4}-?\d\d-?\d\d(?:[-T_.]?[\d:-]{2,8})?|\d{9,10}))")


def unpacked_name(path: str) -> str:
    """The name without the suffix of its compression."""
    suffix = Path(path).suffix
    return path.removesuffix(suffix) if suffix in SUFFIXES else path


def part_of(path: str) -> tuple[str, tuple[int, int, str]] | None:
    """The log that this may be a rotated part of, and a key that sorts its parts from the oldest on."""
    name = Path(unpacked_name(path))
    found = _PART.fullmatch(name.name)
    if found is None:
        return None
    key = (1, -int(found[2]), "") if found[2] else (0, 0, found[3])
    return str(name.with_name(found[1])), key


def parts(paths: Sequence[str]) -> dict[str, str]:
    """Of each path that is a rotated part of another one among them: that other one."""
    logs = {unpacked_name(path): path for path in paths}
    found = {path: part_of(path) for path in paths}
    return {path: logs[part[0]] for path, part in found.items() if part is not None and part[0] in logs}


def oldest_first(paths: Sequence[str]) -> list[str]:
    """The paths in their order, but each log's parts before it, the oldest first."""
    of = parts(paths)
    ordered: list[str] = []
    for path in paths:
        if path in of:
            continue
        ours = [part for part, log in of.items() if log == path]
        ordered += sorted(ours, key=lambda part: (part_of(part) or ("", (0, 0, "")))[1])
        ordered.append(path)
    return ordered


def siblings(path: str) -> list[str]:
    """The parts of a log that lie beside it, the oldest first."""
    log = Path(path)
    if not log.is_file():
        return []
    try:
        beside = [str(each) for each in log.parent.iterdir() if each.name.startswith(log.name) and each.is_file()]
    except OSError:
        return []
    return oldest_first([*(each for each in beside if each != str(log)), str(log)])[:-1] if len(beside) > 1 else []
