"""Failures and ends of attempts as they were told, less the inferred ones that were withdrawn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    Failure,
    FailureWithdrawn,
    RunEnd,
    RunStart,
    canonical,
    decode,
    encode,
    microseconds,
)

EndEvent = Failure | AttemptEnd
Name: TypeAlias = tuple[int, str | None, str | None, int | None]
"""What a withdrawal names a failure by: its time, attempt, node and rank."""


class EndLog:
    """Holds what was told and what was withdrawn, so that the order of arrival makes no difference."""

    def __init__(self) -> None:
        self._told: list[EndEvent] = []
        self._withdrawn: dict[Name, FailureWithdrawn] = {}
        self._standing: list[EndEvent] | None = None

    def add(self, event: EndEvent | FailureWithdrawn) -> None:
        """Take one event."""
        self._standing = None
        if not isinstance(event, FailureWithdrawn):
            insert(self._told, event)
            return
        name = (microseconds(event.of_t), *_whose(event))
        known = self._withdrawn.get(name)
        if known is None or order(event) < order(known):
            self._withdrawn[name] = event

    def standing(self) -> list[EndEvent]:
        """Those that count, in order; of two that are one, the first in canonical order."""
        if self._standing is None:
            seen: set[tuple[object, ...]] = set()
            self._standing = []
            for event in self._told:
                if _is_inferred(event) and _name(event) in self._withdrawn:
                    continue
                # An inferred failure and a told one of one name are held apart until it is known which are withdrawn.
                if key(event) not in seen:
                    seen.add(key(event))
                    self._standing.append(event)
        return self._standing

    @property
    def num_void(self) -> int:
        """Withdrawals that name no inferred failure."""
        if not self._withdrawn:
            return 0
        return len(self._withdrawn.keys() - {_name(event) for event in self._told if _is_inferred(event)})

    def state(self) -> list[bytes]:
        """All of it as lines of the log."""
        return [encode(event) for event in (*self._told, *self._withdrawn.values())]

    @classmethod
    def restored(cls, lines: Sequence[bytes]) -> EndLog:
        """What ``state`` told."""
        log = cls()
        for event in map(decode, lines):
            assert isinstance(event, Failure | AttemptEnd | FailureWithdrawn)
            log.add(event)
        return log


def insert(known: list[EndEvent] | list[RunStart | RunEnd], event: EndEvent | RunStart | RunEnd) -> bool:
    """Insert in the log's order; of two that are one, the first in canonical order stays. False if nothing changed."""
    entries: list[AnyEvent] = known  # type: ignore[assignment]  # one routine for both lists of events
    place = bisect_left(entries, event.t, key=_time)
    at = place
    while at < len(entries) and entries[at].t == event.t:
        same = key(entries[at]) == key(event) and _is_inferred(entries[at]) == _is_inferred(event)
        if same and order(entries[at]) <= order(event):
            return False
        if same:
            del entries[at]
            break
        at += 1
    entries.insert(bisect_left(entries, order(event), place, key=order), event)
    return True


def key(event: AnyEvent) -> tuple[object, ...]:
    """What makes two events one: kind, attempt, node, rank and time (of those kinds that have no more)."""
    return (event.kind, event.t, *_whose(event))


def order(event: AnyEvent) -> tuple[float, str]:
    """The log's order among events of these kinds."""
    return (event.t, canonical(event))


def _whose(event: AnyEvent) -> tuple[str | None, str | None, int | None]:
    return (None if event.attempt is None else str(event.attempt), event.node, event.rank)


def _name(event: AnyEvent) -> Name:
    return (microseconds(event.t), *_whose(event))


def _is_inferred(event: AnyEvent) -> bool:
    return isinstance(event, Failure) and event.inferred


def _time(event: AnyEvent) -> float:
    return event.t
