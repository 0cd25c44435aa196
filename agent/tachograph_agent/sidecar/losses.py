"""What lines that are given up held, run by run: what the ``gap`` events that tell it say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

_RUN = re.compile(rb'"run":("(?:[^"\\]|\\.)*")')


@dataclass(slots=True)
class Loss:
    """What one run lost: how many events, and the times of the first and the last of them, where they tell any."""

    run: str | None
    num_events: int = 0
    first_unix_s: float | None = None
    last_unix_s: float | None = None


def losses(lines: bytes) -> list[Loss]:
    """One loss for each run in the lines, by name; lines that name none are one of their own, the last."""
    found: dict[str | None, Loss] = {}
    for line in lines.splitlines():
        run, t = _told(line)
        loss = found.setdefault(run, Loss(run))
        loss.num_events += 1
        if t is not None:
            loss.first_unix_s = t if loss.first_unix_s is None else min(t, loss.first_unix_s)
            loss.last_unix_s = t if loss.last_unix_s is None else max(t, loss.last_unix_s)
    return sorted(found.values(), key=lambda loss: (loss.run is None, loss.run or ""))


def _told(line: bytes) -> tuple[str | None, float | None]:
    """A line's run and time. One that is no JSON may still name its run, and was refused perhaps for what follows."""
    try:
        event: Any = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return _named(line), None
    if not isinstance(event, dict):
        return None, None
    run, t = event.get("run"), event.get("t")
    run = run if isinstance(run, str) else None
    return run, float(t) if isinstance(t, int | float) and not isinstance(t, bool) else None


def _named(line: bytes) -> str | None:
    found = _RUN.search(line)
    try:
        return None if found is None else msgspec.json.decode(found[1], type=str)
    except ValueError:
        return None
