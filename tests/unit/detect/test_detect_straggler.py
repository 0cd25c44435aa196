"""A rank that holds the others up is named, soon, and no other is."""

from __future__ import annotations

import pytest
from detect_streams import RUN, T0, Slow, ranks
from detect_streams import found as found_at_all
from tachograph_agent.events import Failure, Step
from tachograph_collector.detect import Detectors, settings_from


def found(events, settings=None):
    """The incidents but for the slow job: that is what a straggler makes, and has tests of its own."""
    return [one for one in found_at_all(events, settings) if one.detector != "job_slow"]


def steps_until_found(events, incident):
    """How many steps of rank 0 had ended when it was found."""
    return sum(isinstance(one, Step) and one.rank == 0 and one.t * 1e6 <= incident.found_us for one in events)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("step_s", [1.0, 5.0, 20.0])
def test_a_20_percent_straggler_is_named_within_100_steps_at_2_percent_noise(step_s, seed):
    begin = 90 + seed
    events = ranks(step_s=step_s, slow=[Slow(3, 1.2, begin)], num_steps=220, seed=seed)
    (incident,) = found(events)
    assert (incident.detector, incident.subject, incident.node) == ("straggler", "rank 3", "n0")
    assert 0 < steps_until_found(events, incident) - begin <= 100
    assert abs(incident.opened_us / 1e6 - next(e.t for e in events if isinstance(e, Step) and e.step == begin)) < (
        20 * step_s
    )
    assert incident.evidence.more["impact_of_step"] == pytest.approx(0.14, abs=0.04)
    assert incident.advice.startswith("drain n0")


@pytest.mark.parametrize("seed", range(4))
def test_a_12_percent_straggler_is_named_within_400_steps(seed):
    events = ranks(slow=[Slow(3, 1.12, 60)], num_steps=460, seed=seed)
    assert [(one.detector, one.subject) for one in found(events)] == [("straggler", "rank 3")]


@pytest.mark.parametrize("seed", range(3))
def test_no_rank_of_256_is_named_at_5_percent_autocorrelated_imbalance(seed):
    assert found(ranks(256, 300, imbalance=0.05, seed=seed)) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_12_percent_straggler_is_named_within_400_steps_where_work_wanders_by_5_percent(seed):
    events = ranks(32, 520, imbalance=0.05, slow=[Slow(11, 1.12, 101)], seed=seed)
    (incident,) = found(events)
    assert incident.subject == "rank 11"
    assert 100 < steps_until_found(events, incident) <= 100 + 400
    begun_s = next(one.t for one in events if isinstance(one, Step) and one.step == 101)
    assert abs(incident.opened_us / 1e6 - begun_s) < 100 * 5.0  # about when it began


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("imbalance", [0.0, 0.05])
def test_a_group_of_40_percent_is_found_also_where_work_wanders_and_nobody_is_named(seed, imbalance):
    slow = [Slow(rank, 1.3, 101) for rank in range(40) if rank % 10 < 4]
    incidents = found(ranks(40, 300, imbalance=imbalance, slow=slow, seed=seed))
    assert [(one.detector, one.subject) for one in incidents] == [("straggler_group", "run")]
    assert set(incidents[0].evidence.more["ranks"]) == {one.rank for one in slow}


@pytest.mark.parametrize("num_ranks", [4, 8, 32])
def test_work_that_wanders_is_no_slow_group_and_no_slow_rank_in_small_groups_either(num_ranks):
    for seed in range(5):
        assert found(ranks(num_ranks, 600, imbalance=0.05, seed=seed)) == []


def test_stages_that_differ_by_15_percent_hide_no_straggler_and_make_none():
    def stages(rank):
        return rank // 4

    def factor(rank):
        return 1.15 if rank // 4 == 1 else 1.0

    healthy = ranks(16, 200, stage=stages, stage_factor=factor)
    assert found(healthy) == []
    slow = ranks(16, 200, stage=stages, stage_factor=factor, slow=[Slow(2, 1.2, 40)])
    assert [one.subject for one in found(slow)] == ["rank 2"]


def test_two_ranks_of_one_node_are_the_node():
    (incident,) = found(ranks(16, 200, slow=[Slow(5, 1.3, 40), Slow(6, 1.3, 40)]))
    assert (incident.subject, incident.severity, incident.evidence.more["ranks"]) == ("node n1", "critical", [5, 6])


def test_more_than_30_percent_of_a_group_at_once_is_one_incident_of_the_group():
    incidents = found(ranks(9, 200, slow=[Slow(rank, 1.3, 40) for rank in (0, 4, 8)]))
    assert [(one.detector, one.subject) for one in incidents] == [("straggler_group", "run")]


def test_it_is_over_when_the_rank_is_back_and_can_come_again():
    events = ranks(slow=[Slow(3, 1.2, 60, 160), Slow(3, 1.2, 320)], num_steps=460)
    first, second = found(events)
    assert first.outcome == "recovered"
    assert first.cleared_us < second.opened_us
    assert second.cleared_us is None


def test_a_brief_one_is_one_episode_with_its_cost():
    (incident,) = found(ranks(10, 300, slow=[Slow(6, 1.8, 181, 189)]))
    assert (incident.detector, incident.subject, incident.severity) == ("straggler_episode", "rank 6", "warning")
    assert incident.evidence.value == 8
    assert incident.evidence.more["cost_s"] == pytest.approx(8 * 0.8 * 4.0, rel=0.1)


def test_a_culprit_that_moves_about_is_rotating_and_no_rank_is_named():
    slow = [Slow(place % 16, 1.4, 40 + 20 * place, 60 + 20 * place) for place in range(16)]
    incidents = found(ranks(16, 360, slow=slow))
    named = [one for one in incidents if one.detector == "straggler"]
    assert [one.subject for one in named] == ["run"]
    assert "changes" in named[0].summary


def test_a_whole_node_that_is_slow_is_no_rank_that_changes():
    slow = [Slow(rank, 1.2, 90) for rank in range(8, 16)]
    incidents = found(ranks(64, 400, slow=slow, per_node=8, seed=3))
    assert {one.subject for one in incidents if one.cleared_us is None} == {"node n1"}
    assert "run" not in {one.subject for one in incidents}


def test_what_looked_brief_and_lasts_is_over_as_an_episode_when_it_is_named_a_straggler():
    brief, lasting = sorted(found(ranks(16, 300, slow=[Slow(6, 1.8, 90)])), key=lambda one: one.found_us)
    assert (brief.detector, lasting.detector) == ("straggler_episode", "straggler")
    assert brief.outcome == "it lasts: named as straggler, rank 6"
    assert brief.cleared_us == lasting.found_us
    assert lasting.cleared_us is None


def test_what_costs_less_than_3_percent_of_the_step_is_not_worth_saying():
    events = ranks(slow=[Slow(3, 1.2, 40)])
    for one in events:
        if isinstance(one, Step):
            one.dur = one.dur * 20
    assert found(events) == []


def test_waiting_and_sections_tell_a_ranks_work_where_busy_time_is_not_told():
    waits = ranks(slow=[Slow(3, 1.2, 60)])
    for one in waits:
        if isinstance(one, Step):
            one.sections, one.busy_s = {"wait": one.dur - one.busy_s}, None
    assert [one.subject for one in found(waits)] == ["rank 3"]
    sections = ranks(slow=[Slow(3, 1.2, 60)])
    for one in sections:
        if isinstance(one, Step):
            one.sections, one.busy_s = {"forward": one.busy_s / 3, "backward": one.busy_s * 2 / 3}, None
    assert [one.subject for one in found(sections)] == ["rank 3"]


def test_wall_time_alone_names_nobody_and_says_that_it_cannot_see():
    events = ranks(slow=[Slow(3, 1.5, 40)])
    for one in events:
        if isinstance(one, Step):
            one.busy_s = None
    detectors = Detectors()
    detectors.add(events)
    assert detectors.look() == []
    sight = detectors.sights(RUN)["straggler"]
    assert sight.state == "blind"
    assert "busy_s" in sight.reason


def test_an_attempts_first_steps_are_not_judged_and_the_next_attempt_starts_afresh():
    events = ranks(slow=[Slow(3, 3.0, 1, 6)], step_s=20.0, num_steps=60)
    assert found(events) == []
    events = ranks(slow=[Slow(3, 1.2, 40)], num_steps=200)
    again = ranks(num_steps=100, attempt=1, first_step=101, t0=T0 + 5000)
    died = Failure(t=events[-1].t + 1, run=RUN, category="gpu")
    (incident,) = found([*events, died, *again])
    assert (incident.outcome, incident.attempt) == ("attempt ended", "0")


def test_what_is_found_in_steps_done_before_is_marked_replayed():
    first = ranks(num_steps=300)
    again = ranks(num_steps=200, slow=[Slow(3, 1.3, 1)], attempt=1, first_step=50, t0=T0 + 5000)
    (incident,) = found([*first, Failure(t=first[-1].t + 1, run=RUN, category="gpu"), *again])
    assert incident.is_replayed
    assert incident.attempt == "1"


def test_other_thresholds_judge_otherwise():
    events = ranks(slow=[Slow(3, 1.2, 40)])
    assert found(events, settings_from({"straggler": {"ratio": 1.5}})) == []


def test_in_a_small_group_a_rank_is_compared_with_its_own_past_and_said_to_be():
    incidents = found(ranks(2, 500, slow=[Slow(1, 1.5, 300)]))
    (incident,) = [one for one in incidents if one.detector == "straggler"]
    assert (incident.subject, incident.severity) == ("rank 1", "warning")
    assert incident.evidence.more["compared_with"] == "its own past"
    assert "no group to compare with" in incident.summary
    assert incident.evidence.baseline == pytest.approx(4.0, rel=0.02)
    assert incident.cost.wall_s > 0


def test_pairs_of_a_pipeline_are_small_groups_each():
    incidents = found(ranks(8, 500, slow=[Slow(5, 1.4, 300)], stage=lambda rank: rank // 2))
    assert [one.subject for one in incidents if one.detector == "straggler"] == ["rank 5"]


def test_in_small_groups_nobody_is_named_who_is_slow_with_others_or_little_or_from_the_beginning():
    for slow in (
        [Slow(0, 1.5, 300), Slow(1, 1.5, 300)],
        [Slow(1, 1.1, 300)],
        [Slow(1, 1.5, 1)],
    ):
        assert [one for one in found(ranks(2, 500, slow=slow)) if one.detector == "straggler"] == []
    assert [one for one in found(ranks(1, 500, slow=[Slow(0, 1.5, 300)])) if one.detector == "straggler"] == []


def test_noise_names_nobody_in_small_groups():
    for seed in range(20):
        assert found(ranks(3, 300, noise=0.05, seed=seed)) == []
