"""Whole runs as they reach a collector, made by ``tachograph_collector.synthetic``: nodes that die or only seem to, and
faults of every kind in runs that have saves, evaluations, heartbeats and health."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tachograph_agent.events import AnyEvent, AttemptStart, Heartbeat, Step
from tachograph_collector.detect import Detectors, Incident
from tachograph_collector.detect.scoring import Expected
from tachograph_collector.detect.silence import Silence
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
    Label,
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
    Xid,
)

from labelled.scenario import SECOND_US, Scenario, Told

JUDGED_EVERY_US = 2 * SECOND_US
"""As a collector does where nothing comes."""
KINDS = ("dense", "pipeline", "moe")


def judged(run: Run, *, restarts: bool = False) -> tuple[list[AnyEvent], list[Incident]]:
    """What a collector had of a run in the end, and what it said of the nodes meanwhile.

    Nothing is judged while the collector is down; with ``restarts`` it comes back with its saved state.
    """
    down = [
        (round((run.cluster.start_unix_seconds + one.at_s) * 1e6), round(one.for_s * 1e6))
        for one in run.faults
        if isinstance(one, CollectorPause)
    ]
    silence, attempt = Silence(run.cluster.run, 1), None
    stored: list[AnyEvent] = []
    incidents: dict[str, Incident] = {}
    next_us: int | None = None

    def until(now_us: int) -> None:
        nonlocal silence, next_us
        while next_us is not None and next_us <= now_us:
            begun = next((begin for begin, for_us in down if begin <= next_us < begin + for_us), None)
            if begun is None:
                concluded = silence.judge(next_us, attempt)
                for one in concluded:
                    silence.hear(next_us, [one.event])
                    stored.append(one.event)
                incidents.update({one.incident_id: one for one in silence.take_incidents()})
            elif restarts:
                silence = Silence(run.cluster.run, 1, silence.state())
            next_us += JUDGED_EVERY_US

    for delivery in run.arriving():
        now_us = round(delivery.arrives_s * 1e6)
        next_us = now_us if next_us is None else next_us
        until(now_us)
        stored += delivery.events
        for kind in (Step, Heartbeat, None):
            mine = [one for one in delivery.events if kind is (type(one) if type(one) in (Step, Heartbeat) else None)]
            if mine:
                silence.hear(now_us, mine)
        for event in delivery.events:
            if isinstance(event, AttemptStart):
                attempt = str(event.attempt)
    until((next_us or 0) + 60 * SECOND_US)
    return stored, list(incidents.values())


def expected_of(labels: Sequence[Label]) -> list[Expected]:
    """The generator's labels as scores know them."""
    return [
        Expected(
            detectors=one.detectors,
            subjects=one.subjects,
            since_us=round(one.at_s * SECOND_US),
            also=one.consequences,
        )
        for one in labels
        if one.detectors
    ]


def told(run: Run, *, restarts: bool = False) -> Told:
    """The run with what all detectors said of it."""
    stored, of_nodes = judged(run, restarts=restarts)
    detectors = Detectors()
    detectors.add(stored)
    detectors.look()
    return Told(expected_of(run.labels), (), (), [*of_nodes, *detectors.incidents(run.cluster.run)])


def cluster(rng: np.random.Generator, kind: str, **more: object) -> Cluster:
    """Four to twelve nodes of two ranks, told by all, saves and heartbeats as usual."""
    fields: dict = {
        "num_nodes": 4 * int(rng.integers(1, 4)),
        "ranks_per_node": 2,
        "num_stages": 2 if kind == "pipeline" else 1,
        "num_steps": 10_000,
        "step_s": float(rng.uniform(2, 8)),
        "noise": Noise(kind=kind),  # type: ignore[arg-type]  # one of KINDS
        "latency_s": float(rng.uniform(0.1, 2.0)),
    }
    return Cluster(**(fields | more))


def nodes(kind: str, make: Callable[[np.random.Generator, Cluster], list[Fault]], **how: bool) -> Callable[[int], Told]:
    """Some minutes of a run in which that happens to its nodes."""

    def made(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        which = cluster(rng, kind)
        faults = make(rng, which)
        until_s = max(one.at_s for one in faults) + 200.0
        return told(Run(which, faults, seed=seed, until_s=until_s), **how)

    return made


def _some_node(rng: np.random.Generator, which: Cluster) -> str:
    return f"n{int(rng.integers(1, which.num_nodes))}"


def dies(rng: np.random.Generator, which: Cluster) -> list[Fault]:
    return [NodeDeath(at_s=float(rng.uniform(150, 250)), node=_some_node(rng, which))]


def pauses(rng: np.random.Generator, which: Cluster) -> list[Fault]:
    """Two nodes stand still for 20 s, one after the other."""
    return [
        NodePause(at_s=at_s + float(rng.uniform(0, 30)), node=_some_node(rng, which), for_s=20.0) for at_s in (150, 230)
    ]


def parted(rng: np.random.Generator, which: Cluster) -> list[Fault]:
    """Up to half of the fleet can't be heard for 10 s, twice."""
    share = float(rng.uniform(0.25, 0.5))
    return [Partition(at_s=at_s + float(rng.uniform(0, 30)), share=share, for_s=10.0) for at_s in (150, 230)]


def half_parted(rng: np.random.Generator, which: Cluster) -> list[Fault]:
    """Half of the fleet, for a minute and a half: declared dead, and taken back."""
    return [Partition(at_s=float(rng.uniform(150, 250)), share=0.5, for_s=90.0)]


def collector_down(rng: np.random.Generator, which: Cluster) -> list[Fault]:
    """The collector is restarted, for 5 s to 60 s."""
    return [CollectorPause(at_s=float(rng.uniform(150, 250)), for_s=float(rng.uniform(5, 60)))]


def dies_meanwhile(rng: np.random.Generator, which: Cluster) -> list[Fault]:
    """A node dies soon after the collector is back."""
    at_s = float(rng.uniform(150, 250))
    return [
        CollectorPause(at_s=at_s, for_s=20.0),
        NodeDeath(at_s=at_s + float(rng.uniform(25, 40)), node=_some_node(rng, which)),
    ]


def mixed(
    kind: str, faults: Callable[[np.random.Generator, Cluster], list[Fault]], **more: object
) -> Callable[[int], Told]:
    """A quarter of an hour or more of a run of 32 ranks with saves and evaluations."""

    def made(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        fields: dict = {
            "num_nodes": 8,
            "ranks_per_node": 4,
            "step_s": 4.0,
            "saves": Saves(every_steps=40),
            "evals": Evals(every_steps=150),
        }
        which = cluster(rng, kind, **(fields | more))
        chosen = faults(rng, which)
        until_s = max([one.at_s for one in chosen], default=600.0) + 900.0
        return told(Run(which, chosen, seed=seed, until_s=until_s))

    return made


def _at(rng: np.random.Generator) -> float:
    return float(rng.uniform(700, 900))


MIXED: dict[str, Callable[[np.random.Generator, Cluster], list[Fault]]] = {
    "frozen rank": lambda rng, which: [FrozenRank(at_s=_at(rng), rank=int(rng.integers(1, 32)))],
    "crash": lambda rng, which: [Crash(at_s=_at(rng), rank=int(rng.integers(1, 32)))],
    "straggler 20 %": lambda rng, which: [Straggler(at_s=_at(rng), rank=int(rng.integers(1, 32)), ratio=1.25)],
    "hidden straggler": lambda rng, which: [HiddenStraggler(at_s=_at(rng), rank=int(rng.integers(1, 32)), ratio=1.3)],
    "slow job": lambda rng, which: [SlowJob(at_s=_at(rng), ratio=1.3)],
    "each 20th step slow": lambda rng, which: [PeriodicSlow(at_s=300.0, every_steps=20, ratio=4.0)],
    "spike": lambda rng, which: [LossSpike(at_s=_at(rng), height=0.8, num_steps=int(rng.integers(5, 30)))],
    "NaN, missing": lambda rng, which: [HiddenNan(at_s=_at(rng), kind="missing")],
    "NaN, frozen": lambda rng, which: [HiddenNan(at_s=_at(rng), kind="frozen")],
    "saves never land": lambda rng, which: [CheckpointNeverLands(at_s=_at(rng), num=1)],
    "slow save": lambda rng, which: [SlowSave(at_s=_at(rng), ratio=8.0)],
    "Xid 79": lambda rng, which: [Xid(at_s=_at(rng), node=_some_node(rng, which))],
    "clock set": lambda rng, which: [ClockJump(at_s=_at(rng), node=_some_node(rng, which), seconds=40.0)],
    "nothing": lambda rng, which: [],
}


def scenarios() -> list[Scenario]:
    """All of this kind."""
    made: list[Scenario] = []

    def add(name: str, family: str, num: int, make: Callable[[int], Told]) -> None:
        first = 5_000 + len(made)
        made.extend(Scenario(name, family, first + seed, make) for seed in range(num))

    for kind in KINDS:
        add("node dies", kind, 10, nodes(kind, dies))
        add("pauses of 20 s", kind, 5, nodes(kind, pauses))
        add("partitions of 10 s", kind, 5, nodes(kind, parted))
        add("collector restarts", kind, 5, nodes(kind, collector_down, restarts=True))
        add("node dies after a restart", kind, 2, nodes(kind, dies_meanwhile, restarts=True))
        add("half of the fleet parted", kind, 1, nodes(kind, half_parted))
        for name, faults in MIXED.items():
            add(f"whole run: {name}", kind, 1 if name != "nothing" else 5, mixed(kind, faults))
    return made
