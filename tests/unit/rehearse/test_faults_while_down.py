"""A fault that can't happen, or can't be seen, when it was to is moved, and that is said before anything is played."""

from __future__ import annotations

import pytest
from tachograph_collector.rehearse.scenario import WARM_S, Scenario, cluster_for, one
from tachograph_collector.rehearse.spelling import SpellingError, fault_from

T0 = 1_760_000_000.0


def planned(*words: str) -> Scenario:
    (scenario,) = one([fault_from(word, WARM_S) for word in words], cluster_for("r", T0), 1)
    return scenario


def begins_s(scenario: Scenario) -> dict[str, float]:
    return {expected.label.fault: expected.label.at_s - T0 for expected in scenario.expects}


def test_a_fault_while_the_run_is_down_waits_until_it_is_up_and_that_is_said():
    scenario = planned("node-death@30s:node=n2,noticed=20s", "slow-save@40s")
    (note,) = scenario.notes
    assert note.startswith("slow-save@40s: the run is down then; it happens at ")
    assert begins_s(scenario)["slow-save"] > 50


def test_a_spike_soon_after_a_start_waits_until_there_is_something_to_compare_it_with():
    scenario = planned("node-death@30s:node=n2,noticed=20s", "loss-spike@40s:height=2")
    (note,) = scenario.notes
    assert "loss-spike@40s:height=2: the run is down then, and an attempt's first minute" in note
    assert begins_s(scenario)["loss-spike"] > 50 + WARM_S
    assert "first minute" in planned("loss-spike@20s").notes[0]


def test_what_happens_as_it_was_asked_for_needs_no_note():
    assert planned("straggler@75s:rank=3", "loss-spike@100s", "node-death@130s:node=n2").notes == ()
    assert planned("node-death@30s:node=n2,noticed=20s", "xid@40s:node=n3").notes == ()


@pytest.mark.parametrize(
    ("word", "wrong"),
    [("straggler:rank=5,rank=6", "rank is given twice"), ("loss-spike@99999h", "'99999h' is too long")],
)
def test_what_can_not_be_meant_is_refused(word, wrong):
    with pytest.raises(SpellingError, match=wrong):
        fault_from(word, WARM_S)
