"""``make_plan``: everything that a plan says, from its inputs. What shows it computes nothing more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tachograph_collector.model.plan import convenient
from tachograph_collector.model.plan.costs import Costs, completed, costs, refuse_beyond_belief
from tachograph_collector.model.plan.inputs import Inputs, Saves, span
from tachograph_collector.model.plan.ladder import Step, ladder
from tachograph_collector.model.plan.questions import Question, questions
from tachograph_collector.model.plan.rungs import Rung, asynchronous_now, rungs
from tachograph_collector.model.plan.traffic import Traffic, traffic

DEFAULT_RUNS = 1000
"""Simulated runs a number of the ladder: the interval of each is about 0.1 points wide, in half a second in all."""
NUM_POINTS = 73
"""Intervals of a sweep."""
LEAST_SWING = 0.05
"""Points; a number that moves the goodput by less is left out."""


class Advice(Struct, frozen=True):
    """How often to save with one way of saving, and what to expect of it, in closed form."""

    saves: Saves
    exact_s: float
    """The best interval."""
    interval_s: float
    """A convenient one near it: what is recommended."""
    steps: int | None
    """A convenient number of steps near it; None where a step's length is unknown."""
    steps_s: float | None
    """How long so many steps take."""
    goodput: float
    """At the recommended interval and the expected MTBF."""
    goodput_low: float
    goodput_high: float
    """The same at the ends of the MTBF's range."""
    goodput_best: float
    """At the exact best interval."""
    flat_s: tuple[float, float]
    """Half to double of the best interval: all that lies in it is about as good."""
    goodput_flat: tuple[float, float]
    """At its two ends."""
    persist_share: float
    """The part of the interval in which a persist is under way."""


class Curve(Struct, frozen=True):
    """Goodput over intervals, one way of saving at one MTBF, in closed form."""

    saves: Saves
    mtbf_s: float
    intervals_s: tuple[float, ...]
    goodputs: tuple[float, ...]


class Swing(Struct, frozen=True):
    """What one number does to the goodput of the recommended design, all others as they are."""

    name: str
    low: float
    high: float
    """Its plausible range."""
    goodput_low: float
    goodput_high: float
    """Goodput at the recommended interval with the number at ``low`` and at ``high``."""
    interval_low_s: float
    interval_high_s: float
    """The best interval then."""

    @property
    def points(self) -> float:
        """How far the goodput moves, in points."""
        return abs(self.goodput_high - self.goodput_low) * 100


class Plan(Struct, frozen=True):
    """A plan, whole."""

    inputs: Inputs
    """As they were used: defaults and guesses filled in."""
    costs: Costs
    mtbfs_s: tuple[float, float, float]
    """The job's MTBF: low, expected, high."""
    advice: Advice
    """For the way of saving that the inputs name."""
    other: Advice
    """For the other way."""
    ladder: tuple[Step, ...]
    swings: tuple[Swing, ...]
    """The one that matters most first."""
    sweep: tuple[Curve, ...]
    """Both ways of saving at the expected MTBF, then the chosen one at the low and at the high MTBF."""
    traffic: Traffic
    questions: tuple[Question, ...]
    chosen_rung: Rung
    """The design that ``advice`` is for."""
    other_rung: Rung
    num_runs: int
    """Simulated runs behind each number of the ladder; 0 if it is in closed form."""
    seed: int


def make_plan(inputs: Inputs, *, num_runs: int = DEFAULT_RUNS, seed: int = 1) -> Plan:
    """The plan of these inputs; the ladder from ``num_runs`` simulated runs a number, 0 for the closed form."""
    inputs = completed(inputs)
    paid = costs(inputs)
    refuse_beyond_belief(paid)
    assert paid.mtbf.low is not None
    assert paid.mtbf.high is not None
    mtbfs_s = (paid.mtbf.low, paid.mtbf.value, paid.mtbf.high)
    every = rungs(inputs)
    climbed = [rung for rung in every if rung.key != "blocking" or not asynchronous_now(inputs)]
    by_key = {rung.key: rung for rung in every}
    advice = {each: _advice(by_key[each], mtbfs_s, inputs) for each in ("asynchronous", "blocking")}
    mine, other = advice[inputs.saves], advice["blocking" if inputs.saves == "asynchronous" else "asynchronous"]
    mid = by_key[inputs.saves]
    curves = [_curve(by_key[each.saves], mtbfs_s[1], mine.exact_s, other.exact_s) for each in (mine, other)]
    curves += [_curve(mid, mtbf_s, mine.exact_s, other.exact_s) for mtbf_s in (mtbfs_s[0], mtbfs_s[2])]
    hours = inputs.value("run_length") / 3600
    return Plan(
        inputs=inputs,
        costs=paid,
        mtbfs_s=mtbfs_s,
        advice=mine,
        other=other,
        ladder=tuple(ladder(climbed, mtbfs_s, inputs, hours, num_runs=num_runs, seed=seed)),
        swings=tuple(_swings(inputs, mine.interval_s)),
        sweep=tuple(curves),
        traffic=traffic(inputs, paid, mine.interval_s),
        questions=tuple(questions(inputs, paid, by_key, mine.interval_s)),
        chosen_rung=mid,
        other_rung=by_key[other.saves],
        num_runs=num_runs,
        seed=seed,
    )


def _advice(rung: Rung, mtbfs_s: Sequence[float], inputs: Inputs) -> Advice:
    low_s, mtbf_s, high_s = mtbfs_s
    exact_s = rung.best_interval_s(mtbf_s)
    interval_s = convenient.interval_s(exact_s, rung.persist_s)
    step_s = inputs.value("step_time") if inputs.has("step_time") else None
    steps = None if step_s is None else convenient.num_steps(exact_s, step_s, rung.persist_s)
    flat_s = (max(exact_s / 2, rung.persist_s), exact_s * 2)
    return Advice(
        saves=rung.saves,
        exact_s=exact_s,
        interval_s=interval_s,
        steps=steps,
        steps_s=None if steps is None or step_s is None else steps * step_s,
        goodput=rung.goodput(interval_s, mtbf_s),
        goodput_low=rung.goodput(interval_s, low_s),
        goodput_high=rung.goodput(interval_s, high_s),
        goodput_best=rung.goodput(exact_s, mtbf_s),
        flat_s=flat_s,
        goodput_flat=(rung.goodput(flat_s[0], mtbf_s), rung.goodput(flat_s[1], mtbf_s)),
        persist_share=rung.persist_s / interval_s,
    )


def _curve(rung: Rung, mtbf_s: float, *bests_s: float) -> Curve:
    grid = np.geomspace(min(bests_s) / 8, max(bests_s) * 16, NUM_POINTS)
    return Curve(
        saves=rung.saves,
        mtbf_s=mtbf_s,
        intervals_s=tuple(float(each) for each in grid),
        goodputs=tuple(rung.goodput(float(each), mtbf_s) for each in grid),
    )


_MOVED = (
    "node_mtbf", "job_mtbf", "detect", "replace", "reload", "warmup", "blocking_save", "snapshot", "persist",
    "checkpoint_size", "node_write", "storage", "host_copy",
)  # fmt: skip


def _swings(inputs: Inputs, interval_s: float) -> list[Swing]:
    """Every number that moves the goodput of the chosen design, one at a time over its plausible range."""
    found = []
    for name in _MOVED:
        if not inputs.has(name):
            continue
        low, high = span(name, inputs.numbers[name])
        one, other = _moved(inputs, name, low, interval_s), _moved(inputs, name, high, interval_s)
        swing = Swing(name, low, high, one[0], other[0], one[1], other[1])
        if swing.points >= LEAST_SWING:
            found.append(swing)
    return sorted(found, key=lambda swing: -swing.points)


def _moved(inputs: Inputs, name: str, value: float, interval_s: float) -> tuple[float, float]:
    """(goodput at the interval, best interval) with one number changed."""
    changed = inputs.with_value(name, value)
    rung = next(each for each in rungs(changed) if each.key == inputs.saves)
    mtbf_s = costs(changed).mtbf.value
    return rung.goodput(interval_s, mtbf_s), rung.best_interval_s(mtbf_s)
