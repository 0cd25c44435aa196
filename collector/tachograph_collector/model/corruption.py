"""Silent corruption: what it costs, and whether the checkpoints that are kept reach back to a clean one.

Corruption strikes the state of the training at rate ``1 / mtbf_sdc`` and is noticed ``delay`` (D) later. Every
checkpoint in between holds it, so the run goes back to one from before. All times are wall-clock in one unit, minutes
in the examples. Numbers or arrays, which broadcast, are accepted; values that can't be taken raise ``ModelError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tachograph_collector.model.check import Floats, ModelError, fraction, not_negative, positive, whole


@dataclass(frozen=True)
class Rung:
    """One rule of a retention ladder: of the checkpoints at least ``every`` apart, the newest ``keep`` stay.

    ``every`` 0 takes each checkpoint; ``keep`` None keeps them for ever. A checkpoint that a rung has taken stays the
    one of its period: a rule that replaces it by newer ones until the period ends reaches back one period less.
    Example: ``reach([Rung(0, 20), Rung(360, 4)], 8.5, 0.05)`` is 1080.
    """

    every: float
    keep: int | None

    def __post_init__(self) -> None:
        _one("every", not_negative("every", self.every))
        if self.keep is not None:
            _one("keep", whole("keep", self.keep, 1))


def corruption_waste(delay: ArrayLike, rung: ArrayLike, restart: ArrayLike, mtbf_sdc: ArrayLike) -> Floats:
    """The share of the wall-clock that silent corruption costs, to first order: ``(D + g/2 + R) / M_sdc``.

    Per corruption the work since it struck (D), half a rung ``rung`` (g) back to the newest clean checkpoint that is
    still there, and the restart. From first principles; assumes that a clean checkpoint is there
    (``chance_without_clean``) and corruption that is rare: it is above 1 where it can't be. ``corrupted_goodput``
    holds there too. Example: ``corruption_waste(360, 360, 5, 10080)`` is 0.0541.
    """
    delay, rung = not_negative("delay", delay), not_negative("rung", rung)
    restart, mtbf_sdc = not_negative("restart", restart), positive("mtbf_sdc", mtbf_sdc)
    return np.asarray((delay + rung / 2 + restart) / mtbf_sdc)


def corrupted_goodput(
    clean_goodput: ArrayLike, delay: ArrayLike, rung: ArrayLike, restart: ArrayLike, mtbf_sdc: ArrayLike
) -> Floats:
    """Goodput with silent corruption on top of what is known without: ``G g / expm1(g/M_sdc) / (M_sdc + D + R)``.

    A cycle is a clean time that is exponential with mean M_sdc, then D until it is noticed, then R. Of the clean time
    the whole rungs g are kept, ``g / expm1(g/M_sdc)`` on average (``M_sdc - g/2`` when g is short), at the goodput G
    that crashes leave. From first principles; the first order is ``corruption_waste``. Assumes that further
    corruption of a state that is corrupt already changes nothing, that rungs count from the last recovery, and that
    crashes and corruption don't meet: a crash that happens to fall back past the corruption heals it, so this is
    slightly low. Example: ``corrupted_goodput(0.9802, 360, 360, 5, 10080)`` is 0.9292.
    """
    clean_goodput = fraction("clean_goodput", clean_goodput)
    delay, rung = not_negative("delay", delay), not_negative("rung", rung)
    restart, mtbf_sdc = not_negative("restart", restart), positive("mtbf_sdc", mtbf_sdc)
    ratio = rung / mtbf_sdc
    with np.errstate(over="ignore"):
        kept = np.where(ratio == 0, 1.0, ratio / np.expm1(np.where(ratio == 0, 1.0, ratio)))
    return np.asarray(clean_goodput * kept * mtbf_sdc / (mtbf_sdc + delay + restart))


def chance_without_clean(delay: ArrayLike, tau: ArrayLike, cost: ArrayLike, keep: ArrayLike = 1) -> Floats:
    """The probability that each of the newest ``keep`` checkpoints is corrupt when the corruption is noticed.

    ``min(1, max(0, D/(tau + C) - (keep - 1)))``: corruption strikes at any phase of an interval alike, and within D the
    clean checkpoints are pushed out if ``keep`` newer ones are taken. For latest-only (keep 1) ``min(1, D/(tau + C))``.
    From first principles; assumes a fixed delay and no crash in it.
    Example: ``chance_without_clean(30, 37.28, 1)`` is 0.784, ``chance_without_clean(30, 37.28, 1, 2)`` is 0.
    """
    delay, tau = not_negative("delay", delay), positive("tau", tau)
    cost, keep = not_negative("cost", cost), whole("keep", keep, 1)
    return np.asarray(np.clip(delay / (tau + cost) - (keep - 1), 0, 1))


def goodput_from_scratch(clean_goodput: ArrayLike, duration: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Goodput of a run of ``duration`` that starts again from step 0 at each event of rate ``1 / mtbf``.

    ``G (M/T) (1 - exp(-T/M))``: only what was done since the last event is left. It is what corruption does to a run
    without a clean checkpoint; where only a share q of the corruptions finds none, put ``mtbf_sdc / q``. From first
    principles; assumes memoryless events and a delay that is short against M. There is no long-run share: it falls
    with T. Example: 30 days, corruption every 7: ``goodput_from_scratch(0.9802, 30, 7)`` is 0.2256.
    """
    clean_goodput = fraction("clean_goodput", clean_goodput)
    duration, mtbf = positive("duration", duration), positive("mtbf", mtbf)
    return np.asarray(clean_goodput * -np.expm1(-duration / mtbf) * (mtbf / duration))


def reach(rungs: Sequence[Rung], tau: ArrayLike, cost: ArrayLike) -> Floats:
    """The longest delay after which a ladder is sure to have a clean checkpoint still; infinite if a rung keeps all.

    The newest N that are g apart reach back (N - 1) g at least: the newest may have been taken just now. Latest-only
    reaches back 0. A rung is never finer than the checkpoints themselves, ``tau + C`` apart.
    Example: ``reach([Rung(0, 20)], 8.5, 0.05)`` is 162.45.
    """
    return np.asarray(np.max([_reaches(rung, apart) for rung, apart in _spaced(rungs, tau, cost)], axis=0))


def clean_rung(delay: ArrayLike, rungs: Sequence[Rung], tau: ArrayLike, cost: ArrayLike) -> Floats:
    """The spacing g of the finest rung that is sure to reach back past ``delay``; infinite where none does.

    It is the g of ``corruption_waste``. Infinite means: lengthen the ladder, or a corruption can cost the whole run.
    Example: ``clean_rung(30, [Rung(0, 20), Rung(360, None)], 8.5, 0.05)`` is 8.55,
    ``clean_rung(360, [Rung(0, 20), Rung(360, None)], 8.5, 0.05)`` is 360.
    """
    delay = not_negative("delay", delay)
    finest = [np.where(_reaches(rung, apart) >= delay, apart, np.inf) for rung, apart in _spaced(rungs, tau, cost)]
    return np.asarray(np.min(finest, axis=0))


def _spaced(rungs: Sequence[Rung], tau: ArrayLike, cost: ArrayLike) -> list[tuple[Rung, Floats]]:
    if not rungs:
        raise ModelError("rungs is empty; expected at least one rung")
    period = positive("tau", tau) + not_negative("cost", cost)
    return [(rung, np.maximum(rung.every, period)) for rung in rungs]


def _reaches(rung: Rung, apart: Floats) -> Floats:
    return np.full(apart.shape, np.inf) if rung.keep is None else (rung.keep - 1) * apart


def _one(name: str, value: Floats) -> None:
    if value.ndim:
        raise ModelError(f"{name} is an array of shape {value.shape}; expected one number")
