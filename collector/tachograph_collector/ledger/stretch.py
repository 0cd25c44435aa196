"""How much of the time between two records is work, evaluation, waiting or a stall (rules 3 and 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import sub

from tachograph_collector.ledger.legs import STALL_FLOOR_US, SURVIVAL_US, WORK, Piece
from tachograph_collector.ledger.phases import PhaseBook


def stall_us(owned_us: int, eval_us: int, dur_us: int, steps: int, count: int) -> int:
    """The part of ``owned_us`` that is a stall, 0 if none.

    ``dur_us`` is the time of ``count`` steps, so ``steps`` of them are expected to take ``dur_us * steps / count``. The
    excess over it is a stall where it is more than 30 s, more than five steps' time and more than half the expected
    time. Example: 100 s for 10 steps of 2 s: 80 s of stall; 45 s for them: none (25 s is under 30 s).
    """
    expected = dur_us * steps // count
    excess = owned_us - eval_us - expected
    if excess > STALL_FLOOR_US and excess * count > 5 * dur_us and 2 * excess > expected:
        return excess
    return 0


def plain_until(
    times_us: Sequence[int],
    apart_us: Sequence[int],
    numbers: Sequence[int],
    durations_us: Sequence[int],
    counts: Sequence[int],
) -> int | None:
    """Whether records in order hold nothing to look at: one step each, none missing, all timed, none with a stall.

    If so, up to when they show their attempt to have survived (see ``Leg.alive_us``); None if they must be looked at
    one by one. ``apart_us`` is the time between neighbours. Whole columns are compared at once, since nearly all of a
    million records are of this kind.
    """
    num = len(times_us)
    if num < 2 or counts.count(1) < num or numbers != list(range(numbers[0], numbers[0] + num)):
        return None
    shortest_us = min(durations_us)
    if shortest_us < 0 or max(durations_us) >= SURVIVAL_US:
        return None
    if max(apart_us) > STALL_FLOOR_US and max(map(sub, apart_us, durations_us[1:])) > STALL_FLOOR_US:
        return None
    last_begin_us = times_us[-1] - durations_us[-1]
    if last_begin_us < times_us[-2] - shortest_us:
        last_begin_us = max(map(sub, times_us, durations_us))
    return last_begin_us - SURVIVAL_US


def pieces_of(
    windows: Sequence[tuple[int, int]], phases: PhaseBook, row: tuple[int, int], may_stall: bool, after: int, step: int
) -> list[Piece]:
    """The pieces of what a record owns: the stall first in the time outside evaluations, the rest by phase.

    ``row`` is the record's time (us) and its number of steps.
    """
    spans = [span for low, high in windows for span in _by_phase(low, high, phases)]
    stalled = 0
    if may_stall:
        owned = sum(high - low for low, high in windows)
        evaluation = sum(high - low for low, high, name in spans if name == "eval")
        stalled = stall_us(owned, evaluation, row[0], step - after, row[1])
    named: list[tuple[int, int, str]] = []
    for low, high, name in spans:
        if name == "eval" or stalled == 0:
            named.append((low, high, name))
            continue
        cut = min(high, low + stalled)
        stalled -= cut - low
        named.append((low, cut, "stall"))
        if cut < high:
            named.append((cut, high, name))
    return number(named, min(after, step - 1), step)


def _by_phase(low: int, high: int, phases: PhaseBook) -> Iterator[tuple[int, int, str]]:
    at = low
    for phase in phases.training_in(low, high):
        if phase.start_us > at:
            yield at, phase.start_us, "train"
        yield phase.start_us, phase.end_us, phase.name
        at = phase.end_us
    if at < high:
        yield at, high, "train"


def outside(low: int, high: int, holes: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """[low, high) less the holes in it."""
    left: list[tuple[int, int]] = []
    for start, end in sorted(holes):
        if end <= low:
            continue
        if start >= high:
            break
        if start > low:
            left.append((low, start))
        low = end
    if low < high:
        left.append((low, high))
    return tuple(left)


def number(named: Sequence[tuple[int, int, str]], after: int, step: int) -> list[Piece]:
    """Pieces of one record: each knows how much of the record's work lies before it, for a cut in proportion."""
    whole = sum(high - low for low, high, name in named if name in WORK)
    pieces: list[Piece] = []
    before = 0
    for low, high, name in named:
        if low >= high:
            continue
        pieces.append((low, high, name, after, step, before, whole))
        if name in WORK:
            before += high - low
    return pieces
