"""Made-up runs are lawful event logs, the same for the same seed, and what their labels say is true of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from tachograph_agent.events import CheckpointPersisted, Failure, Heartbeat, KnownEvent, Step, encode
from tachograph_collector.ledger import Ledger
from tachograph_collector.synthetic import (
    CheckpointNeverLands,
    ClockJump,
    Cluster,
    CollectorPause,
    Crash,
    Evals,
    Fault,
    FrozenRank,
    HiddenNan,
    HiddenStraggler,
    Loss,
    LossSpike,
    NodeDeath,
    NodePause,
    Noise,
    Partition,
    PeriodicSlow,
    Run,
    Saves,
    SlowJob,
    SlowSave,
    Straggler,
    SyntheticError,
    Xid,
)

SMALL = Cluster(num_nodes=4, ranks_per_node=2, num_steps=300)
START_S = SMALL.start_unix_seconds
EVERY: tuple[Fault, ...] = (
    NodeDeath(at_s=400, node="n2"),
    NodeDeath(at_s=400, node="n2", is_replaced=False),
    FrozenRank(at_s=400, rank=5),
    FrozenRank(at_s=400, rank=0),
    Crash(at_s=400, rank=3),
    Straggler(at_s=400, rank=3, for_s=300),
    HiddenStraggler(at_s=400, rank=3),
    SlowJob(at_s=400),
    PeriodicSlow(at_s=400),
    LossSpike(at_s=400),
    HiddenNan(at_s=900, kind="nan", rollback_after_s=60),
    HiddenNan(at_s=400, kind="missing"),
    HiddenNan(at_s=400, kind="frozen"),
    HiddenNan(at_s=400, kind="zero", rollback_after_s=60),
    CheckpointNeverLands(at_s=400),
    SlowSave(at_s=400),
    ClockJump(at_s=400, node="n2"),
    ClockJump(at_s=400, node="n2", seconds=-500),
    Partition(at_s=400),
    NodePause(at_s=400, node="n1"),
    CollectorPause(at_s=400),
    Xid(at_s=400, node="n3"),
)


def name_of(fault: Fault) -> str:
    return f"{fault.name}-{getattr(fault, 'kind', '')}"


def booked(events: Sequence[KnownEvent], run: str = SMALL.run) -> Ledger:
    ledger = Ledger()
    ledger.add(events)
    assert ledger.runs() == [run]
    return ledger


def is_lawful(run: Run) -> None:
    events = run.events()
    ledger = booked(events)
    books, details = ledger.books(SMALL.run), ledger.details(SMALL.run)
    assert sum(books.accounts_us.values()) == books.wall_us > 0
    assert details.anomalies == []
    assert ledger.set_aside(SMALL.run) == {}


@pytest.mark.parametrize("fault", EVERY, ids=name_of)
def test_ledger_books_a_run_with_each_fault_without_an_anomaly(fault: Fault) -> None:
    is_lawful(Run(SMALL, [fault]))


@pytest.mark.parametrize(
    "cluster",
    [
        msgspec.structs.replace(SMALL, num_stages=4, noise=Noise(kind="pipeline"), tells="wait"),
        msgspec.structs.replace(SMALL, noise=Noise(kind="moe", distribution="student_t"), evals=Evals(every_steps=40)),
        msgspec.structs.replace(SMALL, saves=Saves(mode="sync", num_kept=1, every_steps=20), ranks_tell="lead"),
        msgspec.structs.replace(SMALL, num_nodes=1, saves=None, loss=None, heartbeat_s=None, step_s=0.2, tells="wall"),
    ],
)
@pytest.mark.parametrize("until_s", [None, 700.0])
def test_ledger_books_every_kind_of_run_without_an_anomaly(cluster: Cluster, until_s: float | None) -> None:
    is_lawful(Run(cluster, [FrozenRank(at_s=300, rank=1), Crash(at_s=500, rank=0)], until_s=until_s))


def test_same_seed_gives_the_same_deliveries_and_another_seed_others() -> None:
    faults = [Straggler(at_s=300, rank=3), NodeDeath(at_s=600, node="n1"), Partition(at_s=900)]

    def told(seed: int) -> list[tuple[float, float, list[bytes]]]:
        run = Run(SMALL, faults, seed=seed)
        return [(it.happened_s, it.arrives_s, [encode(event) for event in it.events]) for it in run.told()]

    assert told(4) == told(4)
    assert told(4) != told(5)


def test_deliveries_arrive_in_order_and_none_before_it_happened() -> None:
    arriving = list(Run(SMALL, [Partition(at_s=300), CollectorPause(at_s=700)]).arriving())
    assert [it.arrives_s for it in arriving] == sorted(it.arrives_s for it in arriving)
    assert all(it.arrives_s >= it.happened_s for it in arriving)


def test_partition_keeps_steps_back_and_loses_heartbeats() -> None:
    run = Run(SMALL, [Partition(at_s=300, share=0.5, for_s=90)])
    for delivery in run.told():
        away = delivery.node in {"n2", "n3"} and 300 <= delivery.happened_s - START_S < 389
        if away and isinstance(delivery.events[0], Heartbeat):
            assert delivery.arrives_s == math.inf
        elif away:
            assert delivery.arrives_s >= START_S + 390
        elif delivery.happened_s - START_S < 299:
            assert delivery.arrives_s <= delivery.happened_s + 1
    [label] = run.labels
    assert (label.detectors, label.subjects) == (("dead_node",), ("run",))


def test_short_partition_is_labelled_as_nothing_to_be_said() -> None:
    [label] = Run(SMALL, [Partition(at_s=300, for_s=10)]).labels
    assert label.detectors == ()
    assert not label.explains("dead_node", "n3", START_S + 320)


def test_dead_node_says_nothing_more_and_a_spare_takes_its_place() -> None:
    run = Run(SMALL, [NodeDeath(at_s=400, node="n2")])
    last: dict[str, float] = {}
    first: dict[str, float] = {}
    for event in run.events():
        if event.node is not None:
            last[event.node] = event.t - START_S
            first.setdefault(event.node, event.t - START_S)
    assert last["n2"] <= 400 < first["n4"]
    [label] = run.labels
    assert label.finds("dead_node", "n2", START_S + 435, "n2")
    assert label.finds("dead_node", "node n2", START_S + 435)
    assert not label.finds("dead_node", "n1", START_S + 435, "n1")
    assert not label.finds("dead_node", "n2", START_S + 399, "n2")


def test_frozen_rank_alone_has_not_told_the_last_step_of_its_attempt() -> None:
    run = Run(SMALL, [FrozenRank(at_s=400, rank=5)])
    reached: dict[int, int] = {}
    for event in run.events():
        if isinstance(event, Step) and event.attempt == 0 and event.rank is not None:
            reached[event.rank] = event.step
    assert {rank for rank, step in reached.items() if step < max(reached.values())} == {5}
    assert run.labels[0].finds("hang", "rank 5", START_S + 460)


def means(events: Sequence[KnownEvent], begin_s: float, end_s: float) -> tuple[dict[int, float], float]:
    """Mean work of each rank, and mean time of a step, of those told in a stretch."""
    steps = [it for it in events if isinstance(it, Step) and begin_s <= it.t - START_S < end_s]
    busy = {
        rank: sum(it.busy_s or 0 for it in steps if it.rank == rank) / sum(it.rank == rank for it in steps)
        for rank in range(SMALL.num_ranks)
    }
    return busy, sum(it.dur or 0 for it in steps) / len(steps)


@pytest.mark.parametrize(("kind", "is_slower"), [(Straggler, True), (HiddenStraggler, False)])
def test_stragglers_work_by_their_ratio_longer_and_a_hidden_one_does_not_show_in_the_steps_time(
    kind: type[Straggler], is_slower: bool
) -> None:
    events = Run(SMALL, [kind(at_s=700, rank=3, ratio=1.2)]).events()
    before, step_before_s = means(events, 100, 690)
    after, step_after_s = means(events, 720, 1400)
    assert after[3] / before[3] == pytest.approx(1.2, abs=0.02)
    assert all(after[rank] / before[rank] == pytest.approx(1, abs=0.02) for rank in before if rank != 3)
    assert (step_after_s > 1.1 * step_before_s) is is_slower
    assert is_slower or step_after_s == pytest.approx(step_before_s, rel=0.02)


def test_loss_is_higher_by_the_spikes_height_for_its_steps_only() -> None:
    spiked = Run(SMALL, [LossSpike(at_s=400, height=1.0, num_steps=7)]).events()
    plain = Run(SMALL).events()
    more = [
        round((one.loss or 0) - (other.loss or 0), 6)
        for one, other in zip(spiked, plain, strict=True)
        if isinstance(one, Step) and isinstance(other, Step) and one.rank == 0
    ]
    assert sorted(set(more)) == [0.0, 1.0]
    assert more.count(1.0) == 7


@pytest.mark.parametrize("kind", ["nan", "missing", "frozen", "zero"])
def test_hidden_nan_hides_as_its_kind_says(kind: str) -> None:
    run = Run(SMALL, [HiddenNan(at_s=400, kind=kind)])  # type: ignore[arg-type]  # one of the four
    [label] = run.labels
    told = [it for it in run.events() if isinstance(it, Step) and it.rank == 0 and it.t - (it.dur or 0) >= label.at_s]
    losses = [it.loss for it in told]
    expected = {
        "nan": all(loss is not None and math.isnan(loss) for loss in losses),
        "missing": set(losses) == {None},
        "frozen": len(set(losses)) == 1 and losses[0] not in (None, 0.0),
        "zero": set(losses) == {0.0} and all(it.grad_norm is not None and math.isnan(it.grad_norm) for it in told),
    }
    assert len(told) > 100
    assert expected[kind]


def test_save_that_never_lands_is_the_only_one_not_told_as_landed() -> None:
    events = Run(SMALL, [CheckpointNeverLands(at_s=600)]).events()
    assert [it.step for it in events if isinstance(it, CheckpointPersisted)] == [100, 300]


def test_resumes_go_on_from_the_newest_save_that_had_landed() -> None:
    events = Run(SMALL, [Crash(at_s=700, rank=3)]).events()
    [*_, landed] = [it.step for it in events if isinstance(it, CheckpointPersisted) and it.t < START_S + 700]
    first = next(it for it in events if isinstance(it, Step) and it.attempt == 1)
    assert first.step == landed + 1
    assert next(it.rank for it in events if isinstance(it, Failure)) == 3


def test_jumped_clock_shifts_what_that_node_tells_and_nothing_else() -> None:
    told = list(Run(SMALL, [ClockJump(at_s=400, node="n2", seconds=50)]).told())
    shifts = {(it.node, round(it.events[0].t - it.happened_s)) for it in told if it.happened_s - START_S >= 400}
    assert shifts == {("n0", 0), ("n1", 0), ("n2", 50), ("n3", 0)}


def test_faults_after_the_end_have_no_label() -> None:
    assert Run(SMALL, [Straggler(at_s=5000, rank=1), Xid(at_s=5000, node="n1")], until_s=900).labels == []


@pytest.mark.parametrize(
    ("cluster", "faults", "said"),
    [
        (SMALL, [NodeDeath(at_s=1, node="n9")], "node-death: there is no node 'n9'; expected n0 to n3"),
        (SMALL, [Straggler(at_s=1, rank=8)], "straggler: there is no rank 8; expected 0 to 7"),
        (SMALL, [ClockJump(at_s=1, node="n0")], "clock-jump: n0 has rank 0"),
        (SMALL, [Crash(at_s=1, rank=0, category="gremlins")], "crash: no category 'gremlins'"),
        (msgspec.structs.replace(SMALL, loss=None), [LossSpike(at_s=1)], "loss-spike: the run tells no loss"),
        (msgspec.structs.replace(SMALL, saves=None), [SlowSave(at_s=1)], "slow-save: the run makes no saves"),
        (msgspec.structs.replace(SMALL, num_stages=3), [], "num_stages is 3; expected a divisor of the 8 ranks"),
        (msgspec.structs.replace(SMALL, noise=Noise(kind="pipeline")), [], "needs num_stages of at least 2"),
        (Cluster(num_nodes=1), [NodeDeath(at_s=1, node="n0")], "a cluster of one node"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(cluster: Cluster, faults: list[Fault], said: str) -> None:
    with pytest.raises(SyntheticError, match=said):
        Run(cluster, faults)


def test_noise_has_the_size_that_was_asked_for() -> None:
    cluster = msgspec.structs.replace(SMALL, num_nodes=8, noise=Noise(relative=0.03), loss=Loss(noise=0.0))
    busy = [it.busy_s or 0 for it in Run(cluster).events() if isinstance(it, Step)]
    mean = sum(busy) / len(busy)
    assert mean == pytest.approx(4.0, rel=0.01)
    assert math.sqrt(sum((each - mean) ** 2 for each in busy) / len(busy)) / mean == pytest.approx(0.03, rel=0.1)
