"""What the Xids of a ``health`` event are worth: at once, only when they come again, or only where the line says fatal.

Source: NVIDIA, "XID Errors" (GPU Deployment and Management Documentation). The agent sorts them alike, so that a node
says the same as the collector; only the collector sees that one GPU shows the same in several attempts.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from tachograph_agent.events import Health

HARDWARE: Final = frozenset({46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158})
APPLICATION: Final = frozenset({8, 11, 13, 31, 32, 39, 40, 41, 43, 45, 69, 94})
BY_THE_LINE: Final = frozenset({74, *range(144, 151)})
WATCH: Final = frozenset({63, 92})
MEMORY: Final = frozenset({48, 63, 64, 92, 94, 95})
"""After these a loss that jumps may be corrupted data."""

Worth: TypeAlias = Literal["hardware", "application", "link", "watch", "unknown"]
MAX_XIDS: Final = 100
"""Of one event; no driver has so many."""
_FATAL: Final = re.compile(r"(?<!non)(?<!non[- ])\bfatal\b", re.IGNORECASE)


class Xid(Struct, frozen=True):
    """One number that a GPU's driver has told."""

    number: int
    worth: Worth
    is_critical: bool
    count: int = 1


def worth_of(number: int) -> Worth:
    """Whose fault an Xid of that number mostly is."""
    if number in HARDWARE:
        return "hardware"
    if number in APPLICATION:
        return "application"
    if number in WATCH:
        return "watch"
    return "link" if number in BY_THE_LINE else "unknown"


def extra_of(event: Health) -> dict[str, Any]:
    """What else the event says."""
    return event.unknown_fields if isinstance(event.unknown_fields, dict) else {}


def xids_of(event: Health) -> list[Xid]:
    """The Xids of an event: those that ``xids`` counts, else ``value``. Empty where it names none."""
    counted = extra_of(event).get("xids")
    told = list(counted.items())[:MAX_XIDS] if isinstance(counted, dict) else []
    told = told or [(event.value, 1)]
    found = []
    for name, count in told:
        number = _whole(name)
        if number is not None:
            worth = worth_of(number)
            is_critical = worth == "hardware" or (worth == "link" and _is_fatal(event))
            found.append(Xid(number, worth, is_critical, max(1, _whole(count) or 1)))
    return found


def _is_fatal(event: Health) -> bool:
    """Whether the line said so: its text, or the severity of an agent that has read it (which tells ``meaning``)."""
    judged = event.severity == "critical" and "meaning" in extra_of(event)
    return judged or _FATAL.search(event.detail or "") is not None


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10_000 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and 0 <= value < 10_000 else None
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else None
