"""What is rehearsed: runs with their faults, how soon each should be found, and the drill of all of them.

Each fault of the drill has a run of its own, so that none hides another, and all are played at once. Limits of the
detectors are real time (a node is dead after 30 s of silence), so a rehearsal takes as long as the slowest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from tachograph_agent.events import AttemptStart

from tachograph_collector.detect import Detectors
from tachograph_collector.detect.settings import Checkpoints
from tachograph_collector.detect.settings import PeriodicSlow as PeriodicSettings
from tachograph_collector.rehearse.spelling import fault_from, spelled
from tachograph_collector.synthetic import (
    Cluster,
    Delivery,
    Fault,
    Label,
    Loss,
    LossSpike,
    PeriodicSlow,
    Recording,
    Restarts,
    Run,
    Saves,
    SlowJob,
    SlowSave,
)

WARM_S: Final = 75.0
"""By then an attempt's first 60 s, which are compared with nothing, are over."""
EARLY_S: Final = 25.0
"""Silence of nodes needs no baseline."""
QUIET_AFTER_S: Final = 20.0
"""So long after what must not be said is over, one looks whether anything was."""
FOUND_LATER_S: Final = 45.0
"""Live, events settle and are folded before anyone sees what a replay finds at once."""
STEP_S: Final = 0.5
AFTER_S: Final = 400.0
SLOW_AFTER_S: Final = 1000.0
"""How long a run goes on after its last fault at most; longer where a detector compares with the half hour before."""

DRILL: Final = (
    f"node-death@{EARLY_S:g}s:node=n2",
    f"frozen-rank@{WARM_S:g}s:rank=5",
    f"straggler@{WARM_S:g}s:rank=5,ratio=1.3",
    f"hidden-straggler@{WARM_S:g}s:rank=3,ratio=1.2",
    f"loss-spike@{WARM_S:g}s:height=1,num_steps=20",
    f"hidden-nan@{WARM_S:g}s:kind=missing",
    f"hidden-nan@{WARM_S:g}s:kind=frozen",
    f"hidden-nan@{WARM_S:g}s:kind=zero",
    f"checkpoint-never-lands@{EARLY_S:g}s",
    f"clock-jump@{EARLY_S:g}s:node=n2,seconds=35",
    f"xid@{EARLY_S:g}s:node=n3,code=79",
    f"partition@{EARLY_S:g}s:share=0.5,for=60s",
)
"""What must be found."""
QUIET: Final = (f"partition@{EARLY_S:g}s:share=0.5,for=10s", f"node-pause@{EARLY_S:g}s:node=n1,for=20s")
"""And what must not be made an alarm of."""

TOUR: Final = (
    "straggler@90s:rank=5,ratio=1.3,for=150s",
    "loss-spike@300s:height=1",
    "checkpoint-never-lands@360s",
    "node-death@450s:node=n2,noticed=60s",
    "hidden-nan@640s:kind=missing,rollback-after=40s",
    "frozen-rank@780s:rank=3,noticed=90s",
)
"""One run with a bit of everything, of which one after the other is played forever."""
OF_THE_PLAN: Final = ("interval", "restart_phase", "unexplained_loss", "retention")
"""What these say of how a run is planned is true of one whose saves and failures nobody planned."""


class Expected(NamedTuple):
    """What should be found, and how soon after its beginning; or after what time nothing should have been said."""

    label: Label
    within_s: float

    @property
    def ends_s(self) -> float:
        """Unix seconds at which it is judged by what was found until then."""
        if self.label.detectors:
            return self.label.at_s + self.within_s
        return max(self.label.at_s, self.label.until_s or 0.0) + self.within_s


class Scenario(NamedTuple):
    """One run that is played."""

    name: str
    """Of the run."""
    play: Callable[[], Iterator[Delivery]]
    expects: list[Expected]
    known: frozenset[tuple[str, str]] = frozenset()
    """Detectors and subjects that may speak without a fault: a replay of the same log does, too, or it is true."""
    notes: tuple[str, ...] = ()
    """What is not as it was asked for, and why; to be told before anything is played."""


def cluster_for(
    run: str, start_unix_seconds: float, *, num_nodes: int = 4, ranks_per_node: int = 2, step_s: float = STEP_S
) -> Cluster:
    """A small run that steps fast, saves often and restarts quickly, beginning now."""
    return Cluster(
        run=run,
        start_unix_seconds=start_unix_seconds,
        num_nodes=num_nodes,
        ranks_per_node=ranks_per_node,
        step_s=step_s,
        latency_s=0.2,
        loss=Loss(tau_steps=2000.0),
        saves=Saves(every_steps=max(1, round(10 / step_s)), block_s=0.2, persist_s=2.0),
        restarts=Restarts(replace_s=5.0, reload_s=2.0, warmup_s=1.0),
        origin="rehearsal",
    )


def one(faults: Sequence[Fault], cluster: Cluster, seed: int) -> list[Scenario]:
    """All faults in one run. Raises ``SyntheticError`` for a fault that this cluster can't have.

    One that would happen while the run is down happens when it is up again, and ``notes`` say so.
    """
    scenario, run = _scenario(cluster, faults, seed)
    notes: dict[int, str] = {}
    for _ in faults:
        found = _moved(run, [place for place in range(len(faults)) if place not in notes])
        if found is None:
            break
        place, fault, note = found
        notes[place] = note
        faults = [*faults[:place], fault, *faults[place + 1 :]]
        scenario, run = _scenario(cluster, faults, seed)
    return [scenario._replace(notes=tuple(notes[place] for place in sorted(notes)))]


def _moved(run: Run, places: Sequence[int]) -> tuple[int, Fault, str] | None:
    """The first of these faults that can't happen, or can't be found, when it was to; as it can, and why."""
    start_s, labels = run.cluster.start_unix_seconds, list(run.labels)
    starts_s = [event.t - start_s for event in run.events() if isinstance(event, AttemptStart)]
    for place in sorted(range(len(run.faults)), key=lambda place: run.faults[place].at_s):
        fault = run.faults[place]
        mine = next((label for label in labels if label.fault == fault.name), None)
        if mine is None:
            continue
        labels.remove(mine)
        if place not in places:
            continue
        at_s = mine.at_s - start_s
        up_s = max((up_s for up_s in starts_s if up_s <= at_s), default=0.0)
        was_down = fault.at_s < up_s
        if isinstance(fault, LossSpike) and at_s < up_s + WARM_S - 1.0:
            why = "the run is down then, and an attempt's" if was_down else "an attempt's"
            why += " first minute is compared with nothing"
            at_s = up_s + WARM_S
        elif was_down:
            why = "the run is down then"
        elif isinstance(fault, SlowSave) and at_s < _compared_s(run.cluster):
            why, at_s = "the first saves are compared with nothing", _compared_s(run.cluster)
        else:
            continue
        at_s = math.ceil(at_s)
        note = f"{spelled(fault)}: {why}; it happens at {at_s} s"
        return place, msgspec.structs.replace(fault, at_s=float(at_s)), note
    return None


def _compared_s(cluster: Cluster) -> float:
    """When there are saves to compare one with."""
    saves = cluster.saves
    return 0.0 if saves is None else (Checkpoints().slow_least + 0.5) * saves.every_steps * cluster.step_s


def drill(cluster: Cluster, seed: int, words: Sequence[str] = DRILL + QUIET) -> list[Scenario]:
    """A run for each fault, and one without any. Raises ``SyntheticError`` where the cluster is too small for them."""
    found = []
    for place, word in enumerate(words):
        fault = fault_from(word, WARM_S)
        own = msgspec.structs.replace(cluster, run=f"{cluster.run}-{place + 1:02}-{fault.name}")
        found.append(_scenario(own, [fault], seed + place)[0])
    healthy = msgspec.structs.replace(cluster, run=f"{cluster.run}-{len(words) + 1:02}-healthy")
    return [*found, _scenario(healthy, [], seed + len(words))[0]]


def _scenario(cluster: Cluster, faults: Sequence[Fault], seed: int) -> tuple[Scenario, Run]:
    """The run, with as many steps as it can need: all of its noise is drawn beforehand."""
    last_s = max((fault.at_s + (getattr(fault, "for_s", None) or 0.0) for fault in faults), default=0.0)
    slow = any(isinstance(fault, SlowJob | PeriodicSlow) for fault in faults)
    until_s = last_s + (SLOW_AFTER_S if slow else AFTER_S)
    num_steps = min(1_000_000, round(until_s / (0.5 * cluster.step_s)) + 100)
    run = Run(msgspec.structs.replace(cluster, num_steps=num_steps), faults, seed=seed, until_s=until_s)
    expects = [
        Expected(label, within_s(label, cluster.step_s) + _regular_s(label, run, cluster)) for label in run.labels
    ]
    known = frozenset((name, "run") for name in OF_THE_PLAN)
    return Scenario(cluster.run, run.arriving, expects, known), run


def _regular_s(label: Label, run: Run, cluster: Cluster) -> float:
    """How long slow steps must come at a period before anyone can know, from when they are compared with others."""
    every = [fault.every_steps for fault in run.faults if isinstance(fault, PeriodicSlow)]
    if "periodic_slow" not in label.detectors or not every:
        return 0.0
    waits_s = max(0.0, cluster.start_unix_seconds + WARM_S - label.at_s)
    return waits_s + (PeriodicSettings().times + 1) * max(every) * cluster.step_s + FOUND_LATER_S


def recorded(recording: Recording) -> Scenario:
    """A recording with its faults; without any, what a replay of it finds should be found.

    With faults, what a replay finds besides is no false alarm.
    """
    detectors = Detectors()
    detectors.add(recording.events())
    detectors.look()
    found = [one for one in detectors.incidents(recording.run) if not one.is_withdrawn]
    expects = [Expected(label, within_s(label, recording.step_s)) for label in recording.labels]
    if not recording.faults:
        expects = [
            Expected(
                Label(
                    fault="recorded",
                    at_s=one.opened_us / 1e6,
                    detectors=(one.detector,),
                    subjects=(one.subject,),
                    node=one.node,
                    rank=one.rank,
                ),
                (one.found_us - one.opened_us) / 1e6 + FOUND_LATER_S,
            )
            for one in found
        ]
    known = frozenset((one.detector, one.subject) for one in detectors.incidents(recording.run))
    return Scenario(recording.run, recording.arriving, expects, known)


def within_s(label: Label, step_s: float) -> float:
    """How soon after its beginning a fault should have been found, with the default thresholds and some air."""
    window_s = max(60.0, 20 * step_s)
    limits = {
        "dead_node": 50.0,
        "node_health": 75.0,
        "hang": 60.0 + 50 * step_s + 30.0,
        "straggler": window_s + 60 * step_s + 45.0,
        "loss_spike": 10 * step_s + 30.0,
        "nan": 10 * step_s + 30.0,
        "checkpoint_not_landed": 60.0 + 45 * step_s,
        "job_slow": 600.0,
    }
    return max((limits.get(detector, 45.0) for detector in label.detectors), default=QUIET_AFTER_S)
