"""What thousands of ranks, rollbacks or restarts tell alike costs about what one telling does, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    Gap,
    Phase,
    RunEnd,
    RunStart,
    Step,
)
from tachograph_collector.ledger import Ledger
from tachograph_collector.ledger.cover import Cover
from tachograph_collector.ledger.outline import Loss, loss

T0 = 1_760_000_040.0


def steps(first: int, last: int, begin: float = 0.0, **fields: object) -> Iterator[AnyEvent]:
    """Steps of one second each."""
    for number in range(first, last + 1):
        t = T0 + begin + number - first + 1
        # the fields come by name, which the checker can't see
        yield Step(t=t, run="r", attempt=0, step=number, dur=1.0, **{"rank": 0, **fields})  # type: ignore[arg-type]


def test_evaluation_told_by_a_thousand_ranks_is_one_stretch() -> None:
    ledger = Ledger()
    ledger.add([*steps(1, 10), *steps(11, 20, 60.0)])
    ledger.add(
        [Phase(t=T0 + 60 - rank / 1000, run="r", attempt=0, rank=rank, name="eval", dur=50) for rank in range(1000)]
    )
    track_phases = ledger._runs["r"]._arrivals.phases
    assert len(track_phases.covers["eval"].starts) == 1
    assert ledger.books("r").subs_us["kept/eval"] == 50_999_000  # from the earliest beginning to the latest end


def test_gaps_that_overlap_are_one_and_their_minutes_incomplete() -> None:
    ledger = Ledger()
    ledger.add(list(steps(1, 600)))
    ledger.add([Gap(t=T0 + 119 + n / 100, run="r", node=f"n{n}", dropped=1, since=T0 + 60) for n in range(90)])
    assert [minute.incomplete for minute in ledger.details("r").minutes] == [False, True, *[False] * 8]


def test_step_without_a_rank_does_not_take_over_from_ranks_that_have_one() -> None:
    ledger = Ledger()
    ledger.add([RunStart(t=T0, run="r"), *steps(1, 10), RunEnd(t=T0 + 11, run="r")])
    ledger.add([Step(t=T0 + 9.5, run="r", step=11)])
    books = ledger.books("r")
    assert (books.accounts_us["kept"], books.status) == (10_000_000, "completed")


def test_steps_that_name_no_rank_at_all_are_a_run_like_any_other() -> None:
    ledger = Ledger()
    ledger.add(list(steps(1, 10, rank=None)))
    assert ledger.books("r").accounts_us["kept"] == 10_000_000


def test_second_run_of_a_name_never_takes_the_name_of_another_run() -> None:
    ledger = Ledger()
    for begin in (0.0, 100.0):
        ledger.add([AttemptStart(t=T0 + begin, run="r", attempt=(begin > 0 and 1) or 0, resume_step=0)])
        ledger.add([Step(t=T0 + begin + 1, run="r", attempt=(begin > 0 and 1) or 0, rank=0, step=1, dur=1.0)])
        ledger.add([RunEnd(t=T0 + begin + 2, run="r")])
    ledger.add([Step(t=T0 + 5, run="r#2", rank=0, step=7, dur=1.0), Step(t=T0 + 6, run="r#2", rank=0, step=8, dur=1.0)])
    assert sorted(ledger.runs()) == ["r", "r#2", "r#2'"]
    assert ledger.books("r#2").steps == 8
    assert ledger.books("r#2'").steps == 1


def test_restarts_that_go_back_ever_further_share_their_decisions() -> None:
    chain: Loss | None = None
    for limit in (10, 20, 30):
        chain = loss(limit, "gpu", (0, 0), chain)
    assert chain is not None
    assert (chain.limit, chain.lowest) == (30, 10)
    shorter = loss(15, "gpu", (0, 0), chain)
    assert shorter.lower is not None
    assert (shorter.limit, shorter.lower.limit, shorter.lower.lower) == (15, 10, None)


@pytest.mark.parametrize(
    ("stretches", "expected"),
    [
        ([(0, 5), (10, 15)], [(0, 5), (10, 15)]),
        ([(0, 5), (5, 8)], [(0, 8)]),
        ([(10, 15), (0, 5), (4, 11)], [(0, 15)]),
        ([(0, 20), (3, 4)], [(0, 20)]),
        ([(3, 3), (7, 9)], [(7, 9)]),
    ],
)
def test_cover_joins_what_touches(stretches: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    cover = Cover()
    for start, end in stretches:
        cover.add(start, end)
    assert cover.overlapping(-1, 100) == expected


def test_cover_says_whether_a_stretch_added_anything() -> None:
    cover = Cover()
    assert cover.add(0, 10)
    assert not cover.add(2, 8)
    assert cover.add(8, 12)


@pytest.mark.parametrize("seed", range(6))
def test_steps_of_many_ranks_are_booked_alike_in_one_batch_and_one_by_one(seed: int) -> None:
    rng = Random(seed)
    events = [
        Step(
            t=T0 + 4 * number + rng.random() + (rng.choice([-2, 2]) * 86_400.0 if rng.random() < 0.01 else 0.0),
            run="r",
            attempt=rng.choice([0, 0, 0, 1]),
            rank=rank,
            step=number,
            dur=4.0,
        )
        for number in range(1, 60)
        for rank in rng.sample(range(16), 12)
    ]
    if seed % 2:
        rng.shuffle(events)
    alone, together = Ledger(), Ledger()
    for event in events:
        alone.add([event])
    for first in range(0, len(events), 97):
        together.add(events[first : first + 97])
    assert together.books("r") == alone.books("r")
    assert together.details("r") == alone.details("r")
