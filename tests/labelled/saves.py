"""Checkpoints that are late, slow, lost or gone, and checkpoints as they ought to be."""

from __future__ import annotations

from collections.abc import Callable

from labelled.scenario import Scenario, Told
from labelled.tale import Tale

FAMILIES = ("dense", "moe")
EVERY = 60
"""Steps of 10 s between saves: ten minutes."""


def save(tale: Tale, how: str, *, dur_s: float | None = None) -> None:
    """A save as usual, of a time that varies by a third."""
    usual_s = (5.0 if how == "sync" else 90.0) * float(tale.rng.uniform(0.8, 1.25))
    if how == "sync":
        tale.sync(usual_s if dur_s is None else dur_s)
    else:
        tale.deferred(usual_s if dur_s is None else dur_s, blocks_s=0.8)


def usual(tale: Tale, num: int, how: str) -> None:
    """So many intervals with a save at the end of each."""
    for _ in range(num):
        tale.steps(EVERY)
        save(tale, how)


def overdue(family: str, how: str) -> Callable[[int], Told]:
    """Saves stop; training goes on for more than an hour."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family)
        usual(tale, int(tale.rng.integers(4, 8)), how)
        tale.expect("checkpoint_overdue")
        tale.steps(400)
        return tale.told()

    return make


def slow(family: str, how: str) -> Callable[[int], Told]:
    """One save holds training up far longer than the others."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family)
        usual(tale, int(tale.rng.integers(4, 10)), how)
        tale.steps(EVERY)
        tale.expect("checkpoint_slow")
        if how == "sync":
            tale.sync(float(tale.rng.uniform(25, 60)))
        else:
            tale.deferred(95.0, blocks_s=float(tale.rng.uniform(6, 30)))
        usual(tale, 3, how)
        tale.steps(30)
        return tale.told()

    return make


def lost(family: str, why: str) -> Callable[[int], Told]:
    """A save fails, or is never heard of again, or is overtaken by the next."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family)
        usual(tale, int(tale.rng.integers(3, 7)), "async")
        tale.steps(EVERY)
        tale.expect("checkpoint_not_landed", also=("checkpoint_overdue",))
        if why == "failed":
            tale.save_fails()
        else:
            tale.deferred(None)
        if why == "overtaken":
            usual(tale, 2, "async")
            tale.steps(30)
        else:
            tale.steps(240)  # nothing else is saved for 40 minutes
        return tale.told()

    return make


def outlasts(family: str) -> Callable[[int], Told]:
    """Storage has become so slow that a save takes longer to land than the interval until the next."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family)
        usual(tale, int(tale.rng.integers(3, 7)), "async")
        tale.steps(EVERY)
        tale.expect("checkpoint_persist", also=("checkpoint_not_landed",))
        for _ in range(3):
            save(tale, "async", dur_s=float(tale.rng.uniform(700, 900)))
            tale.steps(EVERY)
        tale.steps(60)
        return tale.told()

    return make


def backwards(family: str) -> Callable[[int], Told]:
    """A save of an earlier step: two jobs write into one folder, say."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family)
        usual(tale, int(tale.rng.integers(3, 7)), "sync")
        tale.steps(EVERY)
        tale.expect("checkpoint_backwards")
        tale.sync(step=tale.step - 2 * EVERY - 10)
        usual(tale, 2, "sync")
        return tale.told()

    return make


def kept(family: str, num_kept: int, *, is_enough: bool) -> Callable[[int], Told]:
    """A save an hour for half a day; only the newest ``num_kept`` stay."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family, step_s=60.0)
        steps: list[int] = []
        for hour in range(13):
            tale.steps(60)
            tale.sync(20.0)
            steps.append(tale.step)
            if len(steps) > num_kept:
                if hour == 6 and not is_enough:
                    tale.expect("retention")
                tale.delete(steps.pop(0))
        return tale.told()

    return make


def healthy(family: str, how: str, *, num: int = 12) -> Callable[[int], Told]:
    """Saves as usual, an evaluation now and then, a planned stop in the middle."""

    def make(seed: int) -> Told:
        tale = Tale(seed, family=family)
        usual(tale, num // 2, how)
        tale.evaluate(120.0)
        tale.steps(5)
        tale.sync()
        tale.stop()
        tale.resume(tale.step, after_s=600.0)
        usual(tale, num // 2, how)
        tale.end()
        return tale.told()

    return make


def healthy_restart(seed: int) -> Told:
    """It fails half-way between two saves, goes back to the last, and goes on."""
    tale = Tale(seed)
    usual(tale, 5, "sync")
    newest = tale.step
    tale.steps(int(tale.rng.integers(10, 55)))
    tale.fail(node="n0")
    tale.resume(newest)
    usual(tale, 5, "sync")
    return tale.told()


def scenarios() -> list[Scenario]:
    """All of this kind."""
    made: list[Scenario] = []

    def add(name: str, family: str, num: int, make: Callable[[int], Told]) -> None:
        first = 3_000 + len(made)
        made.extend(Scenario(name, family, first + seed, make) for seed in range(num))

    for family in FAMILIES:
        for how in ("sync", "async"):
            add("saves stop", family, 3, overdue(family, how))
            add("slow save", family, 3, slow(family, how))
            add("healthy saves", family, 5, healthy(family, how))
        for why in ("failed", "silent", "overtaken"):
            add(f"lost save, {why}", family, 2, lost(family, why))
        add("save outlasts its interval", family, 3, outlasts(family))
        add("save goes backwards", family, 3, backwards(family))
        add("too little kept", family, 2, kept(family, 3, is_enough=False))
        add("enough kept", family, 2, kept(family, 8, is_enough=True))
    add("a restart", "dense", 4, healthy_restart)
    return made
