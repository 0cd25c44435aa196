"""Ranks that hold the others up, under three kinds of noise; and runs in which none does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tachograph_agent.events import AttemptStart, RunStart
from tachograph_collector.detect.scoring import Expected

from labelled.columns import PER_NODE, step_columns, synchronous, work
from labelled.scenario import RUN, SECOND_US, T0, Scenario, Told

FAMILIES = ("dense", "pipeline", "moe")
BEGIN = (80, 140)


def run_of(
    seed: int,
    family: str,
    num_ranks: int,
    num_steps: int,
    *,
    step_s: float = 5.0,
    slow: Callable[[np.random.Generator, np.ndarray], list[tuple[int, tuple[str, ...], tuple[str, ...]]]] | None = None,
    noise: float = 0.02,
    imbalance: float = 0.05,
) -> Told:
    """A run whose work ``slow`` changes in place; it says from which step what should be said of whom,
    and what else may be."""
    rng = np.random.default_rng(seed)
    work_s = 0.8 * step_s * work(rng, family, num_steps, num_ranks, noise=noise, imbalance=imbalance)
    labels = [] if slow is None else slow(rng, work_s)
    ends_s, dur_s = synchronous(work_s, T0, step_s=step_s, pause_s=20.0)
    columns = step_columns(ends_s, dur_s, work_s=work_s, stages=4 if family == "pipeline" else 0)
    expected = [
        Expected(
            detectors=detectors,
            subjects=subjects[:1],
            # Steps are numbered from 1: what is slow from row ``begin`` on began when the one before ended.
            since_us=round(ends_s[begin - 1] * SECOND_US),
            also=("job_slow", *subjects[1:]),
        )
        for begin, detectors, subjects in labels
    ]
    start = [RunStart(t=T0, run=RUN, world_size=num_ranks), AttemptStart(t=T0, run=RUN, attempt=0, resume_step=0)]
    return Told(expected, [columns], start)


def healthy(family: str, num_ranks: int = 64, num_steps: int = 300, **more: float) -> Callable[[int], Told]:
    return lambda seed: run_of(seed, family, num_ranks, num_steps, **more)


def one_rank(family: str, factor: float, num_ranks: int, num_after: int, **more: float) -> Callable[[int], Told]:
    """One rank works ``factor`` times as long, for good."""

    def make(seed: int) -> Told:
        def slow(rng: np.random.Generator, work_s: np.ndarray) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
            rank, begin = int(rng.integers(num_ranks)), int(rng.integers(*BEGIN))
            work_s[begin:, rank] *= factor
            brief = ("straggler_episode",) if factor >= 1.4 else ()  # that is how it looks at first
            return [(begin, ("straggler",), (f"rank {rank}", *brief))]

        return run_of(seed, family, num_ranks, BEGIN[1] + num_after, slow=slow, **more)

    return make


def one_node(family: str, factor: float, num_ranks: int) -> Callable[[int], Told]:
    """All ranks of one node."""

    def make(seed: int) -> Told:
        def slow(rng: np.random.Generator, work_s: np.ndarray) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
            node, begin = int(rng.integers(num_ranks // PER_NODE)), int(rng.integers(*BEGIN))
            ranks = range(node * PER_NODE, (node + 1) * PER_NODE)
            work_s[begin:, ranks] *= factor
            return [(begin, ("straggler",), (f"node n{node}", *(f"straggler/rank {rank}" for rank in ranks)))]

        return run_of(seed, family, num_ranks, 300, slow=slow)

    return make


def group(family: str, factor: float, num_ranks: int, share: float) -> Callable[[int], Told]:
    """So many of each stage's ranks at once that no one is to blame."""

    def make(seed: int) -> Told:
        def slow(rng: np.random.Generator, work_s: np.ndarray) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
            begin = int(rng.integers(*BEGIN))
            work_s[begin:, np.arange(num_ranks) % 10 < 10 * share] *= factor
            return [(begin, ("straggler_group",), ("run",))]

        return run_of(seed, family, num_ranks, 300, slow=slow)

    return make


def episode(family: str, num_ranks: int) -> Callable[[int], Told]:
    """One rank, far slower, for eight steps."""

    def make(seed: int) -> Told:
        def slow(rng: np.random.Generator, work_s: np.ndarray) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
            rank, begin = int(rng.integers(num_ranks)), int(rng.integers(*BEGIN))
            work_s[begin : begin + 8, rank] *= rng.uniform(1.8, 2.5)
            return [(begin, ("straggler_episode",), (f"rank {rank}",))]

        return run_of(seed, family, num_ranks, 300, slow=slow)

    return make


def rotating(family: str, num_ranks: int) -> Callable[[int], Told]:
    """Another rank each window, as garbage collection does."""

    def make(seed: int) -> Told:
        def slow(rng: np.random.Generator, work_s: np.ndarray) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
            begin = int(rng.integers(*BEGIN))
            for number, row in enumerate(range(begin, len(work_s), 20)):
                work_s[row : row + 20, (7 * number + seed) % num_ranks] *= 1.4
            return [(begin, ("straggler",), ("run", "straggler_episode"))]

        return run_of(seed, family, num_ranks, 400, slow=slow)

    return make


def scenarios() -> list[Scenario]:
    """All of this kind."""
    made: list[Scenario] = []

    def add(name: str, family: str, num: int, make: Callable[[int], Told]) -> None:
        first = 1_000 + len(made)
        made.extend(Scenario(name, family, first + seed, make) for seed in range(num))

    for family in FAMILIES:
        for step_s, num_ranks in ((1.5, 8), (5.0, 16), (20.0, 64)):
            add(
                "straggler 20 %",
                family,
                5,
                one_rank(family, 1.2, num_ranks * (2 if family == "pipeline" else 1), 160, step_s=step_s),
            )
        add("straggler 12 %", family, 8, one_rank(family, 1.12, 32, 440))
        add("straggler 50 %", family, 4, one_rank(family, 1.5, 32, 160))
        add("slow node", family, 4, one_node(family, 1.2, 128 if family == "pipeline" else 64))
        add("slow group", family, 3, group(family, 1.3, 40, 0.4))
        add("episode", family, 5, episode(family, 32))
        add("rotating", family, 3, rotating(family, 32))
        add("healthy ranks", family, 10, healthy(family))
    add("healthy 256 ranks", "moe", 20, healthy("moe", 256))
    add("healthy, noisy", "dense", 5, healthy("dense", 64, noise=0.05))
    for family in FAMILIES:
        add("healthy for long", family, 9, healthy(family, 32, 800))
    return made
