"""A recorded run is played as it was, moved and made faster; a fault put into it changes what it says and no more."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from tachograph_agent.events import (
    AnyEvent,
    AttemptStart,
    CheckpointPersisted,
    CheckpointSaved,
    Failure,
    Heartbeat,
    KnownEvent,
    RunStart,
    Step,
)
from tachograph_collector.ledger import Ledger
from tachograph_collector.synthetic import (
    CheckpointNeverLands,
    Cluster,
    Crash,
    Fault,
    FrozenRank,
    HiddenNan,
    LossSpike,
    NodeDeath,
    Partition,
    Recording,
    Run,
    SlowJob,
    Straggler,
    SyntheticError,
    Xid,
)

LOG: list[KnownEvent] = Run(Cluster(num_nodes=4, ranks_per_node=2, num_steps=200, run="there")).events()
NOW_S = 1_780_000_000.0


def played(*faults: Fault, speed: float = 1.0, log: list[KnownEvent] = LOG) -> Recording:
    return Recording(log, faults, run="here", start_unix_seconds=NOW_S, speed=speed)


def steps(recording: Recording) -> list[Step]:
    return [it for it in recording.events() if isinstance(it, Step)]


def kept_s(events: list[KnownEvent], run: str) -> float:
    ledger = Ledger()
    ledger.add(events)
    assert ledger.details(run).anomalies == []
    return ledger.books(run).accounts_us["kept"] / 1e6


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_recording_begins_now_and_is_as_much_faster_as_asked_for(speed: float) -> None:
    recording = played(speed=speed)
    events = recording.events()
    assert min(it.t - (it.dur or 0) for it in events) == pytest.approx(NOW_S)
    assert {it.run for it in events} == {"here"}
    assert kept_s(events, "here") == pytest.approx(kept_s(LOG, "there") / speed, rel=1e-4)
    told = [it for it in LOG if isinstance(it, Step)]
    assert [it.busy_s for it in steps(recording)] == [pytest.approx((it.busy_s or 0) / speed) for it in told]


def test_heartbeats_come_every_five_seconds_whatever_the_speed() -> None:
    beats = [it.t for it in played(speed=10.0).events() if isinstance(it, Heartbeat) and it.node == "n1"]
    apart = [after - before for before, after in pairwise(beats[:-1])]
    assert apart == [pytest.approx(5.0)] * len(apart)
    assert len(apart) > 10


def test_what_a_collector_concluded_then_is_not_told_again() -> None:
    dead = Failure(t=LOG[-1].t, run="there", node="n1", category="heartbeat", inferred=True)
    assert not [it for it in played(log=[*LOG, dead]).events() if isinstance(it, Failure)]


def test_log_itself_stays_as_it_is_however_often_it_is_played() -> None:
    before = [msgspec.structs.astuple(it) for it in LOG]
    recording = played(LossSpike(at_s=300), Straggler(at_s=300, rank=1))
    first = [str(it) for it in recording.events()]
    assert [str(it) for it in recording.events()] == first
    assert [msgspec.structs.astuple(it) for it in LOG] == before


def test_dead_node_says_no_more_and_the_run_fails_when_it_is_noticed() -> None:
    recording = played(NodeDeath(at_s=300, node="n2", noticed_s=100))
    events = recording.events()
    assert max(it.t for it in events if it.node == "n2") < NOW_S + 300
    assert max(it.t for it in events if isinstance(it, Step)) < NOW_S + 300
    assert max(it.t for it in events if isinstance(it, Heartbeat) and it.node == "n1") > NOW_S + 395
    [failure] = [it for it in events if isinstance(it, Failure)]
    assert failure.t == pytest.approx(NOW_S + 400)
    assert recording.labels[0].subjects == ("node n2",)


def test_frozen_rank_is_a_step_behind_the_others() -> None:
    last = {it.rank: it.step for it in steps(played(FrozenRank(at_s=300, rank=3)))}
    assert {rank for rank, step in last.items() if step < max(last.values())} == {3}


def test_faults_change_what_they_are_about_and_nothing_else() -> None:
    plain = {(it.rank, it.step): it for it in steps(played())}

    def changed(fault: Fault) -> list[tuple[int | None, int]]:
        return [(it.rank, it.step) for it in steps(played(fault)) if it != plain[it.rank, it.step]]

    assert len(changed(LossSpike(at_s=300, num_steps=4))) == 4
    assert {rank for rank, _ in changed(Straggler(at_s=300, rank=3))} == {3}
    assert {rank for rank, _ in changed(HiddenNan(at_s=300, kind="frozen"))} == {0}
    assert changed(Xid(at_s=300, node="n1")) == []


def test_save_that_never_lands_is_not_told_as_landed() -> None:
    events = played(CheckpointNeverLands(at_s=300)).events()
    landed = [it.step for it in events if isinstance(it, CheckpointPersisted)]
    assert [it.step for it in events if isinstance(it, CheckpointSaved)] == [100, 200]
    assert landed == [200]


def test_partition_holds_back_the_last_nodes_words() -> None:
    for delivery in played(Partition(at_s=300, share=0.5, for_s=60)).arriving():
        if delivery.node in {"n2", "n3"} and 300 <= delivery.happened_s - NOW_S < 359:
            assert delivery.arrives_s >= NOW_S + 360


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (SlowJob(at_s=3), "slow-job: can't be put into a recording"),
        (NodeDeath(at_s=3, node="n9"), "the log names no node 'n9'; it has n0, n1, n2, n3"),
        (Crash(at_s=3, rank=99), "the log has no step of rank 99"),
        (Xid(at_s=1e6, node="n1"), "at 1e\\+06 s the recording is over"),
    ],
)
def test_fault_that_the_recording_cannot_have_is_refused(fault: Fault, said: str) -> None:
    with pytest.raises(SyntheticError, match=said):
        played(fault)


def test_log_that_tells_too_little_is_refused_with_what_it_lacks() -> None:
    bare: list[AnyEvent] = [Step(t=1e9 + it, run="r", step=it + 1, dur=1.0) for it in range(50)]

    def play(log: list[AnyEvent], *faults: Fault) -> Recording:
        return Recording(log, faults, run="r", start_unix_seconds=NOW_S)

    assert not [it for it in play(bare).events() if isinstance(it, Heartbeat)]
    for fault, said in (
        (Straggler(at_s=3, rank=0), "neither busy_s nor sections.wait"),
        (LossSpike(at_s=3), "tells no loss"),
        (Partition(at_s=3), "names no nodes"),
        (Xid(at_s=3, node="n0"), "it has none"),
    ):
        with pytest.raises(SyntheticError, match=said):
            play(bare, fault)
    with pytest.raises(SyntheticError, match="no step"):
        play([RunStart(t=1e9, run="r"), AttemptStart(t=1e9, run="r")])
