"""How much of the time between two records is work, evaluation, waiting or a stall (rules 3 and 9)."""

from __future__ import annotations

from collections.abc import Sequence

from tachograph_collector.ledger.legs import STALL_FLOOR_US, WORK, Piece
from tachograph_collector.ledger.phases import Interval


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


def eval_us(phases: Sequence[Interval]) -> int:
    """How much of these phases is evaluation."""
    return sum(phase.end_us - phase.start_us for phase in phases if phase.name == "eval")


def pieces_of(
    start_us: int, end_us: int, phases: Sequence[Interval], stalled_us: int, after: int, step: int
) -> list[Piece]:
    """The pieces of [start, end): the stall first in the time outside evaluations, the rest by phase."""
    spans: list[tuple[int, int, str]] = []
    at = start_us
    for phase in phases:
        if phase.start_us > at:
            spans.append((at, phase.start_us, "train"))
        spans.append((phase.start_us, phase.end_us, phase.name))
        at = phase.end_us
    if at < end_us:
        spans.append((at, end_us, "train"))
    named: list[tuple[int, int, str]] = []
    for low, high, name in spans:
        if name == "eval" or stalled_us == 0:
            named.append((low, high, name))
            continue
        cut = min(high, low + stalled_us)
        stalled_us -= cut - low
        named.append((low, cut, "stall"))
        if cut < high:
            named.append((cut, high, name))
    return number(named, after, step)


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
