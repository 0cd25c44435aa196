"""A fault that can't happen, or can't be seen, when it was to is moved, and that is said before anything is played."""

from __future__ import annotations

import pytest
from tachograph_collector.detect import Detectors
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


def test_a_slow_save_waits_until_there_were_saves_to_compare_it_with():
    scenario = planned("slow-save@12s")
    (note,) = scenario.notes
    assert note == "slow-save@12s: the first saves are compared with nothing; it happens at 35 s"
    assert begins_s(scenario)["slow-save"] >= 35


@pytest.mark.parametrize(
    "word",
    [
        "crash:rank=5", "frozen-rank:rank=5", "straggler:rank=5", "hidden-straggler:rank=3", "loss-spike", "hidden-nan",
        "checkpoint-never-lands", "slow-save", "clock-jump:node=n2", "xid:node=n3", "periodic-slow",
        "periodic-slow@20s:every_steps=10",
    ],
)  # fmt: skip
def test_each_fault_as_it_is_by_default_is_one_that_detectors_find(word):
    (expected,) = (scenario := planned(word)).expects
    detectors = Detectors()
    detectors.add([event for delivery in scenario.play() for event in delivery.events])
    detectors.look()
    found = [one for one in detectors.incidents("r") if not one.is_withdrawn]
    mine = [one for one in found if expected.label.finds(one.detector, one.subject, one.found_us / 1e6, one.node)]
    assert min(one.found_us / 1e6 for one in mine) <= expected.ends_s
