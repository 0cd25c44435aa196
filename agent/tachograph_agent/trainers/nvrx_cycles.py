"""nvidia-resiliency-ext's cycle information: one JSON file for each time that workers were started.

``cycle_info.JOB.ATTEMPT.CYCLE`` holds ``cycle_start_time`` and ``cycle_end_time`` (ISO 8601, UTC; empty while it runs),
``active_nodes``, ``standby_nodes`` and ``active_ranks``. Each cycle is an attempt; what ended it stands elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tachograph_agent.events import AnyEvent, AttemptEnd, AttemptStart, Failure, RunStart
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.text import Clock
from tachograph_agent.trainers.torchelastic_events import NO_STEPS

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_CYCLES = 100_000


@dataclass(frozen=True, slots=True)
class _Cycle:
    key: tuple[str, int, int]
    start_t: float
    end_t: float | None
    num_ranks: int | None
    has_standby: bool
    generation: int


class NVRxCycles:
    """nvidia-resiliency-ext's cycle_info files."""

    name: ClassVar[str] = "nvrx-cycles"
    title: ClassVar[str] = "nvidia-resiliency-ext cycle_info JSON (starts and ends of workers, no steps)"

    def sniff(self, head: str) -> float:
        """Sure of both of its times."""
        return 0.95 if '"cycle_start_time"' in head and '"cycle_number"' in head and head.lstrip()[:1] == "{" else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """An attempt for each cycle; one that ended before another began is a failure of unknown cause."""
        for event in _events(lines, context):
            event.run = context.run
            yield event


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    cycles = _cycles("\n".join(lines), context)
    if not cycles:
        return
    context.note(NO_STEPS)
    yield RunStart(t=cycles[0].start_t, checkpoints="unseen", world_size=cycles[0].num_ranks)
    if any(cycle.has_standby for cycle in cycles):
        context.note("Some nodes stood by: they are not counted.")
    for index, cycle in enumerate(cycles):
        following = cycles[index + 1] if index + 1 < len(cycles) else None
        yield AttemptStart(t=cycle.start_t, attempt=index, world_size=cycle.num_ranks)
        if following is not None:
            context.note("What ended a cycle is not in these files: its cause is unknown.")
            at = cycle.end_t if cycle.end_t is not None and cycle.end_t <= following.start_t else following.start_t
            yield Failure(t=at, attempt=index, category="unknown", detail="the workers were started again by NVRx")
        elif cycle.end_t is not None:
            context.note("Whether the last cycle was the end of training is not in these files.")
            yield AttemptEnd(t=cycle.end_t, attempt=index, planned=True, reason="the cycle ended")


def _cycles(text: str, context: Context) -> list[_Cycle]:
    """The cycles in the order of their starts, each as its newest file has it."""
    decoder = json.JSONDecoder()
    clock = Clock(context)
    found: dict[tuple[str, int, int], _Cycle] = {}
    at = 0
    while (at := text.find("{", at)) >= 0 and len(found) < _MOST_CYCLES:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            context.skip(text.count("\n", 0, at) + 1, "JSON that is cut off or broken")
            following = text.find("\n{", at)
            if following < 0:
                break
            at = following + 1
            continue
        cycle = _cycle(value, clock) if isinstance(value, dict) else None
        if cycle is None:
            context.skip(text.count("\n", 0, at) + 1, "an object that is no cycle, or whose start can't be read")
        elif cycle.key not in found or found[cycle.key].generation < cycle.generation:
            found[cycle.key] = cycle
        at = end
    return sorted(found.values(), key=lambda cycle: (cycle.start_t, cycle.key))


def _cycle(value: dict[str, Any], clock: Clock) -> _Cycle | None:
    start_t, end_t = (_time(value.get(name), clock) for name in ("cycle_start_time", "cycle_end_time"))
    if start_t is None:
        return None
    end_t = end_t if end_t is not None and end_t >= start_t else None
    key = (str(value.get("job_id", ""))[:200], _whole(value.get("attempt_index")), _whole(value.get("cycle_number")))
    standby = value.get("standby_nodes")
    return _Cycle(
        key, start_t, end_t, _ranks(value.get("active_ranks")), bool(standby), _whole(value.get("generation"))
    )


def _time(value: object, clock: Clock) -> float | None:
    return clock.find(value[:60]) if isinstance(value, str) and value else None


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isdigit() and len(value) < 10:  # protobuf writes 64-bit numbers as text
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def _ranks(value: object) -> int | None:
    """How many ranks ``0-7,16`` names."""
    if not isinstance(value, str) or not value.strip():
        return None
    count = 0
    for part in value[:100_000].strip("[] ").split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        count += max(0, last - first + 1)
    return count or None
