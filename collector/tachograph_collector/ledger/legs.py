"""What a track is folded into: legs (stretches of one lineage of work) and the pieces of time that they own."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

StepRow: TypeAlias = tuple[int, int, int, int]
"""A step record as the ledger holds it: end (us), step, ``dur`` (us; -1 if none was told), count."""

Piece: TypeAlias = tuple[int, int, str, int, int, int, int]
"""Start, end (us), what it is, steps after ``a`` up to ``b``, and for one record in several pieces the work before
this piece and the record's whole work (us). A whole of 0 marks a piece of many records, cut by looking them up."""

WORK: Final = frozenset({"train", "eval", "data_wait"})
SAVES: Final = frozenset({"save", "aborted"})
FAR: Final = 1 << 62
"""The end of a save that nothing has closed yet; cut where its attempt ends."""

NO_RANK: Final = 1 << 62
"""Stands for a record that names no rank: it leads only where no rank is named at all."""

SECOND: Final = 1_000_000
STALL_FLOOR_US: Final = 30 * SECOND
SURVIVAL_US: Final = 5 * SECOND
REOPEN_US: Final = 60 * SECOND


class Leg(Struct):
    """Work that goes on from one step without going back: an attempt, or the part of it after a rollback."""

    attempt: int
    """Which incarnation of the track it belongs to."""
    begin_us: int
    fixed: bool
    """Its beginning is known (a falling step, a rollback) and is not moved by what its records say."""
    place: int = 0
    """Its place among the track's legs."""
    rollback_reason: str | None = None
    """Why it began, if it began by a rollback."""
    start_us: int | None = None
    told: int | None = None
    """The ``resume_step`` that its start told."""
    told_rank: int | None = None
    world_size: int | None = None
    saved_first: int | None = None
    """The step of a save made before its first record."""
    stepped: bool = False
    resume: int | None = None
    """The step after which its first record works on, by the evidence."""
    disbelieved: bool = False
    first_step: int = 0
    work_begin_us: int = 0
    last_step: int = 0
    """The last step known to be done."""
    record_step: int = 0
    record_us: int = 0
    mark_us: int = 0
    """From where the next record owns time: the last record, or the last save that proves steps."""
    last_us: int = 0
    """The end of its last step or save."""
    one_dur: int = -1
    one_count: int = 1
    alive_us: int = -1
    """It survived what happened up to here: the latest of each step's beginning less max(5 s, its own time)."""
    first_piece: int = 0
    end_us: int | None = None
    """Where a rollback ended it."""
    holes: tuple[tuple[int, int], ...] = ()
    """Saves that end after ``mark_us``."""
    grow_start: int = -1
    """A piece of many records that still grows, from here to ``grow_end``; -1 if there is none."""
    grow_end: int = -1
    grow_after: int = 0
    grow_step: int = 0
    unit: tuple[tuple[int, int], ...] = ()
    """What the last record (or save that proves steps) owns so far; more may come until the next one closes it."""
    unit_after: int = 0
    unit_step: int = 0
    unit_dur: int = -1
    unit_count: int = 1
    unit_may_stall: bool = False

    @property
    def one_us(self) -> int:
        """The time of one step by the last record that told one; 0 if none did."""
        return self.one_dur // self.one_count if self.one_dur > 0 else 0

    @property
    def saves_from_us(self) -> int:
        """From when a save that begins is one of its own: at one time saves come before a rollback."""
        return self.begin_us if self.rollback_reason is None else self.begin_us + 1

    @property
    def known_step(self) -> int:
        """The last step known to be done, also where only a save tells it."""
        return self.last_step if self.stepped else (self.saved_first or 0)
