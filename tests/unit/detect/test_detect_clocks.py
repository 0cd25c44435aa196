"""A node whose clock is off is heard like any other, and makes nothing of the run's time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import pytest
from detect_streams import RUN, T0, Slow, ranks
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tachograph_agent.events import (
    AnyEvent,
    CheckpointSaved,
    Failure,
    Health,
    Heartbeat,
    Step,
)
from tachograph_collector.detect import Detectors, Incident
from tachograph_collector.synthetic import Cluster, Run, Saves, faults
from tachograph_collector.synthetic.telling import Delivery

NODE = "n2"
UNTIL_S = 480.0
JUMP_S = 150.0
CLUSTER = Cluster(run=RUN, num_nodes=4, ranks_per_node=2, step_s=2.0, saves=Saves(every_steps=30), num_steps=10_000)
STORIES: dict[str, Sequence[faults.Fault]] = {
    "sick": [
        faults.Xid(at_s=200, node=NODE),
        faults.LossSpike(at_s=260),
        faults.CheckpointNeverLands(at_s=300),
        faults.Straggler(at_s=120, rank=4, ratio=1.4, for_s=240),
    ],
    "crash of the node": [faults.Crash(at_s=200, rank=5), faults.Xid(at_s=199, node=NODE)],
    "frozen": [faults.FrozenRank(at_s=180, rank=4)],
    "healthy": [],
}
TOLD = {name: list(Run(CLUSTER, story, seed=5, until_s=UNTIL_S).told()) for name, story in STORIES.items()}
OFFSETS_S = st.one_of(
    st.sampled_from([3600.0, -3600.0, 35.0, -35.0, 3.0, -3.0, 80_000.0]),
    st.floats(-15, 15),
    st.floats(-200, 200),
    st.floats(-90_000, 90_000),
)


def off(told: Sequence[Delivery], by_s: float, since_s: float, *, tells: bool) -> list[Delivery]:
    """The same with one node's clock off by so much from then on; its agent says so, or can't tell."""
    found = []
    has_said = False
    for one in told:
        events: list[AnyEvent] = [copy.copy(event) for event in one.events]
        if one.node == NODE and one.happened_s >= CLUSTER.start_unix_seconds + since_s:
            for event in events:
                event.t = round(event.t * 1e6 + by_s * 1e6) / 1e6
                if tells and isinstance(event, Heartbeat):
                    before = event.unknown_fields if isinstance(event.unknown_fields, dict) else {}
                    event.unknown_fields = {**before, "clock_offset_s": -by_s}
            if tells and not has_said:
                has_said = True
                clock = Health(t=events[0].t, run=RUN, node=NODE, check="clock", value=-by_s, severity="critical")
                clock.unknown_fields = {"subject": "offset", "open": True}
                events.append(clock)
        found.append(one._replace(events=events))
    return found


def replayed(told: Sequence[Delivery]) -> Detectors:
    detectors = Detectors()
    for one in told:
        detectors.add(one.events)
    detectors.look()
    return detectors


def live(told: Sequence[Delivery], phase_s: float = 0.0) -> Detectors:
    """Looked at each two seconds, and saved and restored now and then."""
    detectors = Detectors()
    arriving = sorted(told, key=lambda one: one.arrives_s)
    now_s, place, looks = CLUSTER.start_unix_seconds + phase_s, 0, 0
    while now_s < CLUSTER.start_unix_seconds + UNTIL_S + 30:
        while place < len(arriving) and arriving[place].arrives_s <= now_s:
            detectors.add(arriving[place].events)
            place += 1
        detectors.look(round(now_s * 1e6))
        now_s, looks = now_s + 2, looks + 1
        if looks % 50 == 0:
            states, detectors = detectors.save(), Detectors()
            detectors.restore(states)
    return detectors


def of_the_run(detectors: Detectors) -> list[Incident]:
    """All but what is said of the clock itself."""
    found = [one for one in detectors.incidents(RUN) if one.detector != "node_health"]
    return sorted(found, key=lambda one: (one.detector, one.subject, one.opened_us))


def identity(one: Incident, *, is_first_known: bool) -> tuple[object, ...]:
    who = (one.node, one.rank) if is_first_known or one.detector != "failure" else (None, None)
    return (one.detector, one.subject, one.severity, *who, one.outcome)


def check_same(before: Detectors, after: Detectors, by_s: float) -> None:
    """The same is found at the same time, and nothing that a node told in time is left out as late."""
    expected, found = of_the_run(before), of_the_run(after)
    # Of ranks that fail within two seconds, clocks that differ by less are believed when they say which was first.
    known = abs(by_s) > 2.5
    assert [identity(one, is_first_known=known) for one in found] == [
        identity(one, is_first_known=known) for one in expected
    ]
    for one, other in zip(expected, found, strict=True):
        # A clock may be off by two seconds without being taken for one that is, and a step takes two.
        assert abs(one.opened_us - other.opened_us) <= 5_000_000
        assert abs((one.cleared_us or 0) - (other.cleared_us or 0)) <= 5_000_000
    assert after.num_late(RUN) == before.num_late(RUN)


JUDGED: dict[tuple[object, ...], Detectors] = {}


def as_it_was(name: str, judge: Callable[..., Detectors], *how: float) -> Detectors:
    key = (name, judge.__name__, *how)
    if key not in JUDGED:
        JUDGED[key] = judge(off(TOLD[name], 0, 0, tells=False), *how)
    return JUDGED[key]


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(STORIES)), by_s=OFFSETS_S, jumps=st.booleans(), tells=st.booleans())
def test_a_clock_that_is_off_changes_nothing_in_a_replay(name, by_s, jumps, tells):
    told = off(TOLD[name], by_s, JUMP_S if jumps else -1, tells=tells)
    check_same(as_it_was(name, replayed), replayed(told), by_s)


@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(sorted(STORIES)),
    by_s=OFFSETS_S,
    jumps=st.booleans(),
    tells=st.booleans(),
    phase_s=st.sampled_from([0.0, 0.4, 0.8, 1.2, 1.6]),
)
@example(name="crash of the node", by_s=3.0, jumps=False, tells=True, phase_s=0.0)
@example(name="crash of the node", by_s=-2.04, jumps=True, tells=True, phase_s=0.0)
@example(name="healthy", by_s=9.481, jumps=True, tells=True, phase_s=0.0)
@example(name="frozen", by_s=6.354, jumps=True, tells=True, phase_s=0.0)
@example(name="sick", by_s=-1.915, jumps=False, tells=True, phase_s=0.0)
@example(name="sick", by_s=3.743, jumps=True, tells=True, phase_s=0.0)
def test_a_clock_that_is_off_changes_nothing_while_the_run_runs(name, by_s, jumps, tells, phase_s):
    told = off(TOLD[name], by_s, JUMP_S if jumps else -1, tells=tells)
    check_same(as_it_was(name, live, phase_s), live(told, phase_s), by_s)


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_clock_that_jumps_is_said_at_once(by_s):
    found = live(off(TOLD["healthy"], by_s, JUMP_S, tells=True)).incidents(RUN)
    assert [(one.detector, one.subject, one.severity) for one in found] == [("node_health", f"node {NODE}", "critical")]
    assert found[0].found_us / 1e6 - (CLUSTER.start_unix_seconds + JUMP_S) < 20


def saves(count: int, every_s: float) -> list[AnyEvent]:
    return [
        CheckpointSaved(t=T0 + 10 + every_s * (place + 1), run=RUN, attempt=0, rank=0, step=20 * (place + 1), dur=1.0)
        for place in range(count)
    ]


def ahead(events: Sequence[AnyEvent], node: str, by_s: float, since_s: float = 0) -> Iterator[AnyEvent]:
    for event in events:
        one = copy.copy(event)
        if one.node == node and one.t >= T0 + since_s:
            one.t += by_s
        yield one


def judged(events: Sequence[AnyEvent]) -> list[Incident]:
    detectors = Detectors()
    detectors.add(events)
    detectors.look()
    return detectors.incidents(RUN)


def test_no_save_is_overdue_for_a_node_that_is_ahead():
    events = [*ranks(8, 200), *saves(9, 100.0)]
    assert judged(events) == []
    assert judged(list(ahead(events, "n1", 7200, since_s=600))) == []


def test_the_last_steps_of_a_node_that_is_ahead_are_heard():
    slow = [*ranks(16, 160, slow=[Slow(9, 1.4, 80)])]
    (expected,) = [one for one in judged(slow) if one.detector == "straggler"]
    (found,) = [one for one in judged(list(ahead(slow, "n2", 3600))) if one.detector == "straggler"]
    assert (found.subject, found.evidence) == (expected.subject, expected.evidence)
    assert abs(found.opened_us - expected.opened_us) < 1_000_000


def test_a_node_without_steps_is_heard_by_what_its_agent_tells_of_its_clock():
    events = [event for event in ranks(4, 200) if not isinstance(event, Step) or event.rank == 0]
    xid = Health(t=T0 + 400 + 3600, run=RUN, node="n7", check="xid", gpu="0", value=79, severity="critical")
    beat = Heartbeat(t=T0 + 300 + 3600, run=RUN, node="n7", seq=1)
    beat.unknown_fields = {"clock_offset_s": -3600.0}
    (found,) = [one for one in judged([*events, *saves(9, 100.0), beat, xid]) if one.detector == "xid"]
    assert abs(found.opened_us / 1e6 - (T0 + 400)) < 2


def test_a_word_by_an_unknown_clock_makes_no_silence_of_the_run():
    events = [*ranks(4, 200), *saves(9, 100.0)]
    stray = Health(t=T0 + 90_000, run=RUN, node="n7", check="xid", gpu="0", value=79, severity="critical")
    assert [one.detector for one in judged([*events, stray])] == ["xid"]


def test_only_the_agents_clock_may_have_been_set():
    """Recorders take the clock once: steps go on as before, while what the agent tells is an hour ahead."""
    events = [*ranks(8, 200), *saves(9, 100.0)]
    beats = []
    for place in range(200):
        is_set = place >= 80
        beat = Heartbeat(t=T0 + 5 * place + (3600 if is_set else 0), run=RUN, node="n1", seq=place)
        beat.unknown_fields = {"clock_offset_s": -3600.0 if is_set else 0.0}
        beats.append(beat)
    xid = Health(t=T0 + 600 + 3600, run=RUN, node="n1", check="xid", gpu="0", value=79, severity="critical")
    (found,) = judged([*events, *beats, xid])
    assert (found.detector, found.subject) == ("xid", "node n1")
    assert abs(found.opened_us / 1e6 - (T0 + 600)) < 2


def test_a_failure_by_a_clock_that_is_off_ends_the_attempt_when_it_happened():
    events = ranks(8, 100)
    last_s = max(event.t for event in events)
    failed = Failure(t=last_s + 1, run=RUN, attempt=0, node="n1", rank=5, category="gpu")
    again = ranks(8, 60, attempt=1, first_step=101, t0=last_s + 60)
    expected = judged([*events, failed, *again])
    for by_s in (3600.0, -3600.0):
        found = judged(list(ahead([*events, failed, *again], "n1", by_s)))
        assert [one.detector for one in found] == [one.detector for one in expected]
        for one, other in zip(expected, found, strict=True):
            assert abs(one.opened_us - other.opened_us) < 1_000_000


@pytest.mark.parametrize("by_s", [1800.0, -1800.0])
def test_a_log_that_is_judged_in_parts_by_its_own_times_gives_the_same(by_s):
    slow = ranks(8, 900, slow=[Slow(5, 1.4, 700)])
    expected = [(one.detector, one.subject) for one in judged(slow)]
    assert expected == [("job_slow", "run"), ("straggler", "rank 5")]
    told = sorted(ahead(slow, "n1", by_s), key=lambda event: event.t)
    detectors = Detectors()
    for begin in range(0, len(told), 500):
        detectors.add(told[begin : begin + 500])
        detectors.settle(3_600_000_000)
    detectors.look()
    assert [(one.detector, one.subject) for one in detectors.incidents(RUN)] == expected


def test_a_rollback_is_no_clock_that_is_off():
    """Steps are done again within one attempt: whoever tells them first isn't compared with what was told before."""
    events = ranks(8, 60)
    again = [event for event in ranks(8, 60, first_step=41, t0=T0 + 340) if isinstance(event, Step)]
    back = [event for event in events if not isinstance(event, Step) or event.step <= 60]
    detectors = Detectors()
    now_s = T0
    told = sorted([*back, *again], key=lambda event: event.t + (8 if event.rank == 0 else 0))
    for event in told:  # the lead's words come eight seconds after the others'
        detectors.add([event])
        if event.t > now_s + 2:
            now_s = event.t
            detectors.look(round((now_s - 15) * 1e6))
    detectors.look()
    assert detectors.num_late(RUN) == 0


def told_live(events: Sequence[tuple[float, AnyEvent]]) -> Detectors:
    """Each event as it arrives (the first number), looked at each two seconds."""
    detectors = Detectors()
    look_s = T0
    for arrives_s, event in sorted(events, key=lambda one: one[0]):
        while look_s < arrives_s:
            detectors.look(round(look_s * 1e6))
            look_s += 2
        detectors.add([event])
    detectors.look()
    return detectors


def back_to_40(num_ranks: int = 8, num_before: int = 8) -> list[AnyEvent]:
    """An attempt that goes back from step 60 to 40 within itself, with ``num_before`` ranks until then."""
    before = [one for one in ranks(num_ranks, 60) if not isinstance(one, Step) or (one.rank or 0) < num_before]
    again = [one for one in ranks(num_ranks, 60, first_step=41, t0=T0 + 340) if isinstance(one, Step)]
    return [*before, *again]


def test_a_node_that_comes_in_while_steps_are_done_again_is_not_off_by_when_they_were_done_before():
    events = [(one.t + (1 if one.node == "n2" else 3), one) for one in back_to_40(12, num_before=8)]
    detectors = told_live(events)
    assert detectors.num_late(RUN) == 0
    assert detectors.incidents(RUN) == told_live([(one.t + 3, one) for one in back_to_40(12, 8)]).incidents(RUN)


@pytest.mark.parametrize("later_s", [0.5, 2.5])
@pytest.mark.parametrize("by_s", [-3600.0, -120.3, -12.0, -3.0, 3.0, 8.0, 30.0, 3600.0])
def test_a_clock_that_is_set_while_steps_are_done_again_loses_ten_seconds_of_its_node_at_most(by_s, later_s):
    events = back_to_40()
    since_s = 340 + 8
    told = [
        (one.t + (0.4 if one.node == "n1" else later_s), other)
        for one, other in zip(events, ahead(events, "n1", by_s, since_s), strict=True)
    ]
    assert told_live(told).num_late(RUN) <= 4 * 10 / 5  # four ranks, five seconds a step
