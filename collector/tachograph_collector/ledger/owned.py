"""What one record owns of its leg's time, from when it is told until the next one closes it and it becomes pieces.

A leg holds one such unit, and one piece of many records that grows as long as records hold nothing to look at. All
functions change the leg, and the pieces of its track, in place.
"""

from __future__ import annotations

from tachograph_collector.ledger.legs import FAR, WORK, Leg, Piece
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.stretch import pieces_of


def open_unit(
    leg: Leg,
    windows: tuple[tuple[int, int], ...],
    after: int,
    step: int,
    row: tuple[int, int],
    *,
    may_stall: bool,
) -> None:
    """From now on these windows are what the record of ``step`` owns; ``row`` is its time (us) and number of steps."""
    leg.unit, leg.unit_after, leg.unit_step = windows, after, step
    leg.unit_dur, leg.unit_count = row
    leg.unit_may_stall = may_stall


def close_unit(leg: Leg, pieces: list[Piece], phases: PhaseBook) -> None:
    """Turn what the last record owns into pieces, or let the growing piece take it."""
    if not leg.unit:
        return
    windows, leg.unit = leg.unit, ()
    own = pieces_of(
        windows,
        phases,
        (leg.unit_dur, leg.unit_count),
        leg.unit_may_stall and leg.unit_dur >= 0,
        leg.unit_after,
        leg.unit_step,
    )
    place = _place(leg, pieces, windows[0][0])
    alone = place == len(pieces)
    # A cut inside a piece of many records is found by looking the records up: what ends otherwise stays apart.
    plain = windows[-1][1] == leg.record_us and leg.unit_step == leg.record_step
    if alone and plain and leg.unit_may_stall and len(own) == 1 and own[0][2] == "train":
        start, end, *_ = own[0]
        if leg.grow_start >= 0 and leg.grow_end == start:
            leg.grow_end, leg.grow_step = end, leg.unit_step
            return
        if leg.grow_start < 0 and leg.unit_step > leg.unit_after:
            leg.grow_start, leg.grow_end = start, end
            leg.grow_after, leg.grow_step = leg.unit_after, leg.unit_step
            return
    flush(leg, pieces)
    place = _place(leg, pieces, windows[0][0])
    pieces[place:] = _rising(sorted([*pieces[place:], *own]))


def flush(leg: Leg, pieces: list[Piece]) -> None:
    """End the growing piece."""
    if leg.grow_start < 0:
        return
    piece = (leg.grow_start, leg.grow_end, "train", leg.grow_after, leg.grow_step, 0, 0)
    pieces.insert(_place(leg, pieces, leg.grow_start), piece)
    leg.grow_start = -1


def _place(leg: Leg, pieces: list[Piece], start_us: int) -> int:
    """Where a piece that starts at ``start_us`` stands among the leg's pieces: near the end, as a rule."""
    place = len(pieces)
    while place > leg.first_piece and pieces[place - 1][0] >= start_us:
        place -= 1
    return place


def finish(leg: Leg, pieces: list[Piece], phases: PhaseBook) -> None:
    """Nothing of this leg follows."""
    close_unit(leg, pieces, phases)
    flush(leg, pieces)


def move_mark(leg: Leg, t_us: int) -> None:
    """What was up to here is owned; saves that end before it are of no more concern."""
    leg.mark_us = max(leg.mark_us, t_us)
    leg.last_us = max(leg.last_us, t_us)
    if leg.holes:
        leg.holes = tuple(hole for hole in leg.holes if hole[1] > leg.mark_us)


def free_before(leg: Leg, pieces: list[Piece], t_us: int) -> list[tuple[int, int]]:
    """The time of the leg before ``t_us`` outside its saves, in order."""
    free: list[tuple[int, int]] = []
    at = leg.begin_us
    for low, high, name, *_ in pieces[leg.first_piece :]:
        if name in WORK:
            continue
        if low > at:
            free.append((at, min(low, t_us)))
        at = max(at, high)
    if at < t_us:
        free.append((at, t_us))
    return free


def end_open_save(leg: Leg, pieces: list[Piece], at_us: int) -> None:
    """A save that was never closed ends at the latest where something else begins."""
    if len(pieces) > leg.first_piece and pieces[-1][1] == FAR:
        start, _, name, *rest = pieces.pop()
        end = max(start, at_us)
        if end > start:
            pieces.append((start, end, name, rest[0], rest[1], rest[2], rest[3]))
        leg.holes = tuple((low, min(high, end)) for low, high in leg.holes)
        leg.last_us = max(leg.last_us, end)


def _rising(pieces: list[Piece]) -> list[Piece]:
    """A save inside what a record owns stands among that record's steps: steps never fall within a leg."""
    rising: list[Piece] = []
    step = 0
    for piece in pieces:
        if piece[4] < step:
            piece = (*piece[:3], step, step, 0, 0)
        step = piece[4]
        rising.append(piece)
    return rising


def joined(windows: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Neighbouring windows made one."""
    merged: list[tuple[int, int]] = []
    for low, high in windows:
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        elif low < high:
            merged.append((low, high))
    return tuple(merged)
