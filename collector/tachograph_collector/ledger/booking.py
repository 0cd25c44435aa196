"""Segments booked into minutes and totals, and taken back from the point where the past is restated (rule 8)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct, field

from tachograph_collector.ledger.books import ACCOUNTS, Account, Minute, Restated, Segment

MINUTE_US: Final = 60_000_000
_INDEX: Final[dict[str, int]] = {account: place for place, account in enumerate(ACCOUNTS)}

Gpus = Callable[[Segment], Iterable[tuple[int, int | None, int | None]]]
"""For a segment: (length in us, GPUs held, GPUs worked with) for each stretch of it; None if nobody says."""


class Row(Struct):
    """One minute's booked time, and how often it was booked differently after it had ended."""

    us: list[int]
    revision: int = 1


def label(us: list[int]) -> Account:
    """The account with the most time; a tie goes to lost, then restart, then checkpoint."""
    kept, checkpoint, lost, restart = us
    if lost >= restart and lost >= checkpoint and lost >= kept:
        return "lost"
    if restart >= checkpoint and restart >= kept:
        return "restart"
    return "checkpoint" if checkpoint >= kept else "kept"


class Booking(Struct):
    """The books of one generation: its segments so far, its minutes and its sums, always equal to each other."""

    run: str
    segments: list[Segment] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    subs_us: Counter[str] = field(default_factory=Counter)
    causes_us: Counter[str] = field(default_factory=Counter)
    attempts_us: Counter[tuple[int, str]] = field(default_factory=Counter)
    gpu_us: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    closed_us: int = 0
    """Minutes that end before this had been booked at the last look: booked differently, they are restated."""
    restated: list[Restated] = field(default_factory=list)
    changed_minutes: set[int] = field(default_factory=set)
    """Minutes that were booked, or booked differently, since somebody last took what had changed."""
    changed_us: int | None = None
    """Since when segments differ from then; None if none does."""

    def rebook(self, since_us: int, segments: Iterable[Segment], gpus: Gpus, old_gpus: Gpus, horizon_us: int) -> None:
        """Replace everything from ``since_us`` on."""
        place = bisect_right(self.segments, since_us, key=lambda segment: segment.end_us)
        # What begins where the segment before ends may make that one longer.
        first = max(0, place - 1)
        stood = self.segments[first:]
        removed = self.segments[place:]
        del self.segments[place:]
        before: dict[int, list[int]] = {}
        for segment in removed:
            if segment.start_us < since_us:
                self._book(segment, -1, old_gpus, before)
                head = _until(segment, since_us)
                self._book(head, 1, gpus, before)
                self.segments.append(head)
            else:
                self._book(segment, -1, old_gpus, before)
        for segment in segments:
            self._book(segment, 1, gpus, before)
            last = self.segments[-1] if self.segments else None
            if last is not None and last.end_us == segment.start_us and _same(last, segment):
                self.segments[-1] = _until(last, segment.end_us)
            else:
                self.segments.append(segment)
        self._note_change(first, stood)
        self._restate(before)
        self.closed_us = max(self.closed_us, horizon_us // MINUTE_US * MINUTE_US)

    def _note_change(self, place: int, before: list[Segment]) -> None:
        """Remember from where on the segments from ``place`` on differ from those that were there ``before``."""
        now = self.segments
        same = 0
        while same < len(before) and place + same < len(now) and before[same] == now[place + same]:
            same += 1
        differ = [before[same].start_us] if same < len(before) else []
        differ += [now[place + same].start_us] if place + same < len(now) else []
        if differ:
            self.changed_us = min(differ) if self.changed_us is None else min(self.changed_us, *differ)

    def take_changes(self) -> tuple[set[int], int | None]:
        """Minutes booked differently since the last call, and since when segments differ (None: they don't)."""
        taken = (self.changed_minutes, self.changed_us)
        self.changed_minutes, self.changed_us = set(), None
        return taken

    def segments_since(self, since_us: int) -> list[Segment]:
        """The segments that begin at or after ``since_us``."""
        return self.segments[bisect_left(self.segments, since_us, key=lambda segment: segment.start_us) :]

    def _restate(self, before: dict[int, list[int]]) -> None:
        for minute, was in before.items():
            row = self.rows.get(minute)
            now = row.us if row is not None else [0, 0, 0, 0]
            if now != was:
                self.changed_minutes.add(minute)
            if any(was):
                self.labels[label(was)] -= 1
            if any(now):
                self.labels[label(now)] += 1
            elif row is not None:
                del self.rows[minute]
            if now != was and any(was) and (minute + 1) * MINUTE_US <= self.closed_us:
                revision = row.revision if row is not None else 1
                if row is not None:
                    row.revision += 1
                self.restated.append(
                    Restated(
                        self.run,
                        minute * MINUTE_US,
                        _minute(minute, was, revision, incomplete=False),
                        _minute(minute, now, revision + 1, incomplete=False) if any(now) else None,
                    )
                )

    def _book(self, segment: Segment, sign: int, gpus: Gpus, before: dict[int, list[int]]) -> None:
        length = sign * (segment.end_us - segment.start_us)
        self.subs_us[f"{segment.account}/{segment.sub}"] += length
        self.attempts_us[segment.attempt, segment.account] += length
        if segment.cause is not None:
            self.causes_us[segment.cause] += length
        for part, held, used in gpus(segment):
            self._book_gpus(segment.account, sign * part, held, used)
        account = _INDEX[segment.account]
        at = segment.start_us
        while at < segment.end_us:
            minute = at // MINUTE_US
            until = min(segment.end_us, (minute + 1) * MINUTE_US)
            row = self.rows.get(minute)
            if row is None:
                row = self.rows[minute] = Row([0, 0, 0, 0])
            if minute not in before:
                before[minute] = list(row.us)
            row.us[account] += sign * (until - at)
            at = until

    def _book_gpus(self, account: Account, us: int, held: int | None, used: int | None) -> None:
        if held is None:
            self.gpu_us["unknown"] += us
            return
        working = held if used is None or account == "restart" else min(held, used)
        self.gpu_us["held"] += us * held
        self.gpu_us[account] += us * working
        self.gpu_us["idle"] += us * (held - working)

    def minutes(self, incomplete: Callable[[int], bool]) -> list[Minute]:
        """All minutes in order."""
        return [
            _minute(minute, row.us, row.revision, incomplete=incomplete(minute))
            for minute, row in sorted(self.rows.items())
        ]

    def minute(self, minute: int, *, incomplete: bool) -> Minute | None:
        """One minute as it is booked; None if it has no time of the run."""
        row = self.rows.get(minute)
        return None if row is None else _minute(minute, row.us, row.revision, incomplete=incomplete)

    def take_restated(self) -> list[Restated]:
        """What was restated since the last call."""
        taken, self.restated = self.restated, []
        return taken


def _same(one: Segment, other: Segment) -> bool:
    return msgspec.structs.astuple(one)[2:] == msgspec.structs.astuple(other)[2:]


def _until(segment: Segment, end_us: int) -> Segment:
    return Segment(segment.start_us, end_us, *msgspec.structs.astuple(segment)[2:])


def _minute(minute: int, us: list[int], revision: int, *, incomplete: bool) -> Minute:
    return Minute(minute * MINUTE_US, us[0], us[1], us[2], us[3], label(us), revision, incomplete)
