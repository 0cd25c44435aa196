"""Losses that jump, diverge, turn NaN in the open or hidden; and losses that only look as if."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tachograph_agent.events import AttemptStart, Failure, Rollback, RunStart
from tachograph_collector.detect.scoring import Expected

from labelled.columns import step_columns
from labelled.scenario import RUN, SECOND_US, T0, Scenario, Told

STEP_S = 2.0
FAMILIES = ("gaussian", "student")
HIDDEN = ("missing", "identical", "zero", "zero, norm not told")


def curve(rng: np.random.Generator, num: int, family: str, *, scale: float = 0.02, top: float = 1.5) -> np.ndarray:
    """A loss that falls from 2.2 + ``top`` to 2.2, with noise that is Gaussian, Student-t(4), or comes in bursts."""
    if family == "student":
        noise = rng.standard_t(4, num)
    elif family == "bursts":  # mixtures whose batches differ: quiet and loud stretches
        loud = np.repeat(rng.uniform(0.5, 2.0, num // 50 + 1), 50)[:num]
        noise = loud * rng.standard_normal(num)
    else:
        noise = rng.standard_normal(num)
    return np.asarray(2.2 + top * np.exp(-np.arange(num) / (num / 3)) + scale * noise)


def told(
    values: Sequence[float | None] | np.ndarray,
    labels: Sequence[tuple[int, str, tuple[str, ...]]] = (),
    *,
    norm: Sequence[float | None] | np.ndarray | None = None,
    within: int | None = None,
) -> Told:
    """One rank's losses; ``labels`` say from which place what is wrong, and what else may be said of it."""
    num = len(values)
    ends_s = T0 + STEP_S * np.arange(1, num + 1)
    columns = step_columns(ends_s, np.full(num, STEP_S), loss=values, norm=norm)
    expected = [
        Expected(
            detectors=(detector,),
            # A loss is told at its step's end: it can be known from then, and counts from the step before.
            since_us=round(ends_s[place - 1] * SECOND_US),
            until_us=None if within is None else round(ends_s[place + within - 1] * SECOND_US),
            also=also,
        )
        for place, detector, also in labels
    ]
    return Told(expected, [columns], [RunStart(t=T0, run=RUN, world_size=64)])


def spike(family: str, height: float = 0.6) -> Callable[[int], Told]:
    """One spike of 1 to 29 steps, of a rise of ``height``; to count it must be found while it lasts, or 3 steps on.

    Some come before it is known how far this run's noise throws lone points, most after that.
    """

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values = curve(rng, 2_000, family)
        at, length = int(rng.integers(200, 1_900)), int(rng.integers(1, 30))
        values[at : at + length] += height
        return told(values, [(at, "loss_spike", ())], within=length + 3)

    return make


def two_spikes(family: str) -> Callable[[int], Told]:
    """A second spike soon after a first: 12 to 40 steps after its end."""

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values = curve(rng, 900, family)
        at, length, pause = int(rng.integers(200, 700)), int(rng.integers(2, 12)), int(rng.integers(12, 40))
        again = at + length + pause
        values[at : at + length] += 0.8
        values[again : again + length] += 0.8
        return told(values, [(at, "loss_spike", ()), (again, "loss_spike", ())], within=length + 3)

    return make


def divergence(family: str) -> Callable[[int], Told]:
    """It rises over 10 to 60 steps to two to three times what it was, and stays."""

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values = curve(rng, 900, family)
        at, over = int(rng.integers(200, 500)), int(rng.integers(10, 60))
        values[at:] += rng.uniform(2.5, 5.0) * np.minimum(np.arange(len(values) - at) / over, 1.0)
        return told(values, [(at, "loss_spike", ())], within=over)

    return make


def open_nan(bad: float) -> Callable[[int], Told]:
    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values = curve(rng, 500, "gaussian")
        at = int(rng.integers(3, 450))
        values[at:] = bad
        return told(values, [(at, "nan", ())], within=1)

    return make


def hidden_nan(kind: str) -> Callable[[int], Told]:
    """The trainer goes on with a dead model and tells no NaN: within 6 records."""

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values: list[float | None] = list(curve(rng, 500, "student"))
        norms: list[float | None] = list(1.0 + 0.05 * rng.standard_normal(500))
        at = int(rng.integers(50, 450))
        for place in range(at, 500):
            if kind == "missing":
                values[place] = None
            elif kind == "identical":
                values[place] = values[at]
            else:
                values[place], norms[place] = 0.0, math.nan if kind == "zero" else None
        return told(values, [(at, "nan", ("skipped_steps",))], norm=norms, within=6)

    return make


def skipped(seed: int) -> Told:
    """Loss scaling has lost its way: half of the steps are skipped."""
    rng = np.random.default_rng(seed)
    at = int(rng.integers(100, 300))
    norms = np.where((np.arange(500) >= at) & (rng.random(500) < 0.5), np.nan, 1.0)
    norms[at] = np.nan
    return told(curve(rng, 500, "gaussian"), [(at, "skipped_steps", ())], norm=norms)


def norm_off(factor: float) -> Callable[[int], Told]:
    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        norms = np.exp(0.3 * rng.standard_normal(500))
        at = int(rng.integers(150, 450))
        norms[at : at + 10] = factor
        return told(curve(rng, 500, "gaussian"), [(at, "grad_norm", ())], norm=norms, within=5)

    return make


def quiet(family: str, num: int) -> Callable[[int], Told]:
    """Nothing is wrong for ``num`` steps."""
    return lambda seed: told(curve(np.random.default_rng(seed), num, family))


def steep(seed: int) -> Told:
    """The beginning of a run: from 11 down to 3 within a few hundred steps, norms from 20 down, a skip now and then."""
    rng = np.random.default_rng(seed)
    place = np.arange(1_500)
    values = 3.0 + 8.0 / (1 + place / 40) + 0.05 * rng.standard_normal(len(place))
    norms = (0.5 + 20.0 / (1 + place / 20)) * np.exp(0.25 * rng.standard_normal(len(place)))
    norms[rng.random(len(place)) < 0.004] = np.nan
    return told(values, norm=norms)


def sparse(seed: int) -> Told:
    """The loss comes with each tenth record only."""
    values = curve(np.random.default_rng(seed), 3_000, "student")
    return told([value if place % 10 == 9 else None for place, value in enumerate(values)])


def went_back(how: str) -> Callable[[int], Told]:
    """A resume or a rollback to an early step: the loss rises lawfully."""

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values = 1.5 + 6.0 * np.exp(-np.arange(800) / 150) + 0.02 * rng.standard_normal(800)
        back = int(rng.integers(50, 200))
        again = values[back:] + 0.01 * rng.standard_normal(800 - back)
        ends_s = T0 + STEP_S * np.arange(1, 801)
        later_s = float(ends_s[-1]) + (5.0 if how == "rollback" else 300.0)
        again_s = later_s + STEP_S * np.arange(1, len(again) + 1)
        more: list = [RunStart(t=T0, run=RUN, world_size=64)]
        attempt, expected = "0", []
        if how == "rollback":
            more.append(Rollback(t=later_s, run=RUN, attempt=0, to_step=back, reason="operator"))
        else:
            attempt, failed_s = "1", float(ends_s[-1]) + 1
            expected.append(Expected(detectors=("failure",), subjects=("run",), since_us=round(failed_s * 1e6)))
            more += [
                Failure(t=failed_s, run=RUN, attempt=0, category="gpu"),
                AttemptStart(t=later_s, run=RUN, attempt=1, resume_step=back),
            ]
        first = step_columns(ends_s, np.full(800, STEP_S), loss=values)
        second = step_columns(again_s, np.full(len(again), STEP_S), loss=again, first_step=back + 1, attempt=attempt)
        return Told(expected, [first, second], more)

    return make


def scenarios() -> list[Scenario]:
    """All of this kind."""
    made: list[Scenario] = []

    def add(name: str, family: str, num: int, make: Callable[[int], Told]) -> None:
        first = 2_000 + len(made)
        made.extend(Scenario(name, family, first + seed, make) for seed in range(num))

    for family in FAMILIES:
        add("spike +0.6", family, 30, spike(family))
        add("two spikes", family, 6, two_spikes(family))
        add("divergence", family, 6, divergence(family))
        add("quiet loss, 10,000 steps", family, 10, quiet(family, 10_000))
    for bad in (math.nan, math.inf, -math.inf):
        add(f"loss {bad}", "gaussian", 3, open_nan(bad))
    for kind in HIDDEN:
        add(f"hidden NaN, {kind}", "student", 4, hidden_nan(kind))
    add("skipped steps", "gaussian", 4, skipped)
    add("norm exploded", "gaussian", 3, norm_off(400.0))
    add("norm vanished", "gaussian", 2, norm_off(1e-9))
    add("quiet loss in bursts", "bursts", 8, quiet("bursts", 3_000))
    add("beginning of a run", "gaussian", 8, steep)
    add("each tenth loss", "student", 3, sparse)
    add("resume goes back", "gaussian", 4, went_back("resume"))
    add("rollback", "gaussian", 4, went_back("rollback"))
    return made
