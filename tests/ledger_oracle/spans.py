"""Arithmetic on stretches of time: lists of ``(start, end)`` in whole microseconds, sorted and disjoint."""

from __future__ import annotations

from collections.abc import Iterable

Stretch = tuple[int, int]
Stretches = list[Stretch]


def union(stretches: Iterable[Stretch]) -> Stretches:
    """The stretches sorted, merged, without empty ones."""
    merged: Stretches = []
    for start, end in sorted(stretches):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def intersect(a: Stretches, b: Stretches) -> Stretches:
    """What lies in both."""
    found: Stretches = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def subtract(a: Stretches, b: Stretches) -> Stretches:
    """What lies in ``a`` and not in ``b``."""
    left: Stretches = []
    for start, end in a:
        at = start
        for cut_start, cut_end in b:
            if cut_end <= at or cut_start >= end:
                continue
            if cut_start > at:
                left.append((at, cut_start))
            at = max(at, cut_end)
        if at < end:
            left.append((at, end))
    return left


def within(a: Stretches, start: int, end: int) -> Stretches:
    """What of ``a`` lies between ``start`` and ``end``."""
    return intersect(a, [(start, end)]) if start < end else []


def length(a: Stretches) -> int:
    """Total length."""
    return sum(end - start for start, end in a)


def first(a: Stretches, amount: int) -> Stretches:
    """The first ``amount`` of ``a``."""
    taken: Stretches = []
    for start, end in a:
        if amount <= 0:
            break
        taken.append((start, min(end, start + amount)))
        amount -= taken[-1][1] - taken[-1][0]
    return taken


def last(a: Stretches, amount: int) -> Stretches:
    """The last ``amount`` of ``a``."""
    total = length(a)
    return subtract(a, first(a, total - amount)) if amount < total else list(a)
