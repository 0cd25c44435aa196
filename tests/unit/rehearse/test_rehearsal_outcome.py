"""What is said of a rehearsal is what was seen: detected, missed, quiet, or a false alarm."""

from __future__ import annotations

import json

import pytest
from tachograph_collector.detect import Detectors
from tachograph_collector.rehearse.outcome import Line, Seen, false_alarms, line_of
from tachograph_collector.rehearse.rehearsal import Outcome
from tachograph_collector.rehearse.scenario import TOUR, cluster_for, drill, one
from tachograph_collector.rehearse.spelling import fault_from
from tachograph_collector.rehearse.words import as_json, faults_listed, table
from tachograph_collector.synthetic import Label, LossSpike
from tachograph_collector.synthetic.faults import FAULTS

DEATH = Label(fault="node-death", at_s=100, detectors=("dead_node",), subjects=("node n2",), consequences=("hang",))
PAUSE = Label(fault="node-pause", at_s=100)


def seen(detector: str, subject: str, at_s: float, *, name: str = "i", of: str | None = None) -> Seen:
    return Seen(
        incident=name,
        detector=detector,
        subject=subject,
        severity="critical",
        summary="said",
        node=None,
        seen_s=at_s,
        consequence_of=of,
    )


def outcome(*lines: Line) -> Outcome:
    return Outcome(lines=list(lines), took_s=60, late_s=0, num_sent=5, origins=["rehearsal"])


def test_fault_is_detected_by_the_first_right_incident_about_its_subject_after_it_began() -> None:
    found = [
        seen("dead_node", "node n2", 99),
        seen("dead_node", "node n1", 110),
        seen("hang", "run", 120),
        seen("dead_node", "node n2", 140),
        seen("dead_node", "node n2", 131),
    ]
    line = line_of("r", DEATH, found, 50, 200)
    assert (line.verdict, line.detector, line.found_subject, line.after_s) == ("detected", "dead_node", "node n2", 31)


@pytest.mark.parametrize(("now_s", "verdict"), [(90, "not reached"), (149, "not reached"), (151, "missed")])
def test_fault_that_nobody_found_is_missed_once_its_time_is_over(now_s: float, verdict: str) -> None:
    line = line_of("r", DEATH, [seen("dead_node", "node n1", 110)], 50, now_s)
    assert line.verdict == verdict
    assert not line.is_good


def test_incident_that_no_fault_explains_is_a_false_alarm() -> None:
    found = [
        seen("dead_node", "node n2", 131, name="a"),
        seen("hang", "run", 160, name="b"),
        seen("straggler", "rank 1", 160, name="c"),
        seen("job_slow", "run", 170, name="d", of="a"),
        seen("retention", "run", 170, name="e"),
    ]
    lines = false_alarms("r", [DEATH], found, frozenset({("retention", "run")}))
    assert [(it.verdict, it.detector) for it in lines] == [("false alarm", "straggler")]


def test_short_pause_is_quiet_unless_somebody_cries_wolf() -> None:
    assert line_of("r", PAUSE, [], 20, 200).verdict == "quiet"
    assert [it.verdict for it in false_alarms("r", [PAUSE], [seen("dead_node", "node n2", 131)])] == ["false alarm"]


def test_outcome_is_good_only_if_every_line_is() -> None:
    good = line_of("r", DEATH, [seen("dead_node", "node n2", 131)], 50, 200)
    bad = line_of("r", DEATH, [], 50, 200)
    assert outcome(good).is_good
    assert not outcome(good, bad).is_good
    assert not outcome(good, *false_alarms("r", [], [seen("hang", "run", 1)])).is_good
    assert "1 of 2 faults detected, 0 false alarms" in table(outcome(good, bad))
    told = json.loads(as_json(outcome(good, bad)))
    assert [it["verdict"] for it in told["lines"]] == ["detected", "missed"]
    assert told["is_good"] is False


def test_drill_has_a_run_of_its_own_for_each_fault_and_a_healthy_one() -> None:
    scenarios = drill(cluster_for("d", 1_760_000_000.0), 1)
    assert len({it.name for it in scenarios}) == len(scenarios)
    assert [len(it.expects) for it in scenarios] == [1] * (len(scenarios) - 1) + [0]
    named = {it.label.fault for scenario in scenarios for it in scenario.expects}
    assert named >= {
        "node-death", "frozen-rank", "straggler", "hidden-straggler", "loss-spike", "hidden-nan",
        "checkpoint-never-lands", "clock-jump", "partition",
    }  # fmt: skip


def test_drill_is_over_in_less_than_ten_minutes() -> None:
    scenarios = drill(cluster_for("d", 0.0), 1)
    assert max(it.ends_s for scenario in scenarios for it in scenario.expects) < 600


def test_runs_begin_and_are_marked_as_rehearsals() -> None:
    [scenario] = one([LossSpike(at_s=90)], cluster_for("mine", 1_760_000_000.0), 1)
    first = next(scenario.play())
    assert (first.events[0].kind, first.events[0].run) == ("run.start", "mine")
    assert getattr(first.events[0], "origin", None) == "rehearsal"


def test_list_names_every_fault_and_what_it_takes() -> None:
    told = faults_listed()
    assert all(f"\n{name}" in f"\n{told}" for name in FAULTS if name != "collector-pause")
    assert "straggler:rank,ratio=1.2,for" in told


def test_detectors_find_every_fault_of_the_tour_that_is_theirs_in_its_time() -> None:
    [scenario] = one([fault_from(word, 0) for word in TOUR], cluster_for("tour", 1_760_000_000.0), 1)
    detectors = Detectors()
    for delivery in scenario.play():
        detectors.add(delivery.events)
    detectors.look()
    found = [(it.detector, it.subject, it.found_us / 1e6, it.node) for it in detectors.incidents()]
    assert len(scenario.expects) == len(TOUR)
    for expected in scenario.expects:
        label = expected.label
        if label.detectors == ("dead_node",):
            continue  # judged by arrival, which detectors don't see
        [first, *_] = [at_s for name, subject, at_s, node in found if label.finds(name, subject, at_s, node)]
        assert first < expected.ends_s


def test_the_list_of_faults_has_none_that_a_rehearsal_refuses() -> None:
    assert "node-pause:" in faults_listed()
    assert "collector-pause" not in faults_listed()
