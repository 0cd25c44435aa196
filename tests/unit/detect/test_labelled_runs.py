"""The labelled set: one run of each name is judged here, so that a detector that has become worse is seen at once."""

from __future__ import annotations

from collections import Counter

import pytest
from labelled import sets
from labelled.scenario import Scored, scored

KNOWN_LIMITS = ("evaluations told at their end: false hang of run",)
"""What goes wrong in the part that is judged here, told in docs/detection.md."""


@pytest.fixture(scope="module")
def part() -> Scored:
    return scored(sets.part())


def test_the_set_is_as_large_as_the_docs_say_and_a_third_of_it_is_healthy() -> None:
    whole = sets.whole()
    assert len(whole) >= 500
    assert len({one.seed for one in whole}) == len(whole)


def test_a_seed_makes_the_same_run_each_time() -> None:
    for scenario in sets.part()[::9]:
        one, other = (scenario.make(scenario.seed) for _ in range(2))
        assert one.expected == other.expected
        assert [columns.work_s.tobytes() for columns in one.columns] == [
            columns.work_s.tobytes() for columns in other.columns
        ]
        assert (one.events, one.incidents) == (other.events, other.incidents)


def test_one_run_of_each_name_has_what_is_wrong_with_it_found_and_nothing_else(part: Scored) -> None:
    wrong = Counter(f"{line.split(' (')[0]}: {line.split('): ')[1].split(': ')[0]}" for line in part.wrong)
    assert sorted(set(wrong) - set(KNOWN_LIMITS)) == []
    assert part.num >= 60
    assert part.num_healthy * 4 >= part.num


def test_dead_nodes_stragglers_and_losses_are_found_as_soon_as_promised(part: Scored) -> None:
    def latest(name: str) -> tuple[float, int]:
        (tally,) = (tally for (of, _), tally in part.by_name.items() if of == name)
        return tally.delay_s(1.0) or 0.0, tally.delay_steps(1.0) or 0

    assert 0 < latest("node dies")[0] <= 35
    assert 0 < latest("node dies after a restart")[0] <= 35
    assert 0 < latest("straggler 20 %")[1] <= 100
    assert 0 < latest("straggler 12 %")[1] <= 400
    assert 0 < latest("spike +0.6")[1] <= 5
    assert 0 < latest("hidden NaN, missing")[1] <= 6
