"""From events to the rows that hold them: a row for each event, but for steps and heartbeats one for many.

Pure: no database. The columns beside an event's own text or a piece's own bytes are there to find it by; what a column
can't hold (a NUL in a text, for PostgreSQL) is replaced there, and stands unchanged in the text or the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import UNSET
from tachograph_agent.events import (
    AnyEvent,
    Attempt,
    Heartbeat,
    RunStart,
    Step,
    UnknownEvent,
    from_dict,
    microseconds,
    to_dict,
)

from tachograph_collector.store.packing import (
    FAST,
    pack_heartbeats,
    pack_steps,
    unpack_heartbeats,
    unpack_steps,
)

STEP: Final = "step"
HEARTBEAT: Final = "heartbeat"
ORIGINS: Final = ("live", "replay", "rehearsal")

MAX_RUN_NAME: Final = 500
"""Characters; longer ones don't fit into an index of PostgreSQL."""
MAX_NESTING: Final = 32
"""Of lists and objects in a field of an event. What is deeper might be storable and then not be readable."""

_MAX_TEXT: Final = 500
_MAX_KIND: Final = 100
_UNSTORABLE: Final = {0: "�"} | dict.fromkeys(range(0xD800, 0xE000), "�")


@dataclass(slots=True)
class RunRows:
    """What one transaction adds to a run: rows without their tenant, run, sequence number and time of arrival."""

    events: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    origin: str | None = None
    latest_us: int = 0
    """The newest ``t`` among them."""

    @property
    def num(self) -> int:
        """How many sequence numbers they take."""
        return len(self.events) + len(self.samples)


@dataclass(slots=True)
class Sorted:
    """Events by where they are stored: ``(run, attempt, node)`` for what is packed."""

    lifecycle: list[AnyEvent] = field(default_factory=list)
    steps: dict[tuple[str, Attempt | None, str | None], list[Step]] = field(default_factory=dict)
    heartbeats: dict[tuple[str, Attempt | None, str | None], list[Heartbeat]] = field(default_factory=dict)


def sort_in(found: Sorted, events: Sequence[AnyEvent]) -> None:
    """Sort ``events`` into ``found``."""
    run = attempt = node = None
    steps_of_one: list[Step] | None = None
    for event in events:
        if isinstance(event, Step):
            # An agent's steps are mostly of one place: to compare three names costs less than to look them up.
            if steps_of_one is None or event.node != node or event.attempt != attempt or event.run != run:
                run, attempt, node = event.run, event.attempt, event.node
                steps_of_one = found.steps.setdefault((run, attempt, node), [])
            steps_of_one.append(event)
        elif isinstance(event, Heartbeat):
            found.heartbeats.setdefault((event.run, event.attempt, event.node), []).append(event)
        else:
            found.lifecycle.append(event)


def rows_by_run(found: Sorted, origins: dict[str, str | None]) -> dict[str, RunRows]:
    """The rows of each run, by its name. ``origins``: what the batch says of each run; a ``run.start`` may say more."""
    by_run: dict[str, RunRows] = {}

    def rows_of(run: str) -> RunRows:
        if run not in by_run:
            by_run[run] = RunRows(origin=origins.get(run))
        return by_run[run]

    for event in found.lifecycle:
        rows = rows_of(event.run)
        row = event_row(event)
        rows.events.append(row)
        rows.latest_us = max(rows.latest_us, row["t_us"])
        if isinstance(event, RunStart) and event.origin in ORIGINS and rows.origin in (None, "live"):
            rows.origin = event.origin
    for (run, _, _), steps in found.steps.items():
        rows = rows_of(run)
        piece = steps_row(steps)
        rows.samples.append(piece)
        rows.latest_us = max(rows.latest_us, piece["end_us"])
    for (run, _, _), heartbeats in found.heartbeats.items():
        rows = rows_of(run)
        piece = heartbeats_row(heartbeats)
        rows.samples.append(piece)
        rows.latest_us = max(rows.latest_us, piece["end_us"])
    return by_run


def event_row(event: AnyEvent) -> dict[str, Any]:
    """The row of one event that is neither a step nor a heartbeat."""
    return {
        "kind": column_text(event.kind, _MAX_KIND),
        "t_us": microseconds(event.t),
        "attempt": _attempt_text(event.attempt),
        "node": column_text(event.node),
        "rank": event.rank,
        "step": getattr(event, "step", None),
        "body": json.dumps(to_dict(event), separators=(",", ":")),
    }


def event_of(body: str) -> AnyEvent:
    """The event that ``event_row`` made ``body`` of, unknown fields, NaN and all."""
    return from_dict(json.loads(body))


def steps_row(steps: Sequence[Step], level: int = FAST) -> dict[str, Any]:
    """The row of steps of one run, attempt and node."""
    numbers = [step.step for step in steps]
    return _piece(STEP, steps, pack_steps(steps, level), min(numbers), max(numbers))


def heartbeats_row(heartbeats: Sequence[Heartbeat], level: int = FAST) -> dict[str, Any]:
    """The row of heartbeats of one run, attempt and node."""
    numbers = [each.step for each in heartbeats if each.step is not None]
    data = pack_heartbeats(heartbeats, level)
    return _piece(HEARTBEAT, heartbeats, data, min(numbers, default=None), max(numbers, default=None))


def samples_of(kind: str, data: bytes) -> list[Step] | list[Heartbeat]:
    """The events of a row of ``samples``."""
    return unpack_steps(data) if kind == STEP else unpack_heartbeats(data)


def _piece(
    kind: str, events: Sequence[Step | Heartbeat], data: bytes, min_step: int | None, max_step: int | None
) -> dict[str, Any]:
    times = [event.t for event in events]
    return {
        "kind": kind,
        "attempt": _attempt_text(events[0].attempt),
        "node": column_text(events[0].node),
        "start_us": microseconds(min(times)),
        "end_us": microseconds(max(times)),
        "min_step": min_step,
        "max_step": max_step,
        "num": len(events),
        "data": data,
    }


def column_text(text: str | None, limit: int = _MAX_TEXT) -> str | None:
    """The text as a column can hold it: cut, and what no database takes replaced."""
    if text is None:
        return None
    text = text[:limit]
    return text if text.isalnum() else text.translate(_UNSTORABLE)


def _attempt_text(attempt: Attempt | None) -> str | None:
    return attempt if attempt is None else column_text(str(attempt))


def why_unstorable(event: AnyEvent) -> str | None:
    """Why an event can't be kept so that it can be read again; None if it can."""
    if isinstance(event, UnknownEvent):
        loose: Any = event.data
    elif isinstance(event, Step):
        if event.unknown_fields is UNSET:
            return None
        loose = event.unknown_fields
    else:
        loose = [getattr(event, name) for name in event.__struct_fields__ if name != "unknown_fields"]
        if event.unknown_fields is not UNSET:
            loose.append(event.unknown_fields)
    if _is_deeper(loose, MAX_NESTING + 1):
        return f"a {column_text(event.kind, 40)!r} is nested more than {MAX_NESTING} deep; an event is one flat object"
    return None


def _is_deeper(value: Any, limit: int) -> bool:
    if isinstance(value, dict):
        return limit == 0 or any(_is_deeper(each, limit - 1) for each in value.values())
    if isinstance(value, list | tuple):
        return limit == 0 or any(_is_deeper(each, limit - 1) for each in value)
    return False


def why_no_run(name: str) -> str | None:
    """Why a run can't have this name; None if it can. Every character is allowed that both databases hold."""
    if not name:
        return "'run' is missing: expected the name of the run"
    if len(name) > MAX_RUN_NAME:
        return f"the run's name has {len(name):,} characters; expected at most {MAX_RUN_NAME}"
    if name.translate(_UNSTORABLE) != name:
        return f"the run's name {name[:40]!r} holds a NUL or half a character; expected text"
    return None
