"""What an incident costs, in the unit of the run's price, and what it follows from."""

from __future__ import annotations

import math

import pytest
from detect_streams import RUN, T0, Slow, found, losses, noisy_loss, ranks
from tachograph_agent.events import AttemptEnd, AttemptStart, CheckpointSaved, Failure, RunStart, Step
from tachograph_collector.detect import Evidence, Incident
from tachograph_collector.detect.consequences import cause_of
from tachograph_collector.detect.course import Course
from tachograph_collector.detect.verdict import Verdict

PRICED = RunStart(t=T0, run=RUN, world_size=64, price_per_gpu_hour=2.5)


def of(detector, incidents):
    return [one for one in incidents if one.detector == detector]


def steps(first, last, t0, *, attempt=0, node="n0", step_s=2.0):
    return [
        Step(t=t0 + step_s * place, run=RUN, attempt=attempt, rank=0, node=node, step=step, dur=step_s)
        for place, step in enumerate(range(first, last + 1), start=1)
    ]


def test_the_worked_number_90_s_of_64_gpus_at_2_5_cost_4() -> None:
    course = Course(world_size=64, price_per_gpu_hour=2.5)
    cost = course.cost(90.0, "why")
    assert (cost.wall_s, cost.gpu_hours, cost.money, cost.basis) == (
        90.0,
        pytest.approx(1.6),
        pytest.approx(4.0),
        "why",
    )


def test_what_is_unknown_is_none_and_never_0() -> None:
    bare = Course().cost(90.0, "why")
    assert (bare.wall_s, bare.gpu_hours, bare.money) == (90.0, None, None)
    assert Course(world_size=8).cost(90.0, "why").money is None
    assert Course(world_size=8).cost(None, "why") is None
    assert Course(world_size=8).cost(math.nan, "why") is None


def test_a_straggler_costs_the_time_by_which_it_makes_every_step_longer() -> None:
    price = RunStart(t=T0, run=RUN, world_size=8, price_per_gpu_hour=3.0)
    (incident,) = of("straggler", found([*ranks(8, 400, slow=[Slow(3, 1.2, 100)]), price]))
    cost, lasted_s = incident.cost, (incident.updated_us - incident.opened_us) / 1e6
    assert cost.wall_s == pytest.approx(incident.evidence.more["impact_of_step"] * lasted_s)
    assert cost.wall_s == pytest.approx(0.14 * lasted_s, rel=0.15)  # 0.8 of 5.8 s
    assert cost.gpu_hours == pytest.approx(cost.wall_s * 8 / 3600)
    assert cost.money == pytest.approx(cost.gpu_hours * 3.0)


def test_a_hang_costs_all_the_time_until_it_ended_times_all_gpus() -> None:
    events = [PRICED, *steps(1, 100, T0), *steps(101, 120, T0 + 200 + 700)]
    (incident,) = found(events)
    assert incident.detector == "hang"
    assert incident.cost.wall_s == pytest.approx(702.0)
    assert incident.cost.money == pytest.approx(702.0 * 64 / 3600 * 2.5)


def test_a_hang_that_goes_on_costs_more_by_the_minute() -> None:
    goes_on = [PRICED, *steps(1, 100, T0), RunStart(t=T0 + 200 + 615, run=RUN, world_size=64)]
    (incident,) = found(goes_on)
    assert incident.cleared_us is None
    assert 555 <= incident.cost.wall_s <= 615
    assert "for 10 min" in incident.summary


def test_nan_costs_the_seconds_that_were_poisoned_and_a_spike_what_going_back_would() -> None:
    values = noisy_loss(300)
    values[200:] = math.nan
    (nan,) = found([PRICED, *losses(values)])
    assert nan.cost.wall_s == nan.evidence.more["poisoned_s"] > 100
    values = noisy_loss(500)
    values[400:420] += 3.0
    save = CheckpointSaved(t=T0 + 500.5, run=RUN, attempt=0, rank=0, step=250, dur=0.4)
    (spike,) = found([PRICED, *losses(values), save])
    assert spike.cost.wall_s == spike.evidence.more["go_back_cost_s"] >= 300
    assert spike.cost.money == pytest.approx(spike.cost.wall_s * 64 / 3600 * 2.5)
    (without,) = found([PRICED, *losses(values)])
    assert without.cost.wall_s == without.evidence.more["in_question_s"] < 60


def test_a_slow_job_follows_from_the_straggler_that_makes_it_slow() -> None:
    incidents = found(ranks(8, 600, slow=[Slow(3, 1.4, 300)]))
    (straggler,), (slow,) = of("straggler", incidents), of("job_slow", incidents)
    assert slow.consequence_of == straggler.incident_id
    assert straggler.consequence_of is None
    assert slow.severity != "critical"


def verdict(detector, value, baseline, since_s, node=None):
    return Verdict(
        detector=detector,
        subject="run",
        severity="warning",
        since_us=round(since_s * 1e6),
        summary="",
        evidence=Evidence(value=value, baseline=baseline),
        advice="",
        node=node,
    )


def incident(detector, opened_s, *, cleared_s=None, impact=None, node=None, outcome=None):
    return Incident(
        incident_id=f"{detector}-{opened_s}",
        run=RUN,
        detector=detector,
        subject="a subject",
        severity="critical",
        opened_us=round(opened_s * 1e6),
        found_us=round(opened_s * 1e6),
        updated_us=round(opened_s * 1e6),
        cleared_us=None if cleared_s is None else round(cleared_s * 1e6),
        summary="",
        evidence=Evidence(more={} if impact is None else {"impact_of_step": impact}),
        node=node,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("straggler", "explains"),
    [
        (incident("straggler", 1_000, impact=0.15), True),
        (incident("straggler_group", 1_000, impact=0.15), True),
        (incident("straggler", 1_000, impact=0.05), False),  # too little of the 17 %
        (incident("straggler", 10_000, impact=0.15), False),  # began long after
        (incident("straggler", 1_000, cleared_s=1_100, impact=0.15), False),  # is over
        (incident("hang", 1_000, impact=0.15), False),
    ],
)
def test_a_straggler_explains_a_slow_job_if_it_takes_most_of_it_and_began_then(straggler, explains) -> None:
    cause = cause_of(verdict("job_slow", 1.2, 1.0, 1_030), [straggler])
    assert (cause is straggler) is explains


@pytest.mark.parametrize(
    ("effect", "node", "cause", "follows"),
    [
        ("nan", None, incident("loss_spike", 900), True),
        ("nan", None, incident("loss_spike", 100, cleared_s=200), False),
        ("nan", None, incident("loss_spike", 1_100), False),
        ("hang", "n1", incident("xid", 900, node="n1"), True),
        ("straggler", "n1", incident("xid", 900, node="n1"), True),
        ("straggler", "n1", incident("xid", 900, node="n2"), False),
        ("straggler", None, incident("xid", 900), False),
        ("checkpoint_overdue", None, incident("hang", 900), True),
        ("checkpoint_overdue", None, incident("hang", 900, outcome="withdrawn: no"), False),
        ("retention", None, incident("hang", 900), False),
    ],
)
def test_what_follows_from_what(effect, node, cause, follows) -> None:
    assert (cause_of(verdict(effect, None, None, 1_000, node), [cause]) is cause) is follows


@pytest.mark.parametrize(("over_s", "follows"), [(None, True), (1_060, True), (1_010, False)])
def test_a_failure_that_was_over_before_a_node_died_does_not_follow_from_that(over_s, follows) -> None:
    death = incident("dead_node", 1_030, node="n2")
    assert (cause_of(incident("failure", 1_000, cleared_s=over_s), [death]) is death) is follows


def restarts(length_s, nodes):
    events, t0 = [], T0
    for attempt, node in enumerate(nodes):
        events.append(AttemptStart(t=t0, run=RUN, attempt=attempt, resume_step=0))
        events += [
            AttemptStart(t=t0 + 0.5, run=RUN, attempt=attempt, node=name, rank=5, resume_step=0) for name in node
        ]
        events.append(Failure(t=t0 + length_s, run=RUN, attempt=attempt, node=node[0], category="host"))
        t0 += length_s + 10
    return events


def test_a_node_of_each_of_the_last_short_attempts_is_the_suspect_of_a_loop() -> None:
    nodes = [("a", "x"), ("b", "x"), ("c", "x"), ("d", "x"), ("e", "x")]
    (loop,) = of("restart_loop", found(restarts(300, nodes)))
    assert loop.node == "x"
    assert "x took part in each of the last 3" in loop.advice


@pytest.mark.parametrize(
    ("length_s", "nodes"),
    [
        (300, [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y"), ("c", "z")]),  # nobody was there each time
        (300, [("a", "b", "x"), ("b", "x", "a"), ("x", "b", "a"), ("a", "x", "b"), ("b", "a", "x")]),  # always all
    ],
)
def test_no_node_is_suspected_where_none_stands_out(length_s, nodes) -> None:
    (loop,) = of("restart_loop", found(restarts(length_s, nodes)))
    assert loop.node is None
    assert loop.advice.startswith("hold it before the next attempt")


def test_a_loop_follows_from_the_hang_that_its_first_attempt_ended_in() -> None:
    events = [PRICED, *steps(1, 100, T0)]
    fails_at = T0 + 200 + 300
    events.append(Failure(t=fails_at, run=RUN, attempt=0, node="n0", category="collective_timeout"))
    for attempt in range(1, 5):
        t0 = fails_at + 100 * attempt
        events += [
            AttemptStart(t=t0, run=RUN, attempt=attempt, resume_step=0),
            Failure(t=t0 + 50, run=RUN, attempt=attempt, node="n0", category="host"),
        ]
    incidents = found(events)
    (hang,), (loop,) = of("hang", incidents), of("restart_loop", incidents)
    assert loop.consequence_of == hang.incident_id
    assert loop.cost.wall_s == pytest.approx(fails_at + 400 - T0)


def test_a_planned_stop_after_a_hang_makes_no_loop_of_it() -> None:
    events = [PRICED, *steps(1, 100, T0), AttemptEnd(t=T0 + 300, run=RUN, attempt=0, planned=True)]
    events += [AttemptStart(t=T0 + 310, run=RUN, attempt=1, resume_step=100), *steps(101, 200, T0 + 320, attempt=1)]
    assert of("restart_loop", found(events)) == []
