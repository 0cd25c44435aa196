"""Several clocks, one time: a run is judged by the clock of its lead, and each node's words are placed on that.

All ranks of synchronous training end a step together. So what a rank tells of a step that the lead tells too says how
far its clock is off, and agents tell how far theirs is. The books use the times as they were told, by the lead's own
records; here the words of a node whose clock is off would come too late to be heard, or drive time ahead of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct, field
from tachograph_agent.events import AnyEvent, Health, Heartbeat, Step, microseconds

from tachograph_collector.detect.columns import Array, Flags, StepColumns
from tachograph_collector.detect.course import SECOND_US
from tachograph_collector.detect.xids import extra_of

OFF_US: Final = 2 * SECOND_US
"""A clock is off from here on; less is how ranks differ, and what settling allows for."""
AHEAD_US: Final = 10 * SECOND_US
"""Of steps done again, a record so far beyond all that the lead has told is compared although it isn't due ..."""
RECENT_US: Final = 30 * SECOND_US
"""... where the lead told its step so recently, as is any record of a step that its rank tells for the first time:
what is older may be done again now, after a rollback."""
EARLIER_US: Final = 10 * SECOND_US
"""A clock that was set is told so much later at the most."""
SAME_US: Final = SECOND_US
MAX_SEGMENTS: Final = 100
MAX_NODES: Final = 50_000
MAX_ATTEMPTS: Final = 3
MAX_LEAD: Final = 20_000
MAX_AGAIN: Final = 8
"""So many times that the lead did one step are compared with."""
_EVER_US: Final = -(2**62)


class Segments(Struct):
    """How far a clock is ahead of the lead's, by the time (on the lead's) from which on it is."""

    from_us: list[int] = field(default_factory=list)
    ahead_us: list[int] = field(default_factory=list)

    def add(self, from_us: int, ahead_us: int) -> None:
        """It is ``ahead_us`` ahead from then on."""
        if self.ahead_us and (abs(self.ahead_us[-1] - ahead_us) <= SAME_US or from_us <= self.from_us[-1] + SAME_US):
            return  # another rank of the node has told it
        self.from_us.append(from_us)
        self.ahead_us.append(ahead_us)
        del self.from_us[:-MAX_SEGMENTS], self.ahead_us[:-MAX_SEGMENTS]

    def at(self, told_us: int) -> int:
        """How far it was ahead when it said ``told_us``."""
        for from_us, ahead_us in zip(reversed(self.from_us), reversed(self.ahead_us), strict=True):
            if told_us - ahead_us >= from_us - EARLIER_US:
                return ahead_us
        return self.ahead_us[0] if self.ahead_us else 0


class Lead(Struct):
    """What the lead of an attempt told, and whose clocks are off by that."""

    rank: int
    steps: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    t_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranks: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Ranks whose clocks are off, in order."""
    ahead_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    judged: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Ranks that records were judged of, in order."""
    judged_steps: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The greatest step of each."""
    judged_us: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The newest time of each, by the lead's clock."""
    waits_from_us: int | None = None
    """How far the lead had come when records came that may yet show to be by a clock that was set back."""


class ClocksState(Struct):
    """What is saved."""

    leads: dict[str, Lead] = field(default_factory=dict)
    """By attempt; of the last ones."""
    stepped: dict[str, Segments] = field(default_factory=dict)
    """Of nodes whose steps show that their clock is off."""
    told: dict[str, Segments] = field(default_factory=dict)
    """Of nodes whose agent told how far its clock is off the collector's."""


class Clocks:
    """Places what nodes told on the clock of the lead."""

    def __init__(self, state: ClocksState) -> None:
        self.state = state

    # -- what is told of clocks --------------------------------------------------------------------------------------

    def hear(self, events: Iterable[AnyEvent]) -> None:
        """Take what agents tell of their own clocks."""
        for event in events:
            if isinstance(event, Heartbeat):
                more = event.unknown_fields
                offset_s = more.get("clock_offset_s") if isinstance(more, dict) else None
                self._told(event, offset_s, is_set=False)
            elif isinstance(event, Health) and event.check == "clock":
                self._told(event, event.value, is_set=extra_of(event).get("subject") == "set")

    def _told(self, event: Heartbeat | Health, seconds: object, *, is_set: bool) -> None:
        if event.node is None or isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return
        if not abs(seconds) < 1e9:
            return
        told = self.state.told
        mine = told.get(event.node)
        if mine is None:
            if len(told) >= MAX_NODES:
                return
            mine = told[event.node] = Segments()
        # Told is the collector's clock less the node's, or by how much the node's was set.
        before_us = mine.ahead_us[-1] if mine.ahead_us else 0
        ahead_us = before_us + round(seconds * 1e6) if is_set else -round(seconds * 1e6)
        if abs(ahead_us) <= OFF_US:
            ahead_us = 0
        if is_set and not mine.ahead_us:
            mine.add(_EVER_US, 0)
        mine.add(microseconds(event.t) - ahead_us if mine.ahead_us else _EVER_US, ahead_us)

    # -- events that are no steps ------------------------------------------------------------------------------------

    def place(self, event: AnyEvent, lead_node: str | None, with_steps: Iterable[str | None]) -> int:
        """When an event was, on the lead's clock; microseconds. ``with_steps``: nodes whose ranks tell steps."""
        t_us = microseconds(event.t)
        node = event.node
        if node is None or node == lead_node or isinstance(event, Step):
            return t_us
        stepped, told = self.state.stepped.get(node), self.state.told.get(node)
        by_told_us = t_us if told is None else t_us - self._off(told.at(t_us) - self._lead_ahead_us(lead_node, t_us))
        if isinstance(event, Health):
            if by_told_us != t_us or stepped is None:
                return by_told_us
            return t_us - stepped.at(t_us)
        if stepped is not None:
            return t_us - stepped.at(t_us)
        if by_told_us == t_us or node not in with_steps:
            return by_told_us
        # Its recorder took the clock before it was set, its agent didn't; only one of the two can be where the run is.
        newest_us = self.newest_us
        is_beyond = newest_us is not None and t_us > newest_us + AHEAD_US and by_told_us <= newest_us + AHEAD_US
        return by_told_us if is_beyond else t_us

    def _lead_ahead_us(self, lead_node: str | None, t_us: int) -> int:
        told = None if lead_node is None else self.state.told.get(lead_node)
        return 0 if told is None else told.at(t_us)

    @staticmethod
    def _off(ahead_us: int) -> int:
        return ahead_us if abs(ahead_us) > OFF_US else 0

    def is_known(self, node: str) -> bool:
        """Whether it was told how far the node's clock is off."""
        return node in self.state.told or node in self.state.stepped

    # -- steps -------------------------------------------------------------------------------------------------------

    @property
    def newest_us(self) -> int | None:
        """The newest that leads have told."""
        return max((int(one.t_us.max()) for one in self.state.leads.values() if len(one.t_us)), default=None)

    def newest_step(self, attempt: str) -> tuple[int, int] | None:
        """The newest record that the lead of an attempt has told: when, and the step."""
        lead = self.state.leads.get(attempt)
        if lead is None or not len(lead.t_us):
            return None
        place = int(lead.t_us.argmax())
        return int(lead.t_us[place]), int(lead.steps[place])

    def may_be_behind(self, attempt: str, columns: StepColumns, mine: Flags, done_us: int) -> Flags:
        """Which of its records (``mine``) would be late by their times, but the lead is yet to tell when they were.

        Those of steps that it hasn't reached; and for a while those that are older than what their rank told before:
        when steps are done again, the lead may have told only their first time.
        """
        lead, told = self.state.leads.get(attempt), self.newest_step(attempt)
        if lead is None or told is None:
            return np.zeros(len(columns), dtype=np.bool_)
        horizon_us, newest_step = told
        is_late = mine & (columns.t_us <= done_us)
        waits: Flags = is_late & (columns.step > newest_step)
        went_back = is_late & ~waits & (columns.rank != lead.rank)
        went_back &= columns.t_us < _of_rank(lead.judged, lead.judged_us, columns.rank, _EVER_US) - OFF_US
        if not went_back.any():
            lead.waits_from_us = None
            return waits
        if lead.waits_from_us is None:
            lead.waits_from_us = horizon_us
        if horizon_us - lead.waits_from_us > AHEAD_US:
            lead.waits_from_us = None  # it went on, and they fit nothing of that: they are late
            return waits
        waits |= went_back
        return waits

    def take(self, columns: StepColumns) -> StepColumns:
        """Note what leads tell; gives the records on the lead's clock, as far as it is known now."""
        leads = self.state.leads
        t_us, moved_us = columns.t_us, columns.moved_us
        for index, name in enumerate(columns.attempt):
            mine = columns.attempt_index == index if len(columns.attempt) > 1 else slice(None)
            ranks = columns.rank[mine]
            if not len(ranks):
                continue
            lowest = int(ranks.min())
            lead = leads.get(name)
            if lead is None or lowest < lead.rank:
                before = lead
                lead = leads[name] = Lead(lowest)
                if before is not None:
                    lead.judged, lead.judged_steps, lead.judged_us = (
                        before.judged,
                        before.judged_steps,
                        before.judged_us,
                    )
                while len(leads) > MAX_ATTEMPTS:
                    del leads[next(iter(leads))]
            is_lead = ranks == lead.rank
            if is_lead.any():
                lead.steps = np.concatenate([lead.steps, columns.step[mine][is_lead]])
                lead.t_us = np.concatenate([lead.t_us, columns.t_us[mine][is_lead]])
            if len(lead.ranks):
                if t_us is columns.t_us:
                    t_us, moved_us = t_us.copy(), moved_us.copy()
                by_us = _of_rank(lead.ranks, lead.ahead_us, ranks, 0)
                t_us[mine] -= by_us
                moved_us[mine] += by_us
        return columns if t_us is columns.t_us else msgspec.structs.replace(columns, t_us=t_us, moved_us=moved_us)

    def lead_is(self, attempt: str, rank: int, columns: StepColumns) -> None:
        """Another rank is judged by, since the lead fell silent; ``columns`` are on the lead's clock."""
        lead = self.state.leads.get(attempt)
        if lead is not None and lead.rank != rank:
            is_new = columns.rank == rank
            place = np.searchsorted(lead.ranks, rank)
            if place < len(lead.ranks) and lead.ranks[place] == rank:
                return  # by a clock that is off, nobody else's is judged
            lead.rank, lead.steps, lead.t_us = rank, columns.step[is_new], columns.t_us[is_new]

    def correct(self, columns: StepColumns, until_us: int | None, known: Mapping[int, object]) -> StepColumns:
        """Compare with the lead what it has told the step of, or what is due by ``until_us`` (None: all).

        ``columns`` are in the order of time, and were taken. ``known``: ranks that were compared before. Whoever is
        found to be off is placed anew with all that is held of it, whether due or not: it would be late by the time
        at which it seems to be due.
        """
        t_us, moved_us = columns.t_us, columns.moved_us
        num_due = len(t_us) if until_us is None else int(np.searchsorted(t_us, until_us, side="right"))
        is_moved = False
        for index, name in enumerate(columns.attempt):
            lead = self.state.leads.get(name)
            if lead is None or not len(lead.t_us):
                continue
            rows = np.nonzero(columns.attempt_index == index)[0] if len(columns.attempt) > 1 else np.arange(len(t_us))
            if not len(rows):
                continue
            ranks, steps = columns.rank[rows], columns.step[rows]
            off_us, is_told, is_recent, is_certain = _off_lead(lead, ranks, steps, t_us[rows], moved_us[rows] != 0)
            is_other = ranks != lead.rank
            if not (is_other & is_told & (np.abs(off_us) > OFF_US)).any():
                continue
            is_due = rows < num_due
            if _is_done_again(lead, ranks, steps):
                # It may be the next time that the lead's word is yet to come of.
                is_due |= t_us[rows] > int(lead.t_us.max()) + AHEAD_US
                is_told &= is_due & is_certain
            else:
                is_told &= is_due | is_recent
            is_told &= is_other
            off_ranks = np.unique(ranks[is_told & (np.abs(off_us) > OFF_US)])
            if not len(off_ranks):
                continue
            is_off = np.isin(ranks, off_ranks)
            if not is_moved:
                t_us, moved_us, is_moved = t_us.copy(), moved_us.copy(), True
            by_us = self._note(name, lead, columns, rows[is_off], off_us[is_off], is_told[is_off], known)
            t_us[rows[is_off]] -= by_us
            moved_us[rows[is_off]] += by_us
        if not is_moved:
            return columns
        columns = msgspec.structs.replace(columns, t_us=t_us, moved_us=moved_us)
        return columns.take(np.lexsort((columns.step, columns.rank, t_us)))

    def _note(
        self,
        name: str,
        lead: Lead,
        columns: StepColumns,
        rows: Array,
        off_us: Array,
        compared: Array,
        known: Mapping[int, object],
    ) -> Array:
        """Remember by how much ranks are off, and their nodes since when; gives how far each record is to be moved.

        ``rows``: all that is held of these ranks, at least one of each ``compared``.
        """
        by_us = np.zeros(len(rows), dtype=np.int64)
        ranks, nodes = columns.rank[rows], columns.nodes.get(name, {})
        ahead = dict(zip(lead.ranks.tolist(), lead.ahead_us.tolist(), strict=True))
        order = np.argsort(ranks, kind="stable")
        begins = np.searchsorted(ranks[order], np.unique(ranks))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], strict=True):
            rank = int(ranks[order[begin]])
            mine = order[begin:end]
            at_us = columns.t_us[rows[mine]]
            told = np.nonzero(compared[mine])[0]
            off = np.where(np.abs(off_us[mine[told]]) > OFF_US, off_us[mine[told]], 0)
            # What can't be compared is off by as much as what its rank told next to it.
            after = np.minimum(np.searchsorted(told, np.arange(len(mine))), len(told) - 1)
            before = np.maximum(after - 1, 0)
            is_after = np.abs(at_us[told[after]] - at_us) <= np.abs(at_us[told[before]] - at_us)
            by_us[mine] = np.where(is_after, off[after], off[before])
            # What is held may have been placed by what was known then: as it was told, it is ahead by both together.
            ahead_us = columns.moved_us[rows[mine]] + by_us[mine]
            on_lead_us = at_us - by_us[mine]
            ahead[rank] = self._off(int(ahead_us[told[np.argmax(on_lead_us[told])]]))
            node = nodes.get(rank)
            if node is None or node == nodes.get(lead.rank) or len(self.state.stepped) >= MAX_NODES:
                continue
            segments = self.state.stepped.setdefault(node, Segments())
            if not segments.ahead_us and rank in known:
                segments.add(_EVER_US, 0)
            in_order = np.argsort(on_lead_us, kind="stable")
            on_lead_us, ahead_us = on_lead_us[in_order], ahead_us[in_order]
            for turn in [0, *(np.nonzero(np.abs(np.diff(ahead_us)) > SAME_US)[0] + 1).tolist()]:
                since_us = int(on_lead_us[turn]) if segments.ahead_us else _EVER_US
                segments.add(since_us, int(ahead_us[turn]))
        off_ranks = sorted(ahead.items())
        lead.ranks = np.array([rank for rank, _ in off_ranks], dtype=np.int64)
        lead.ahead_us = np.array([us for _, us in off_ranks], dtype=np.int64)
        return by_us

    def judged(self, columns: StepColumns) -> None:
        """Note up to which step and time each rank's records were judged."""
        for index, name in enumerate(columns.attempt):
            lead = self.state.leads.get(name)
            mine = columns.attempt_index == index
            if lead is None or not mine.any():
                continue
            ranks = np.concatenate([lead.judged, columns.rank[mine]])
            steps = np.concatenate([lead.judged_steps, columns.step[mine]])
            lead.judged, place = np.unique(ranks, return_inverse=True)
            times_us = np.concatenate([lead.judged_us, columns.t_us[mine]])
            lead.judged_steps = np.full(len(lead.judged), -1, dtype=np.int64)
            lead.judged_us = np.full(len(lead.judged), _EVER_US, dtype=np.int64)
            np.maximum.at(lead.judged_steps, place, steps)
            np.maximum.at(lead.judged_us, place, times_us)

    def forget(self, before_us: int) -> None:
        """What leads told long before then is compared with no more."""
        for lead in self.state.leads.values():
            if len(lead.t_us) > 2 * MAX_LEAD:
                stays = lead.t_us > before_us
                stays[-MAX_LEAD:] = True
                lead.steps, lead.t_us = lead.steps[stays], lead.t_us[stays]


def _of_rank(known: Array, values: Array, ranks: Array, otherwise: int) -> Array:
    """The value of each rank, from those of the ``known`` ones, which are in order."""
    if not len(known):
        return np.full(len(ranks), otherwise, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, ranks), len(known) - 1)
    return np.where(known[place] == ranks, values[place], otherwise)


def _is_done_again(lead: Lead, ranks: Array, steps: Array) -> bool:
    """Whether ranks tell steps that they have told before: the run, or its log, has gone back."""
    if (steps <= _of_rank(lead.judged, lead.judged_steps, ranks, -1)).any():
        return True
    order = np.lexsort((steps, ranks))
    return bool(((np.diff(ranks[order]) == 0) & (np.diff(steps[order]) == 0)).any())


def _off_lead(
    lead: Lead, ranks: Array, steps: Array, t_us: Array, is_moved: Flags
) -> tuple[Array, Array, Array, Array]:
    """How much later than the lead each record tells its step (0 where the lead didn't), and three flags of each.

    Whether the lead told the step; whether it did of late; and whether, if it did it again by then, it surely told so.
    """
    order = np.lexsort((lead.t_us, lead.steps))
    lead_steps, lead_us = lead.steps[order], lead.t_us[order]
    after = np.searchsorted(lead_steps, steps, side="right")
    times = np.minimum(after - np.searchsorted(lead_steps, steps), MAX_AGAIN)
    horizon_us = int(lead.t_us.max())
    # It can't be of before what its rank did last, unless even that was told by a clock that nobody knew. But what
    # comes late by a clock that is right is no sign of one that is off.
    since_us = _of_rank(lead.judged, lead.judged_us, ranks, _EVER_US)
    since_us = np.where(since_us > horizon_us + OFF_US, _EVER_US, since_us) - OFF_US
    off_us = np.full(len(steps), 2**62, dtype=np.int64)
    for back in range(1, int(times.max()) + 1):
        at_us = lead_us[np.maximum(after - back, 0)]
        is_nearer = (times >= back) & (np.abs(t_us - at_us) < np.abs(off_us))
        is_nearer &= (at_us >= since_us) | (~is_moved & (np.abs(t_us - at_us) <= OFF_US))
        off_us = np.where(is_nearer, t_us - at_us, off_us)
    is_told = off_us < 2**62
    off_us = np.where(is_told, off_us, 0)
    is_recent = is_told & (t_us - off_us >= horizon_us - RECENT_US)
    is_certain = (t_us <= horizon_us + OFF_US) | ((t_us > horizon_us + AHEAD_US) & is_recent)
    return off_us, is_told, is_recent, is_certain
