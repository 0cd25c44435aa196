"""Ways to feed a ledger: in batches, from a source that counts, with so little memory that it must read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from tachograph_agent.events import AnyEvent
from tachograph_collector.ledger import Books, Details, Ledger, track

from ledger_oracle.order import at_us


class Fed:
    """A ``StepSource``: the events that a ledger was fed, and what was asked of them."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.asked_us: list[int] = []
        """Since when it was asked, each time."""

    def read(self, run: str, since_us: int) -> list[AnyEvent]:
        self.asked_us.append(since_us)
        return [event for event in self.events if event.run == run and at_us(event) >= since_us]


@contextmanager
def little_memory(keep: int, hold: int) -> Iterator[Counter[str]]:
    """Only ``keep`` steps are folded anew and ``hold`` are held; gives how often each of the rare things happened."""
    happened: Counter[str] = Counter()
    freeze, thaw, thin, read = track.Track.freeze, track.Track.thaw, track.Track._thin, Fed.read

    def counted_freeze(self: Any) -> None:
        before = len(self.anchors)
        freeze(self)
        happened["freeze"] += len(self.anchors) > before

    def counted_thaw(self: Any, at_us: int) -> None:
        before = len(self.anchors)
        thaw(self, at_us)
        happened["thaw"] += len(self.anchors) < before

    def counted_thin(self: Any) -> None:
        before = self.num_dropped
        thin(self)
        happened["drop"] += self.num_dropped > before

    def counted_read(self: Any, run: str, since_us: int) -> list[AnyEvent]:
        happened["read again"] += 1
        return read(self, run, since_us)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(track, "KEEP_STEPS", keep)
        patch.setattr(track, "HOLD_STEPS", hold)
        patch.setattr(track.Track, "freeze", counted_freeze)
        patch.setattr(track.Track, "thaw", counted_thaw)
        patch.setattr(track.Track, "_thin", counted_thin)
        patch.setattr(Fed, "read", counted_read)
        yield happened


def batches(events: Sequence[AnyEvent], size: int) -> Iterator[list[AnyEvent]]:
    """The events in batches of ``size``."""
    for start in range(0, len(events), size):
        yield list(events[start : start + size])


Whole = dict[str, tuple[Books, Details]]


def whole(ledger: Ledger, now_us: int | None = None, *, revisions: bool = False) -> Whole:
    """Everything that a ledger says; without ``revisions``, which tell how it came to say so, each of them is 1."""
    found: Whole = {}
    for run in ledger.runs(now_us):
        details = ledger.details(run, now_us)
        if not revisions:
            first = [msgspec.structs.replace(minute, revision=1) for minute in details.minutes]
            details = msgspec.structs.replace(details, minutes=first)
        found[run] = (ledger.books(run, now_us), details)
    return found


def unlike(one: Whole, other: Whole) -> list[str]:
    """What differs, in words short enough to read; empty if nothing does."""
    if list(one) != list(other):
        return [f"runs: {list(one)} and {list(other)}"]
    found = []
    for run in one:
        for left, right in zip(one[run], other[run], strict=True):
            for name in left.__struct_fields__:
                ours, theirs = getattr(left, name), getattr(right, name)
                if ours != theirs:
                    found.append(f"{run}.{name}: {ours!r:.300} and {theirs!r:.300}")
    return found
