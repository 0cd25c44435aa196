"""What holds for all detectors: order, looks, restarts, settings, and what they can't see."""

from __future__ import annotations

import random

import msgspec
import pytest
from detect_streams import RUN, T0, Slow, all_found, found, live, losses, noisy_loss, ranks
from tachograph_agent.events import Heartbeat, RunStart, Step
from tachograph_collector.detect import Detectors, SettingsError, StateError, settings_from


def eventful():
    """A run with a straggler, two spikes, a hang and a NaN, in two attempts."""
    values = noisy_loss(260)
    values[150:160] += 3.0
    values[200:203] += 3.0
    second = noisy_loss(160, seed=2)
    second[120:] = float("nan")
    events = ranks(8, 260, slow=[Slow(3, 1.3, 60, 150)]) + ranks(8, 160, attempt=1, first_step=201, t0=T0 + 3000)
    for one in events:
        if isinstance(one, Step) and one.rank == 0:
            one.loss = float(values[one.step - 1] if one.attempt == 0 else second[one.step - 201])
    return events


def ends(changes):
    """Each incident as it was last told."""
    last = {one.incident.incident_id: one.incident for one in changes}
    return sorted((one.detector, one.subject, one.opened_us, one.cleared_us, one.outcome) for one in last.values())


def test_the_same_events_give_the_same_incidents_however_they_come():
    events = eventful()
    expected = all_found(events)
    assert {one.detector for one in expected} == {"straggler", "loss_spike", "hang", "nan", "failure"}
    shuffled = events * 2
    random.Random(1).shuffle(shuffled)
    detectors = Detectors()
    for begin in range(0, len(shuffled), 97):
        detectors.add(shuffled[begin : begin + 97])
    detectors.look()
    assert detectors.incidents() == expected


def test_live_tells_the_same_as_the_recording_and_each_opening_once():
    events = eventful()
    told = live(events, 1.0)
    opened = [one.incident.incident_id for one in told if one.what == "opened"]
    assert len(opened) == len(set(opened))
    expected = all_found(events)
    assert set(opened) >= {one.incident_id for one in expected}
    assert [one for one in ends(told) if one[0] != "hang"] == sorted(
        (one.detector, one.subject, one.opened_us, one.cleared_us, one.outcome)
        for one in expected
        if one.detector != "hang"
    )


def test_a_restart_of_the_collector_repeats_no_incident_and_forgets_none():
    events = eventful()
    assert live(events, 1.0, restart_every=7) == live(events, 1.0)


def test_a_state_that_is_none_or_anothers_is_refused_and_nothing_is_taken_up():
    detectors = Detectors()
    detectors.add(losses([1.0, 2.0]))
    saved = detectors.save()
    with pytest.raises(StateError, match="no saved state"):
        Detectors().restore({RUN: b"\x93nonsense"})
    with pytest.raises(StateError, match="run 'other'"):
        Detectors().restore({"other": saved[RUN]})
    wrong = msgspec.msgpack.decode(saved[RUN])
    wrong["version"] = 99
    fresh = Detectors()
    with pytest.raises(StateError, match="version 99"):
        fresh.restore({RUN: msgspec.msgpack.encode(wrong)})
    assert fresh.save() == {}


def test_runs_do_not_mix():
    values = noisy_loss(300)
    values[200:210] += 3.0
    spiky, calm = losses(values), losses(noisy_loss(300))
    for one in calm:
        one.run = "calm"
    detectors = Detectors()
    detectors.add([one for pair in zip(spiky, calm, strict=True) for one in pair])
    assert {one.incident.run for one in detectors.look()} == {RUN}
    assert detectors.incidents("calm") == []
    assert len(detectors.incidents(RUN)) == 1
    assert detectors.incidents("unheard of") == []
    assert detectors.sights("unheard of") == {}


def test_what_comes_too_late_is_counted_and_left_out():
    detectors = Detectors()
    detectors.add(losses(noisy_loss(300)))
    detectors.look()
    detectors.add(losses([50.0], first_step=200, t0=T0 + 398.1))
    assert detectors.look() == []
    assert detectors.num_late(RUN) == 1


def test_a_finished_log_without_steps_says_nothing():
    assert found([RunStart(t=T0, run=RUN), Heartbeat(t=T0 + 1, run=RUN, node="n0")]) == []
    assert Detectors().look() == []


def test_each_detector_says_whether_it_sees():
    detectors = Detectors()
    detectors.add(losses(noisy_loss(100)))
    detectors.look()
    sights = detectors.sights(RUN)
    assert (sights["loss_spike"].state, sights["straggler"].state) == ("armed", "blind")
    assert sights["nan"].num_evaluations == 100
    assert sights["nan"].num_verdicts == 0


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"stragler": {}}, "there is no table 'stragler'; did you mean straggler?"),
        ({"straggler": {"ration": 1.2}}, "straggler has no threshold 'ration'; did you mean ratio?"),
        ({"straggler": {"ratio": 0.9}}, "> 1"),
        ({"straggler": {"raise_k": 6}}, "k of n"),
        ({"straggler": {"ratio": 1.04}}, "lower threshold"),
        ({"loss": {"again_k": "two"}}, "loss.again_k is 'two'; expected a whole number"),
    ],
)
def test_thresholds_that_cannot_be_are_refused_with_what_could(document, words):
    with pytest.raises(SettingsError, match=words):
        settings_from(document)


def test_a_rank_is_named_with_the_node_that_it_was_on_in_its_attempt():
    events = ranks(8, 260, slow=[Slow(3, 1.3, 60, 150)]) + ranks(8, 60, attempt=1, first_step=261, t0=T0 + 3000)
    for one in events:
        if isinstance(one, Step) and one.attempt == 1:
            one.node = f"other{one.rank}"
    assert [(one.rank, one.node) for one in found(events) if one.detector == "straggler"] == [(3, "n0")]
