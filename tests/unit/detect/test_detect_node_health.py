"""Sick nodes: what counts at once, what counts only again, what many nodes share, and what is old."""

from __future__ import annotations

import pytest
from detect_streams import RUN, T0, found, live, losses, noisy_loss
from tachograph_agent.events import AttemptEnd, AttemptStart, Failure, Health, Heartbeat, RunEnd, RunStart, Step
from tachograph_agent.health import xids as agent_xids
from tachograph_collector.detect import Detectors, settings_from
from tachograph_collector.detect import xids as detector_xids

GPU = "0000:3b:00"


def xid(at_s, number, *, node="n1", gpu=GPU, severity="critical", detail=None, **extra):
    return Health(
        t=T0 + at_s,
        run=RUN,
        node=node,
        check="xid",
        gpu=gpu,
        value=number,
        severity=severity,
        detail=f"Xid {number} on {gpu}: made up" if detail is None else detail,
        unknown_fields=extra,
    )


def health(at_s, check, severity="warning", *, node="n1", gpu=None, value=None, detail="", **extra):
    return Health(
        t=T0 + at_s,
        run=RUN,
        node=node,
        check=check,
        gpu=gpu,
        value=value,
        severity=severity,
        detail=detail or f"{check} is wrong",
        unknown_fields=extra,
    )


def run(seconds=3600, *, attempts=1, num_nodes=8):
    """Attempts that step every ten seconds on so many nodes, one rank each."""
    events = [RunStart(t=T0, run=RUN, world_size=num_nodes)]
    length = seconds / attempts
    for attempt in range(attempts):
        t0 = T0 + attempt * length
        events.append(AttemptStart(t=t0, run=RUN, attempt=attempt, resume_step=0))
        events += [
            Step(
                t=t0 + 10 * step + 1e-3 * node, run=RUN, attempt=attempt, rank=node, node=f"n{node}", step=step, dur=10
            )
            for step in range(1, int(length / 10))
            for node in range(num_nodes)
        ]
    return events


def of(incidents, detector):
    return [one for one in incidents if one.detector == detector]


@pytest.mark.parametrize("number", sorted(detector_xids.HARDWARE))
def test_a_hardware_xid_is_critical_at_once(number):
    (incident,) = of(found([*run(), xid(600, number)]), "xid")
    assert (incident.subject, incident.severity, incident.node) == ("node n1", "critical", "n1")
    assert incident.opened_us == incident.found_us == round((T0 + 600) * 1e6)
    assert incident.evidence.more["xids"] == [number]
    assert "drain the node" in incident.advice


@pytest.mark.parametrize("number", sorted(detector_xids.APPLICATION))
def test_an_applications_xid_says_nothing(number):
    assert of(found([*run(), xid(600, number), xid(900, number)]), "xid") == []


def test_an_applications_xid_of_one_gpu_in_two_attempts_is_the_gpus():
    (incident,) = of(found([*run(attempts=2), xid(600, 31), xid(2400, 13)]), "xid")
    assert (incident.severity, incident.node) == ("warning", "n1")
    assert incident.evidence.more["xids"] == [13, 31]
    assert "in 2 attempts on the same GPU" in incident.summary
    assert "if the error stays with the GPU" in incident.advice


@pytest.mark.parametrize(
    "second",
    [
        xid(2400, 13, gpu="0000:5e:00"),
        xid(2400, 13, node="n2"),
    ],
)
def test_an_applications_xid_of_another_gpu_in_the_next_attempt_is_no_gpus(second):
    assert of(found([*run(attempts=2), xid(600, 31), second]), "xid") == []


def test_an_applications_xid_more_than_a_day_later_is_another_matter():
    day = 86_400
    events = [*run(3600), AttemptStart(t=T0 + day, run=RUN, attempt=1, resume_step=0)]
    events += losses([2.0] * 200, step_s=10, attempt=1, t0=T0 + day)
    assert of(found([*events, xid(600, 31), xid(day + 700, 31)]), "xid") == []


def test_an_applications_xid_that_follows_a_failure_elsewhere_does_not_count():
    def failing(node):
        return [
            Failure(t=T0 + 1790, run=RUN, attempt=0, category="network", node=node),
            xid(1795, 45),
            Failure(t=T0 + 3590, run=RUN, attempt=1, category="network", node=node),
            xid(3595, 45),
        ]

    assert of(found([*run(attempts=2), *failing("n5")]), "xid") == []
    assert len(of(found([*run(attempts=2), *failing("n1")]), "xid")) == 1


@pytest.mark.parametrize("number", [74, 144, 147, 150])
@pytest.mark.parametrize(
    ("line", "severity"),
    [("link 3 failed, fatal", "critical"), ("link 3 failed, nonfatal", "warning"), ("non-fatal error", "warning")],
)
def test_an_xid_of_a_link_is_critical_only_where_the_line_says_fatal(number, line, severity):
    (incident,) = of(found([*run(), xid(600, number, detail=f"Xid {number} on x: {line}")]), "xid")
    assert incident.severity == severity


def test_what_an_agent_read_in_a_longer_line_counts():
    told = xid(600, 74, severity="critical", detail="Xid 74 on x: cut", meaning="link")
    assert of(found([*run(), told]), "xid")[0].severity == "critical"


@pytest.mark.parametrize("number", [63, 92])
def test_an_xid_to_be_watched_is_a_warning(number):
    (incident,) = of(found([*run(), xid(600, number)]), "xid")
    assert incident.severity == "warning"
    assert "watch it" in incident.advice


def test_off_the_bus_without_an_xid_is_critical():
    (incident,) = of(found([*run(), health(600, "gpu_lost", "critical", gpu=GPU, detail="GPU lost")]), "xid")
    assert (incident.severity, incident.found_us) == ("critical", round((T0 + 600) * 1e6))


def test_all_xids_of_a_node_are_one_incident_that_lists_them():
    events = [xid(600, 63), xid(700, 79), xid(710, 43), xid(720, 79, gpu="0000:5e:00"), xid(1500, 119, xids={"119": 4})]
    (incident,) = of(found([*run(), *events]), "xid")
    assert incident.severity == "critical"
    assert incident.evidence.more["xids"] == [63, 79, 119]
    assert incident.evidence.more["gpus"] == f"{GPU}, 0000:5e:00"
    assert incident.opened_us == round((T0 + 600) * 1e6)


def test_xids_are_over_when_two_hours_were_quiet_and_can_come_again():
    first, second = of(found([*run(30_000), xid(600, 79), xid(20_000, 79)]), "xid")
    assert first.cleared_us == round((T0 + 600 + 7200) * 1e6)
    assert second.opened_us == round((T0 + 20_000) * 1e6)
    assert second.cleared_us == round((T0 + 27_200) * 1e6)


def test_a_failure_of_the_node_is_told_beside_its_xid():
    (incident,) = of(found([*run(), xid(600, 79), Failure(t=T0 + 612, run=RUN, node="n1", category="gpu")]), "xid")
    assert incident.evidence.more["failure_category"] == "gpu"
    assert incident.evidence.more["failure_after_s"] == 12
    (other,) = of(found([*run(), xid(600, 79), Failure(t=T0 + 612, run=RUN, node="n2", category="gpu")]), "xid")
    assert "failure_category" not in other.evidence.more


def test_old_messages_of_the_kernel_raise_nothing():
    old = xid(-5000, 79)
    assert of(found([*run(), old]), "xid") == []
    again = [xid(600, 79), xid(605, 79), xid(601, 79, meaning="hardware")]
    (incident,) = of(found([*run(), *again]), "xid")
    assert incident.evidence.num_samples == 1
    later = [*run(30_000), xid(600, 79), xid(602, 79, reread=True)]
    assert len(of(found(later), "xid")) == 1


def test_an_old_message_that_is_read_again_when_it_was_over_opens_nothing():
    detectors = Detectors()
    detectors.add([*run(30_000), xid(600, 79)])
    detectors.look(round((T0 + 20_000) * 1e6))
    detectors.add([xid(603, 79)])
    assert [one.what for one in detectors.look(round((T0 + 20_010) * 1e6)) if one.incident.detector == "xid"] == []


def test_a_kernels_log_alone_is_judged_though_it_names_no_node():
    lost = health(100, "gpu_lost", "critical", node=None, gpu="0000:b3:00", detail="GPU lost")
    incidents = found([xid(0, 79, node=None), lost, health(200, "hung_task", node=None)])
    (incident,), (hung,) = of(incidents, "xid"), of(incidents, "node_health")
    assert (incident.subject, incident.node) == ("node unknown", None)
    assert incident.evidence.more["gpus"] == f"{GPU}, 0000:b3:00"
    assert hung.severity == "warning"


def test_what_lasts_is_one_incident_until_the_agent_says_that_it_is_over():
    told = [health(600 + 3600 * hour, "disk", subject="/ space", open=True) for hour in range(4)]
    over = health(12_000, "disk", "info", subject="/ space", open=False)
    (incident,) = of(found([*run(20_000), *told, over]), "node_health")
    assert (incident.subject, incident.severity) == ("node n1", "warning")
    assert (incident.opened_us, incident.cleared_us) == (round((T0 + 600) * 1e6), round((T0 + 12_000) * 1e6))
    assert incident.found_us == round((T0 + 660) * 1e6)


def test_what_is_not_told_again_for_two_hours_is_over():
    (incident,) = of(found([*run(20_000), health(600, "disk", open=True)]), "node_health")
    assert (incident.cleared_us, incident.outcome) == (round((T0 + 7800) * 1e6), "over")


def test_what_was_told_before_it_was_over_and_comes_after_changes_nothing():
    detectors = Detectors()
    detectors.add([*run(), health(600, "disk", open=True), health(900, "disk", "info", open=False)])
    detectors.look(round((T0 + 1000) * 1e6))
    detectors.add([health(800, "disk", "critical", open=True)])
    detectors.look(round((T0 + 1010) * 1e6))
    detectors.look(round((T0 + 2000) * 1e6))
    (incident,) = of(detectors.incidents(), "node_health")
    assert (incident.severity, incident.cleared_us) == ("warning", round((T0 + 900) * 1e6))


def test_what_comes_and_goes_is_one_incident():
    told = []
    for begin in range(600, 3000, 300):
        told += [health(begin, "ib", open=True), health(begin + 100, "ib", "info", open=False)]
    assert len(of(found([*run(9000), *told]), "node_health")) == 1


def test_a_warning_that_gets_worse_is_critical_at_once():
    told = [health(600, "memory", open=True), health(620, "memory", "critical", open=True)]
    (incident,) = of(found([*run(), *told]), "node_health")
    assert (incident.severity, incident.found_us) == ("critical", round((T0 + 620) * 1e6))


@pytest.mark.parametrize(
    ("value", "severity"),
    [(1.9, None), (-2.5, "warning"), (31.0, "critical"), (-3600.0, "critical")],
)
def test_a_clock_is_judged_by_how_far_it_is_off(value, severity):
    told = health(600, "clock", "warning", value=value, subject="offset", open=True)
    assert [one.severity for one in of(found([*run(), told]), "node_health")] == ([severity] if severity else [])


def test_thresholds_of_a_clock_can_be_set():
    told = health(600, "clock", value=3.0, subject="offset", open=True)
    settings = settings_from({"node_health": {"clock_warning_s": 5.0}})
    assert of(found([*run(), told], settings), "node_health") == []


@pytest.mark.parametrize(
    "check", ["ecc", "row_remap", "throttle", "nvlink", "ib", "memory", "disk", "stuck", "hung_task"]
)
def test_each_check_of_the_agent_is_heard(check):
    assert len(of(found([*run(), health(600, check, "critical", open=True)]), "node_health")) == 1


@pytest.mark.parametrize(
    "event",
    [
        health(600, "nvml", "info", state="absent", open=True),
        health(600, "ib", "warning", state="failed", open=True),
        health(600, "kernel", "warning", subject="gap"),
        health(600, "disk", "info", open=False),
    ],
)
def test_that_a_check_cannot_look_is_no_sickness(event):
    assert of(found([*run(), event]), "node_health") == []


def test_the_same_on_many_nodes_at_once_is_one_incident_of_the_run():
    told = [health(600 + node, "hung_task", node=f"n{node}") for node in range(5)]
    (incident,) = of(found([*run(), *told]), "node_health")
    assert (incident.subject, incident.node) == ("run", None)
    assert "hung_task on 5 of 8 nodes" in incident.summary
    few = of(found([*run(), *told[:2]]), "node_health")
    assert [one.subject for one in few] == ["node n0", "node n1"]


def test_one_programs_error_on_all_gpus_in_each_attempt_is_the_programs():
    told = [xid(at + node, 31, node=f"n{node}") for at in (600, 2400) for node in range(8)]
    (incident,) = of(found([*run(attempts=2), *told]), "xid")
    assert (incident.subject, incident.severity) == ("run", "warning")
    assert "the program" in incident.advice


def test_a_hardware_xid_is_told_of_its_node_while_many_have_something_else():
    told = [health(600 + node, "hung_task", node=f"n{node}") for node in range(5)]
    incidents = found([*run(), *told, health(700, "ecc", "critical", node="n3", gpu=GPU, open=True), xid(800, 79)])
    assert [one.subject for one in of(incidents, "node_health")] == ["run", "node n3"]
    assert [one.subject for one in of(incidents, "xid")] == ["node n1"]


def test_that_a_gpu_is_missing_follows_from_its_xid():
    incidents = found([*run(), xid(600, 79), health(640, "gpu_missing", "critical", gpu=GPU, open=True)])
    (cause,), (incident,) = of(incidents, "xid"), of(incidents, "node_health")
    assert incident.consequence_of == cause.incident_id
    incidents = found([*run(), xid(600, 79), health(640, "disk", "critical", open=True)])
    assert of(incidents, "node_health")[0].consequence_of is None


def test_a_node_stays_sick_over_attempts_and_is_forgotten_with_the_run():
    events = [*run(attempts=2), AttemptEnd(t=T0 + 1790, run=RUN, attempt=0), xid(600, 79)]
    assert of(found(events), "xid")[0].cleared_us is None
    (incident,) = of(found([*events, RunEnd(t=T0 + 3600, run=RUN)]), "xid")
    assert incident.outcome == "run ended"


def test_a_detector_without_agents_is_blind_and_one_that_cannot_read_the_kernels_log_says_so():
    detectors = Detectors()
    detectors.add(losses(noisy_loss(20)))
    detectors.look()
    assert "xid" not in detectors.sights(RUN) or detectors.sights(RUN)["xid"].state == "blind"
    detectors.add([Heartbeat(t=T0 + 50, run=RUN, node="n1")])
    detectors.look()
    assert detectors.sights(RUN)["xid"].state == "armed"
    detectors.add([health(60, "kernel", "info", state="blind", open=True, detail="blind: /dev/kmsg: not allowed")])
    detectors.look()
    sight = detectors.sights(RUN)["xid"]
    assert sight.state == "blind"
    assert "can't be read on 1 of 1 nodes" in sight.reason


def sick_run():
    """Everything of this page in one run."""
    told = [
        xid(-300, 79),
        xid(600, 31),
        xid(900, 63, node="n2"),
        Failure(t=T0 + 3700, run=RUN, attempt=0, node="n2", category="gpu"),
        xid(4000, 13),
        xid(4100, 48, node="n3"),
        health(4130, "gpu_missing", "critical", node="n3", gpu=GPU, open=True),
        *(health(5000 + node, "hung_task", node=f"n{node}") for node in range(6)),
        *(health(1000 + 3600 * hour, "disk", node="n6", subject="/", open=True) for hour in range(2)),
        health(6000, "disk", "info", node="n6", subject="/", open=False),
        health(6700, "clock", node="n7", value=40.0, subject="offset", open=True),
    ]
    return [*run(7200, attempts=2), *told]


def test_live_tells_the_same_as_the_recording_also_over_restarts():
    events = sick_run()
    expected = {
        (one.detector, one.subject, one.opened_us, one.found_us)
        for one in found(events)
        if one.detector in ("xid", "node_health")
    }
    assert len(expected) >= 6
    for restart_every in (0, 1):
        told = live(events, 10.0, restart_every=restart_every)
        opened = [one.incident for one in told if one.what == "opened"]
        assert {
            (one.detector, one.subject, one.opened_us, one.found_us)
            for one in opened
            if one.detector in ("xid", "node_health")
        } == expected
    assert live(events, 10.0, restart_every=3) == live(events, 10.0)


def test_the_collector_sorts_xids_as_the_agent_does():
    for name in ("HARDWARE", "APPLICATION", "BY_THE_LINE", "WATCH"):
        assert getattr(detector_xids, name) == getattr(agent_xids, name)


@pytest.mark.parametrize(
    "event",
    [
        xid(600, None),
        xid(600, "seventy-nine"),
        xid(600, 10**30),
        xid(600, float("nan")),
        xid(600, 79, xids=[1, 2]),
        xid(600, None, xids={"79; rm": "x", "\u2028": None}),
        xid(600, True),
        health(600, "x" * 10_000, detail="y" * 10_000, gpu={"a": 1}, value=[1], subject={"b": 2}, open=True),
        health(600, "", value=float("inf")),
    ],
)
def test_odd_findings_are_judged_and_saved(event):
    detectors = Detectors()
    detectors.add([*run(), event])
    detectors.look()
    saved = detectors.save()
    restored = Detectors()
    restored.restore(saved)
    assert restored.incidents() == detectors.incidents()
