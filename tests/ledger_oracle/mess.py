"""What happens to logs: events lost, told twice, told late or by a wrong clock, fields left out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tachograph_agent.events import AnyEvent, from_dict, to_dict

KINDS: Final = ("lose", "lose", "twice", "jitter", "far", "field", "rename", "step")
"""Everything that happens."""

MILD: Final = ("lose", "lose", "again")
"""What happens every day: lost events, and events delivered twice."""


def messed(
    events: Sequence[AnyEvent], chance: random.Random, share: float = 0.1, kinds: Sequence[str] = KINDS
) -> list[AnyEvent]:
    """Some of the events (``share`` of them) lost, doubled, moved in time, or short of a field; the order shuffled."""
    found: list[AnyEvent] = []
    for event in events:
        if chance.random() >= share:
            found.append(event)
            continue
        found += changed(event, chance, kinds)
    chance.shuffle(found)
    return found


def changed(event: AnyEvent, chance: random.Random, kinds: Sequence[str] = KINDS) -> list[AnyEvent]:
    """What is left of one event."""
    raw = to_dict(event)
    what = chance.choice(kinds)
    if what == "lose":
        return []
    if what == "again":
        return [event, event]
    if what == "twice":
        return [event, from_dict({**raw, "t": round(raw["t"] + chance.choice([0, 0.25, 1, 30]), 3)})]
    if what == "jitter":
        raw["t"] = round(raw["t"] + chance.randrange(-20, 21) / 4, 3)
    elif what == "far":
        raw["t"] = round(raw["t"] + chance.choice([-1, 1]) * chance.randrange(1, 400), 3)
    elif what == "field":
        for name in chance.sample(["dur", "attempt", "status", "mode", "resume_step", "node", "planned"], 2):
            raw.pop(name, None)
    elif what == "rename":
        raw["attempt"] = chance.randrange(0, 4)
    elif what == "step" and raw["kind"] == "step":
        raw["step"] = max(0, raw["step"] + chance.randrange(-3, 4))
        if chance.random() < 0.5:
            raw["count"] = chance.randrange(1, 4)
    return [from_dict(raw)]
