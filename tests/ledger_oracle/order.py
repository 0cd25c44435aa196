"""Order and identity of events, and lone broken clocks, as ``docs/event-log.md`` says them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    CheckpointDeleted,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    CheckpointStart,
    Failure,
    FailureWithdrawn,
    Health,
    Step,
    canonical,
    microseconds,
)

SECOND: Final = 1_000_000
DAY_US: Final = 86_400 * SECOND

SAVE_KINDS: Final = (CheckpointStart, CheckpointSaved, CheckpointPersisted, CheckpointFailed, CheckpointDeleted)

_PLACES: Final = {
    "step": 0,
    "phase": 1,
    "checkpoint.saved": 2,
    "checkpoint.persisted": 2,
    "checkpoint.failed": 2,
    "checkpoint.start": 3,
    "rollback": 4,
    "failure": 5,
    "attempt.end": 5,
    "run.end": 6,
    "run.start": 7,
    "attempt.start": 8,
}
_OTHERS: Final = 4
"""Kinds that the sentence does not name stand in the middle; nothing depends on it."""


def at_us(event: AnyEvent) -> int:
    """When it happened, in whole microseconds."""
    return microseconds(event.t)


def dur_us(event: AnyEvent) -> int | None:
    """How long it lasted, in whole microseconds; None if it does not say."""
    return None if event.dur is None else microseconds(event.dur)


def begun_us(event: AnyEvent) -> int:
    """When it began: ``t - dur``."""
    return at_us(event) - (dur_us(event) or 0)


def one_us(step: Step) -> int:
    """``one = dur / count``, in whole microseconds (0 without ``dur``)."""
    return (dur_us(step) or 0) // step.count


def rank_of(event: AnyEvent) -> int:
    """The rank; an event of no rank stands below all ranks."""
    return -1 if event.rank is None else event.rank


def attempt_name(event: AnyEvent) -> str | None:
    """The attempt's name as text: "0" if a step, save or start names none, None if another kind names none."""
    if event.attempt is not None:
        return str(event.attempt)
    return "0" if isinstance(event, (Step, AttemptStart, *SAVE_KINDS)) else None


def sort_key(event: AnyEvent) -> tuple[int, int, str]:
    """Time, then place of the kind at one time, then canonical JSON."""
    return at_us(event), _PLACES.get(event.kind, _OTHERS), canonical(event)


def identity(event: AnyEvent) -> tuple[object, ...]:
    """Events equal in this are one."""
    return (
        event.kind,
        event.run,
        attempt_name(event),
        event.node,
        event.rank,
        getattr(event, "step", None),
        getattr(event, "name", None),
        getattr(event, "tier", None),
        at_us(event),
        getattr(event, "of_t", None),
    )


def without_withdrawn(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Make every inferred failure that a withdrawal of the same attempt, node and rank names by its time no failure."""
    events = list(events)
    named = {
        (microseconds(event.of_t), attempt_name(event), event.node, event.rank)
        for event in events
        if isinstance(event, FailureWithdrawn)
    }
    return [
        # Something was heard then all the same.
        Health(t=event.t, run=event.run, check="withdrawn", detail=canonical(event))
        if isinstance(event, Failure)
        and event.inferred
        and (at_us(event), attempt_name(event), event.node, event.rank) in named
        else event
        for event in events
    ]


def in_order(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The set of events that stand, in order, each once."""
    events = without_withdrawn(events)
    seen: set[tuple[object, ...]] = set()
    unique: list[AnyEvent] = []
    for event in sorted(events, key=sort_key):
        if identity(event) not in seen:
            seen.add(identity(event))
            unique.append(event)
    return unique


def without_repeats(events: list[AnyEvent]) -> list[AnyEvent]:
    """Drop a step record that ends less than half of its own ``one`` after the last of that attempt, rank and step."""
    last: dict[tuple[str | None, int, int], int] = {}
    kept: list[AnyEvent] = []
    for event in events:
        if isinstance(event, Step):
            key = attempt_name(event), rank_of(event), event.step
            if key in last and 2 * (at_us(event) - last[key]) * event.count < (dur_us(event) or 0):
                continue
            last[key] = at_us(event)
        kept.append(event)
    return kept


def without_broken_clocks(events: list[AnyEvent]) -> tuple[list[AnyEvent], list[AnyEvent]]:
    """Set aside each lone event more than a day from every other; ``run.*``, ``attempt.*``, ``failure`` are exempt."""
    if len(events) < 2:
        return events, []
    kept: list[AnyEvent] = []
    aside: list[AnyEvent] = []
    times = [at_us(event) for event in events]
    for i, event in enumerate(events):
        exempt = event.kind.startswith(("run.", "attempt.", "failure"))
        far_before = i == 0 or times[i] - times[i - 1] > DAY_US
        far_after = i == len(events) - 1 or times[i + 1] - times[i] > DAY_US
        (aside if far_before and far_after and not exempt else kept).append(event)
    return kept, aside
