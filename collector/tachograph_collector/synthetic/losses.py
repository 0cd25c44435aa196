"""The loss and the gradient norm of a made-up run: a falling curve, and what a spike or a NaN makes of it."""

from __future__ import annotations

import math

import numpy as np

from tachograph_collector.synthetic.cluster import Loss
from tachograph_collector.synthetic.faults import HiddenNan, LossSpike, NanKind
from tachograph_collector.synthetic.noise import draw


class _Curve:
    """The loss and the gradient norm by step; a step done again has the same loss but for ``replay_spread``."""

    def __init__(self, loss: Loss, num_steps: int, seed: int) -> None:
        rng = np.random.default_rng([seed, 2])
        self._loss = loss
        self._again = np.random.default_rng([seed, 3])
        self._noise = loss.noise * draw(rng, loss.distribution, num_steps + 1)
        self._norms = np.exp(0.1 * rng.standard_normal(num_steps + 1))

    def at(self, step: int, *, again: bool) -> tuple[float, float]:
        """Loss and gradient norm of a step, counted from 1."""
        loss = self._loss
        value = loss.floor + (loss.start - loss.floor) * float(np.exp(-step / loss.tau_steps))
        value += float(self._noise[step])
        if again:
            value += loss.replay_spread * float(self._again.standard_normal())
        return value, float(self._norms[step])


class Losses:
    """What the trainer tells of each step. A spike and a NaN belong to the steps that follow them."""

    def __init__(self, loss: Loss | None, num_steps: int, seed: int) -> None:
        self._curve = None if loss is None else _Curve(loss, num_steps, seed)
        self._spike: tuple[int, int, float] | None = None
        self._nan: tuple[int, NanKind] | None = None
        self._told: float | None = None

    def spike(self, step: int, fault: LossSpike) -> None:
        """The steps after this one are the spike's."""
        self._spike = (step + 1, step + 1 + fault.num_steps, fault.height)

    def turn_nan(self, step: int, fault: HiddenNan) -> None:
        """The model is NaN from the step after this one on."""
        self._nan = (step + 1, fault.kind)

    def heal(self) -> int | None:
        """The run goes back to before all that; gives the first step that was NaN, if one was."""
        first = None if self._nan is None else self._nan[0]
        self._spike = self._nan = None
        return first

    def tell(self, step: int, *, again: bool) -> tuple[float | None, float | None]:
        """Loss and gradient norm as the trainer tells them of a step; ``again``: it was done before."""
        if self._curve is None:
            return None, None
        loss, norm = self._curve.at(step, again=again)
        if self._spike is not None and self._spike[0] <= step < self._spike[1]:
            loss, norm = loss + self._spike[2], 3 * norm
        if self._nan is not None and step >= self._nan[0]:
            match self._nan[1]:
                case "nan":
                    return math.nan, math.nan
                case "missing":
                    return None, None
                case "frozen":
                    return self._told, norm
                case "zero":
                    return 0.0, math.nan
        self._told = loss
        return loss, norm
