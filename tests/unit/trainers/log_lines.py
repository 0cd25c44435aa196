"""Made-up event-log lines for the tests of reading."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tachograph_agent.events import AnyEvent
from tachograph_agent.trainers.reading import Reading

T0 = 1_800_000_000.0


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "step", "t": T0 + number, "run": "r", "rank": 0, "step": number, "dur": 1.0, **fields}


def lines(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def write(path: Path, events: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(events))
    return path


def all_events(reading: Reading) -> list[AnyEvent]:
    return [event for batch in reading.batches() for event in batch]


def steps_of(reading: Reading) -> list[int]:
    return [event.step for event in all_events(reading) if hasattr(event, "step")]
