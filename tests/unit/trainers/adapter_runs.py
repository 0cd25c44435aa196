"""Running an adapter over made-up lines, and the promises that every adapter keeps on damaged ones."""

from __future__ import annotations

from typing import Any

from tachograph_agent.events import AnyEvent, RunStart, Step, decode, encode
from tachograph_agent.trainers.base import Adapter, Context

START = 1_900_000_000.0


def read(adapter: Adapter, text: str, **told: Any) -> tuple[list[AnyEvent], Context]:
    context = Context(run="r7", **told)
    return list(adapter.read(text.splitlines(), context)), context


def of(events: list[AnyEvent], kind: str) -> list[Any]:
    return [event for event in events if event.kind == kind]


def steps(events: list[AnyEvent]) -> list[Step]:
    return [event for event in events if isinstance(event, Step)]


def assert_survives_damage(adapter: Adapter, text: str) -> None:
    """Cut at every 7th byte, and with 7 bytes torn out there: no exception, and only events that can be stored."""
    for at in range(0, len(text), 7):
        for damaged in (text[:at], text[at:], text[:at] + text[at + 7 :]):
            events, context = read(adapter, damaged)
            for event in events:
                again = decode(encode(event))
                assert again.kind == event.kind
                assert event.run == "r7"
            if any(not isinstance(event, RunStart) for event in events):
                assert any(event.kind == "run.start" for event in events) or not steps(events)
            assert context.skipped_lines >= 0


def assert_silent_on_nothing(adapter: Adapter) -> None:
    """Neither an empty log nor prose gives an event, and prose is not recognised."""
    prose = "Dear diary,\nthe step was steep, the loss was great; iter vitae: 7.\n{} [] : | = ,\n"
    assert adapter.sniff("") == 0.0
    assert adapter.sniff(prose) == 0.0
    for text in ("", "\n\n", prose):
        events, _ = read(adapter, text)
        assert events == []
