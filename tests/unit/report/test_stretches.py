"""A run of a few minutes is told by the second, a longer one by the minute; nothing is lost either way."""

from __future__ import annotations

import pytest
from made_up import MIN, START, S, Stretch, minutes_of, segments_of
from tachograph_collector.ledger.books import ACCOUNTS, Details
from tachograph_collector.report.stretches import booked


def details(*stretches: Stretch, start_us: int = START) -> Details:
    segments = segments_of(list(stretches), start_us)
    return Details([], [], [], [], minutes_of(segments), segments)


def test_a_run_of_a_minute_and_a_half_is_told_by_the_second() -> None:
    told = details(
        (20 * S, "kept", "train", 0, None),
        (S // 2, "lost", "rollback", 0, "gpu"),
        (70 * S, "restart", "replace", 0, None),
        start_us=START + 50 * S,
    )
    starts, shares, stretch_us = booked(told)
    assert stretch_us == S
    assert (starts[0], len(starts)) == (START + 50 * S, 91)
    assert shares[19].tolist() == [S, 0, 0, 0]
    assert shares[20].tolist() == [0, 0, S / 2, S / 2]
    assert shares[-1].tolist() == [0, 0, 0, S / 2]


@pytest.mark.parametrize("length_us", [3 * MIN, 600 * MIN])
def test_what_is_told_of_all_stretches_sums_to_the_runs_accounts(length_us: int) -> None:
    told = details((length_us // 3 + 7, "kept", "train", 0, None), (length_us // 2, "restart", "replace", 0, None))
    starts, shares, stretch_us = booked(told)
    assert stretch_us == (S if length_us < 10 * MIN else MIN)
    assert len(starts) == len(shares)
    sums = dict(zip(ACCOUNTS, shares.sum(axis=0).tolist(), strict=True))
    assert sums == {"kept": length_us // 3 + 7, "checkpoint": 0, "lost": 0, "restart": length_us // 2}
