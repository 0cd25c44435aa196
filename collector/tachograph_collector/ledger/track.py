"""One attempt name's records, folded into legs and pieces as they arrive.

``fold`` goes over records in the log's order and is the only place where rules 2 to 4 and rollbacks are applied. It
runs on from a frozen position, so that a new record costs what it costs; what lies behind the position is touched only
if an event arrives for it (``thaw``): then folding goes on from the anchor before that event, over steps still held or
read again from the run's ``StepSource``. Whatever the order of arrival, the result is that of one pass in order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from copy import copy
from typing import Final

import msgspec
from msgspec import Struct
from tachograph_agent.events import AttemptStart, Rollback, microseconds

from tachograph_collector.ledger.fold import Fold
from tachograph_collector.ledger.legs import FAR, Leg, Piece, StepRow
from tachograph_collector.ledger.lifecycle import Lifecycle, Other
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.saves import SaveEvent
from tachograph_collector.ledger.state import AnchorState, TrackState, pack_events

KEEP_STEPS: Final = 1024
"""So many of the newest records are folded anew at each look, so that what comes a little late costs nothing more."""
HOLD_STEPS: Final = 32_768
"""So many records are held at most where older ones can be read again."""
MAX_RANKS_AHEAD: Final = 64

ReadSteps = Callable[[str, int, int, int], list[StepRow]]
"""Reads again: (attempt name, rank, after, up to and with; in us) -> that rank's records in order."""


class Anchor(Struct):
    """A position from which folding can go on: everything up to and with the record that ended at ``at_us``."""

    at_us: int
    num_steps: int
    num_legs: int
    num_pieces: int
    leg: Leg | None
    closed_us: int | None
    num_set_aside: int


class Track:
    """The records of one attempt name. Not thread-safe; one ledger owns it."""

    def __init__(self, name: str, phases: PhaseBook, fences: list[Other], reader: ReadSteps | None = None) -> None:
        self.name = name
        self.lead: int | None = None
        self.steps: list[StepRow] = []
        self.num_dropped = 0
        self.plain: dict[int, tuple[int, int]] = {}
        """Records with nothing to look at: from which on, counted since the first -> up to which, and ``alive_us``."""
        self.ahead: dict[int, list[StepRow]] = {}
        self.continued: list[StepRow] = []
        self.lifecycle = Lifecycle(fences)
        self.legs: list[Leg] = []
        self.pieces: list[Piece] = []
        self.num_set_aside = 0
        self.anchors: list[Anchor] = [Anchor(-1, 0, 0, 0, None, None, 0)]
        self.dirty_us: int | None = None
        self.reach_us = -1
        """The time of the latest record of any rank, save, start or rollback: nothing after it can change a piece."""
        self._phases = phases
        self._reader = reader
        self._unsorted = False
        self._stale = True

    def state(self) -> TrackState:
        """What is needed to go on from here."""
        self._sort()
        self.settle()
        anchor = self.anchors[-1]
        return TrackState(
            name=self.name,
            lead=self.lead,
            steps=self.steps,
            num_dropped=self.num_dropped,
            ahead=self.ahead,
            starts=pack_events([other[2] for other in self.lifecycle.starts]),  # type: ignore[misc]  # starts are events
            rollbacks=pack_events([other[2] for other in self.lifecycle.rollbacks]),  # type: ignore[misc]  # likewise
            save_logs=list(self.lifecycle.save_logs.values()),
            legs=self.legs[: anchor.num_legs],
            pieces=self.pieces[: anchor.num_pieces],
            anchors=[AnchorState(*msgspec.structs.astuple(known)) for known in self.anchors],
            num_set_aside=self.num_set_aside,
            reach_us=self.reach_us,
        )

    def restore(self, state: TrackState) -> None:
        """Take up a saved state."""
        self.lead, self.steps, self.num_dropped, self.ahead = state.lead, state.steps, state.num_dropped, state.ahead
        self.lifecycle.restore(state)
        self.legs, self.pieces = state.legs, state.pieces
        self.anchors = [Anchor(*msgspec.structs.astuple(known)) for known in state.anchors]
        self.num_set_aside = state.num_set_aside
        self.reach_us = state.reach_us

    @property
    def is_stale(self) -> bool:
        """Whether anything has come that is not folded yet."""
        return self._stale

    @property
    def is_unsorted(self) -> bool:
        """Whether records have arrived out of order since the last look."""
        return self._unsorted

    # -- arrivals ----------------------------------------------------------------------------------------------------

    def add_step(self, row: StepRow, rank: int) -> None:
        """Take one step record of one rank (-1 for none)."""
        lead = self.lead
        self.reach_us = max(self.reach_us, row[0])
        if lead is None:
            self.lead = lead = rank
        if rank == lead:
            self._add_lead_step(row)
        elif rank < lead:
            self._change_lead(row, rank)
        else:
            self._add_ahead(row, rank)

    def has_told(self, t_us: int, rank: int) -> bool:
        """Whether the lead has told of later than ``t_us``, so that a record of ``rank`` says nothing new."""
        lead = self.lead
        return (
            lead is not None and rank > lead and not self._unsorted and bool(self.steps) and t_us <= self.steps[-1][0]
        )

    def append_steps(self, rows: list[StepRow], alive_us: int | None) -> None:
        """Take records of the lead that are known to follow all others in order; ``alive_us`` as ``plain_until``."""
        if alive_us is not None:
            start = len(self.steps) + self.num_dropped
            self.plain[start] = (start + len(rows), alive_us)
        self.steps.extend(rows)
        self.reach_us = max(self.reach_us, rows[-1][0])
        self._stale = True
        if self.ahead:
            self._prune_ahead()
        if len(self.steps) + self.num_dropped - self.anchors[-1].num_steps > 2 * KEEP_STEPS:
            self.freeze()

    def _add_lead_step(self, row: StepRow) -> None:
        if row[0] <= self.anchors[-1].at_us:
            place = bisect_left(self.steps, row)
            if place < len(self.steps) and self.steps[place] == row:
                return
            self.thaw(row[0])
        if self.steps and self.steps[-1][0] >= row[0]:
            if self.steps[-1] == row:
                return
            # At one time, too: of two of one step the first in canonical order stays.
            self._unsorted = True
        self.steps.append(row)
        self._stale = True
        if self.ahead:
            self._prune_ahead()

    def _add_ahead(self, row: StepRow, rank: int) -> None:
        """Remember a record later than the lead's last: it counts if the lead has fallen silent.

        Whether it is of a greater step is asked at the end: after a rollback the lead's own steps are smaller again.
        """
        if self.steps and row[0] <= self.steps[-1][0] and not self._unsorted:
            return
        if rank not in self.ahead and len(self.ahead) >= MAX_RANKS_AHEAD:
            highest = max(self.ahead)
            if rank > highest:
                return
            del self.ahead[highest]
        rows = self.ahead.setdefault(rank, [])
        place = bisect_left(rows, row)
        if place == len(rows) or rows[place] != row:
            rows.insert(place, row)
            self._stale = True

    def _prune_ahead(self) -> None:
        if self._unsorted:
            return
        last = self.steps[-1]
        for rank, rows in list(self.ahead.items()):
            left = [row for row in rows if row[0] > last[0]]
            if left:
                self.ahead[rank] = left
            else:
                del self.ahead[rank]

    def _change_lead(self, row: StepRow, rank: int) -> None:
        """A lower rank reports steps: it is the lead, and what the old one told counts only beyond it."""
        self.thaw(0)
        old_lead, moved = self.lead, self.steps
        assert old_lead is not None
        self.lead, self.steps, self.num_dropped, self._unsorted = rank, [], 0, False
        self.plain.clear()
        self.ahead.pop(rank, None)
        self._add_lead_step(row)
        for earlier in moved:
            self._add_ahead(earlier, old_lead)

    def add_start(self, event: AttemptStart) -> None:
        """Take one ``attempt.start``."""
        self._take(event, self.lifecycle.add_start(event))

    def add_rollback(self, event: Rollback) -> None:
        """Take one ``rollback``."""
        self._take(event, self.lifecycle.add_rollback(event))

    def add_save(self, event: SaveEvent) -> None:
        """Take one report of a save."""
        self._take(event, self.lifecycle.add_save(event))

    def _take(self, event: AttemptStart | Rollback | SaveEvent, changed_us: int | None) -> None:
        self.reach_us = max(self.reach_us, microseconds(event.t))
        if changed_us is not None:
            self.touch(changed_us)

    def drop_rollback(self, event: Rollback) -> None:
        """Give up a rollback that belongs to another attempt after all."""
        self.lifecycle.drop_rollback(event)
        self.touch(microseconds(event.t))

    def touch(self, at_us: int) -> None:
        """Something changed at ``at_us``: fold anew from before it."""
        self._stale = True
        if at_us < self.anchors[-1].at_us:
            self.thaw(at_us)

    # -- folding -----------------------------------------------------------------------------------------------------

    def thaw(self, at_us: int) -> None:
        """Go back to an anchor before ``at_us``, reading steps again if they are not held any more."""
        while len(self.anchors) > 1 and self.anchors[-1].at_us >= at_us:
            self.anchors.pop()
        anchor = self.anchors[-1]
        self._mark_dirty(anchor)
        if anchor.num_steps < self.num_dropped:
            assert self._reader is not None, "steps are dropped only where they can be read again"
            assert self.lead is not None
            first_held = self.steps[0][0] - 1 if self.steps else 1 << 62
            self.steps[:0] = self._reader(self.name, self.lead, anchor.at_us, first_held)
            self.num_dropped = anchor.num_steps
        self._stale = True

    def _mark_dirty(self, anchor: Anchor) -> None:
        """Pieces from the anchor on may be others than before: from the first one on all of this attempt's."""
        start = anchor.at_us
        if anchor.num_steps == 0 and anchor.leg is None:
            if not self.pieces:
                return
            start = self.pieces[0][0]
        elif anchor.leg is not None and anchor.leg.unit:
            start = min(start, anchor.leg.unit[0][0])
        self.dirty_us = start if self.dirty_us is None else min(self.dirty_us, start)

    def freeze(self) -> None:
        """Fold for good all but the newest records."""
        self._sort()
        anchor = self.anchors[-1]
        last = self._boundary(len(self.steps) - KEEP_STEPS)
        # Records that end together are folded together: what else happened at that time comes after all of them.
        while 0 < last < len(self.steps) and self.steps[last - 1][0] == self.steps[last][0]:
            last += 1
        if last <= anchor.num_steps - self.num_dropped or last >= len(self.steps):
            return
        self._mark_dirty(anchor)
        fold = self._resume(anchor)
        fold.run(
            anchor.num_steps - self.num_dropped, last, self._others(anchor.at_us, self.steps[last - 1][0]), final=False
        )
        self._adopt(fold)
        self._mark_dirty(anchor)
        self.anchors.append(
            Anchor(
                self.steps[last - 1][0],
                last + self.num_dropped,
                len(self.legs),
                len(self.pieces),
                copy(self.legs[-1]) if self.legs else None,
                fold.closed_us,
                fold.num_set_aside,
            )
        )
        self._thin()

    def _boundary(self, last: int) -> int:
        """``last``, or the start of the plain records that it lies in, which are folded at one stroke."""
        for start, (end, _) in reversed(self.plain.items()):
            if start - self.num_dropped < last:
                return start - self.num_dropped if end - self.num_dropped > last else last
        return last

    def settle(self) -> None:
        """Bring ``legs`` and ``pieces`` up to everything that has arrived."""
        if not self._stale:
            return
        if len(self.steps) + self.num_dropped - self.anchors[-1].num_steps > 2 * KEEP_STEPS:
            self.freeze()
        self._sort()
        anchor = self.anchors[-1]
        self._mark_dirty(anchor)
        fold = self._resume(anchor)
        held = len(self.steps)
        self.continued = self._continuation()
        self.steps.extend(self.continued)
        fold.run(anchor.num_steps - self.num_dropped, len(self.steps), self._others(anchor.at_us, 1 << 62), final=True)
        self._adopt(fold)
        self._mark_dirty(anchor)
        del self.steps[held:]
        self._stale = False

    def _resume(self, anchor: Anchor) -> Fold:
        del self.legs[anchor.num_legs :]
        del self.pieces[anchor.num_pieces :]
        if anchor.leg is not None:
            self.legs[-1] = copy(anchor.leg)
        return Fold(
            self.steps,
            self.legs,
            self.pieces,
            self._phases,
            self.lead,
            anchor.closed_us,
            anchor.num_set_aside,
            self._opens_between,
            self.plain,
            self.num_dropped,
        )

    def _opens_between(self, after_us: int, before_us: int) -> bool:
        """Whether something in [after, before) opens another leg."""
        return self.lifecycle.opens_between(after_us, before_us, self.lead)

    def _adopt(self, fold: Fold) -> None:
        self.num_set_aside = fold.num_set_aside

    def _others(self, from_us: int, before_us: int) -> list[Other]:
        """What is no step in [from, before), in the log's order."""
        first_us = FAR
        if not self.num_dropped:
            first_us = min(self.lifecycle.first_us, self.steps[0][0] if self.steps else FAR)
        return self.lifecycle.between(from_us, before_us, first_us, self.latest_us)

    @property
    def latest_us(self) -> int:
        """When the last of its records ended: what happens to the run after it is nothing to this track."""
        ends = [self.lifecycle.last_us]
        ends += [self.steps[-1][0]] if self.steps else []
        ends += [rows[-1][0] for rows in self.ahead.values()]
        return max(ends)

    def _continuation(self) -> list[StepRow]:
        """The records of higher ranks that go on where the lead has fallen silent, the lowest of them first."""
        if not self.ahead or not self.steps:
            return []
        rows: list[StepRow] = []
        last = self.steps[-1]
        for rank in sorted(self.ahead):
            further = [row for row in self.ahead[rank] if row[1] > last[1] and row[0] > last[0]]
            if further:
                rows.extend(further)
                last = further[-1]
        return rows

    def _sort(self) -> None:
        """Bring the held records into order; of two that share time and step the first in canonical order stays."""
        if not self._unsorted:
            return
        self.plain.clear()
        self.steps.sort(key=step_key)
        kept: list[StepRow] = []
        for row in self.steps:
            if kept and kept[-1][0] == row[0] and kept[-1][1] == row[1]:
                continue
            kept.append(row)
        self.steps[:] = kept
        self._unsorted = False
        if self.ahead:
            self._prune_ahead()

    def _thin(self) -> None:
        """Let go of steps that a landed checkpoint covers, and of every other anchor once there are very many."""
        if self._reader is None or len(self.steps) < 4 * KEEP_STEPS:
            return
        leg, saves = self.legs[-1], self.lifecycle.saves
        landed = next((save.step for save in reversed(saves) if save.landed), 0)
        if not saves or saves[-1].begin_us < leg.saves_from_us:
            landed = 0
        floor = 0
        for anchor in reversed(self.anchors):
            too_many = self.anchors[-1].num_steps - anchor.num_steps > HOLD_STEPS
            if too_many or (anchor.leg is not None and anchor.leg.last_step <= landed):
                floor = anchor.num_steps
                break
        if floor > self.num_dropped:
            del self.steps[: floor - self.num_dropped]
            self.num_dropped = floor
            self.plain = {start: run for start, run in self.plain.items() if start >= floor}
        if len(self.anchors) > 4096:
            self.anchors[1:-1024] = self.anchors[1:-1024:2]

    def cut_us(self, piece: Piece, step: int) -> int:
        """When ``step`` was done, in a piece of many records; a record that straddles it is split in proportion."""
        start, end, _, after, _, _, _ = piece
        rows = [*self.steps, *self.continued] if self.continued else self.steps
        low = bisect_right(rows, start, key=_row_time)
        if self.num_dropped and (not rows or rows[0][0] > start):
            assert self._reader is not None
            assert self.lead is not None
            rows = self._reader(self.name, self.lead, start, end)
            low = 0
        at, done = start, after
        for row in rows[low:]:
            if row[0] > end or row[1] <= done:
                if row[0] > end:
                    break
                continue
            if row[1] >= step:
                return at + (row[0] - at) * (step - done) // (row[1] - done)
            at, done = row[0], row[1]
        return at


def step_key(row: StepRow) -> tuple[int, int, str]:
    """Time, step, then the canonical JSON of what else the ledger reads of a record."""
    count = "" if row[3] == 1 else f'"count":{row[3]},'
    return (row[0], row[1], count if row[2] < 0 else f'{count}"dur":{row[2] / 1e6!r}')


def _row_time(row: StepRow) -> int:
    return row[0]
