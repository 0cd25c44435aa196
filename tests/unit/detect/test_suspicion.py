"""A node's record over runs: the score fades, and a node is called a repeat offender only where luck is unlikely."""

from __future__ import annotations

import random

import pytest
from tachograph_collector.detect.suspicion import DAY_US, Mark, chance_of, ranked, score_of

NOW_US = 1_760_000_000_000_000


def failures(node, num, *, days_ago=1.0, kind="failure"):
    return [Mark(node, NOW_US - round(days_ago * DAY_US), kind, "r") for _ in range(num)]


def fleet(num, days=40.0):
    return {f"n{number}": round(days * DAY_US) for number in range(num)}


def test_the_worked_number_of_the_module_holds():
    marks = failures("n0", 3) + [one for number in range(1, 14) for one in failures(f"n{number}", 1)]
    records = {one.node: one for one in ranked(marks, fleet(65), {}, NOW_US)}
    one = records["n0"]
    assert one.expected_failures == pytest.approx(0.246, abs=5e-4)
    assert one.chance == pytest.approx(0.00175, abs=5e-6)
    assert one.chance_of_any == pytest.approx(0.11, abs=5e-3)
    assert one.how_sure == "suspect"
    assert one.sentence == (
        "3 failures in 40 node-days, where 0.25 would be the fleet's share: chance 0.18 %, "
        "but 11 % that any of 65 nodes has such: not sure"
    )


def test_the_chance_is_the_sum_of_the_binomial():
    assert chance_of(2, 0.5, 3) == pytest.approx(0.5)
    assert chance_of(1, 0.1, 2) == pytest.approx(0.19)
    assert chance_of(0, 0.1, 2) == 1.0
    assert chance_of(3, 0.1, 3) == pytest.approx(0.001)


def test_a_mark_counts_half_after_a_half_life():
    mark = failures("n0", 1, days_ago=7)
    assert score_of(mark, NOW_US) == pytest.approx(0.5)
    assert score_of(mark, NOW_US, half_life_days=3.5) == pytest.approx(0.25)
    assert score_of(failures("n0", 1, days_ago=-1), NOW_US) == 1.0
    assert score_of([], NOW_US) == 0


def test_the_most_suspect_comes_first_and_older_marks_weigh_less():
    marks = failures("old", 2, days_ago=30) + failures("new", 1) + failures("slow", 1, kind="straggler")
    assert [one.node for one in ranked(marks, fleet(1), {}, NOW_US)] == ["new", "slow", "old", "n0"]


def test_a_repeat_offender_is_named_with_certainty():
    marks = failures("n3", 6) + failures("n5", 1)
    first, second, *others = ranked(marks, fleet(64), {}, NOW_US)
    assert (first.node, first.how_sure) == ("n3", "sure")
    assert "fails oftener than the others" in first.sentence
    assert (second.node, second.how_sure) == ("n5", "not sure")
    assert "one failure says little" in second.sentence
    assert {one.how_sure for one in others} == {"no failure"}


def test_two_failures_of_a_node_with_long_hours_may_be_luck():
    marks = failures("n0", 2) + failures("n1", 1)
    one = ranked(marks, fleet(2) | {"n0": 100 * DAY_US}, {}, NOW_US)[0]
    assert (one.node, one.how_sure) == ("n0", "not sure")
    assert "luck may be all" in one.sentence


def test_stragglers_and_xids_raise_the_score_and_not_the_failures():
    marks = failures("n0", 3, kind="straggler") + failures("n0", 2, kind="xid")
    one = ranked(marks, fleet(8), {}, NOW_US)[0]
    assert (one.num_failures, one.how_sure, one.counts) == (0, "no failure", {"straggler": 3, "xid": 2})
    assert one.score > 3


def test_a_warning_counts_a_part():
    marks = [Mark("n0", NOW_US, "xid", "r", is_warning=True)]
    assert score_of(marks, NOW_US) == pytest.approx(0.25)


def test_without_hours_or_other_nodes_nothing_is_claimed():
    (unknown,) = ranked(failures("n0", 9), {}, {}, NOW_US)
    assert (unknown.how_sure, unknown.chance, unknown.exposure_us) == ("unknown", None, None)
    assert "not known" in unknown.sentence
    (alone,) = ranked(failures("n0", 9), fleet(1), {}, NOW_US)
    assert (alone.how_sure, alone.chance) == ("unknown", None)
    assert "no other node" in alone.sentence


def test_runs_of_marks_and_of_hours_are_told():
    (one,) = ranked(failures("n0", 1), {}, {"n0": ["a", "b"]}, NOW_US)
    assert one.runs == ("a", "b", "r")


def test_of_fleets_in_which_all_nodes_are_alike_few_have_an_offender():
    dice = random.Random(11)
    num_named = 0
    for _ in range(400):
        marks = [Mark(f"n{dice.randrange(50)}", NOW_US, "failure", "r") for _ in range(30)]
        num_named += any(one.how_sure == "sure" for one in ranked(marks, fleet(50), {}, NOW_US))
    assert num_named <= 30, "the level is 5 %, and the test is conservative"


def test_of_fleets_with_one_node_of_ten_times_the_rate_it_is_mostly_named():
    dice = random.Random(12)
    weights = [10.0] + [1.0] * 49
    num_named = 0
    for _ in range(200):
        hit = dice.choices(range(50), weights, k=60)
        records = ranked([Mark(f"n{number}", NOW_US, "failure", "r") for number in hit], fleet(50), {}, NOW_US)
        num_named += [one.node for one in records if one.how_sure == "sure"] == ["n0"]
    assert num_named >= 170
