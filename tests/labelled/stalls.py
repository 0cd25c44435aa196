"""Jobs that hang, jobs that have become slow, attempts that get nowhere; and pauses that are as they ought to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelled.scenario import Scenario, Told
from labelled.tale import Tale

FAMILIES = ("dense", "moe")


def hangs(family: str, step_s: float, *, behind: bool = False) -> Callable[[int], Told]:
    """All stop; with ``behind`` one rank has not ended the last step. A watchdog ends it after half an hour."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family, step_s=step_s, num_ranks=16)
        tale.steps(int(tale.rng.integers(50, 150)))
        culprit = int(tale.rng.integers(16))
        tale.expect("hang", subjects=(f"rank {culprit}",) if behind else ("run",))
        if behind:
            tale.steps(1, absent=(culprit,))
        tale.idle(max(1800.0, 40 * step_s))
        tale.fail(category="collective_timeout")
        return tale.told()

    return make


def hangs_in_save(seed: int) -> Told:
    """A save that never ends."""
    tale = Tale(seed)
    for _ in range(4):
        tale.steps(60)
        tale.sync(8.0)
    tale.steps(60)
    tale.expect("hang", also=("checkpoint_not_landed", "checkpoint_slow", "checkpoint_overdue"))
    tale.sync(3600.0)
    return tale.told()


def slows(family: str, factor: float, *, over: int = 1) -> Callable[[int], Told]:
    """All steps take ``factor`` times as long, at once or over so many steps."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family, step_s=5.0)
        tale.steps(int(tale.rng.integers(300, 450)))
        tale.expect("job_slow")
        tale.steps(400, factor=1 + (factor - 1) * np.minimum(np.arange(1, 401) / over, 1.0))
        return tale.told()

    return make


def loops(how: str) -> Callable[[int], Told]:
    """Five attempts within half an hour, or three that are longer and land nothing."""

    def make(seed: int) -> Told:
        tale = Tale(seed)
        tale.steps(60)
        tale.sync()
        newest = tale.step
        tale.steps(20)
        tale.expect("restart_loop")
        for _ in range(6):
            tale.fail(node="n0" if how == "quick" else None)
            tale.resume(newest, after_s=60.0)
            tale.steps(int(tale.rng.integers(4, 9)) if how == "quick" else int(tale.rng.integers(40, 55)))
        return tale.told()

    return make


def evaluates(family: str, *, is_begun: bool) -> Callable[[int], Told]:
    """Long evaluations now and then."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family, step_s=5.0)
        for _ in range(5):
            tale.steps(120)
            tale.evaluate(float(tale.rng.uniform(240, 420)), is_begun=is_begun)
        tale.steps(50)
        return tale.told()

    return make


def pauses(family: str) -> Callable[[int], Told]:
    """Storage hesitates: a step takes six to nine times as long, now and then."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family, step_s=5.0)
        factor = np.where(tale.rng.random(900) < 0.005, tale.rng.uniform(6, 9, 900), 1.0)
        tale.steps(900, factor=factor)
        return tale.told()

    return make


def wobbles(seed: int) -> Told:
    """Step times that differ by 10 % from one to the next."""
    tale = Tale(seed, step_s=5.0, noise=0.0)
    tale.steps(900, factor=np.maximum(1 + 0.1 * tale.rng.standard_normal(900), 0.5))
    return tale.told()


def few_restarts(seed: int) -> Told:
    """Two failures within an hour, each followed by a save that lands; then the end."""
    tale = Tale(seed)
    for _ in range(3):
        for _ in range(2):
            tale.steps(60)
            tale.sync()
        newest = tale.step
        tale.steps(int(tale.rng.integers(5, 40)))
        tale.fail()
        tale.resume(newest, after_s=300.0)
    tale.steps(60)
    tale.sync()
    tale.end()
    return tale.told()


def scenarios() -> list[Scenario]:
    """All of this kind."""
    made: list[Scenario] = []

    def add(name: str, family: str, num: int, make: Callable[[int], Told]) -> None:
        first = 4_000 + len(made)
        made.extend(Scenario(name, family, first + seed, make) for seed in range(num))

    for family in FAMILIES:
        for step_s in (2.0, 30.0):
            add("hang of all", family, 2, hangs(family, step_s))
            add("hang of one rank", family, 3, hangs(family, step_s, behind=True))
        add("slow job, 15 %", family, 4, slows(family, 1.2))
        add("slow job, 40 %", family, 2, slows(family, 1.5))
        add("slow job, over 20 min", family, 3, slows(family, 1.3, over=240))
        add("evaluations", family, 2, evaluates(family, is_begun=True))
        add("evaluations told at their end", family, 2, evaluates(family, is_begun=False))
        add("hesitating storage", family, 2, pauses(family))
    add("hang in a save", "dense", 3, hangs_in_save)
    add("restart loop, quick", "dense", 4, loops("quick"))
    add("restart loop, no progress", "dense", 4, loops("long"))
    add("step times differ by 10 %", "dense", 4, wobbles)
    add("few restarts", "dense", 4, few_restarts)
    return made
