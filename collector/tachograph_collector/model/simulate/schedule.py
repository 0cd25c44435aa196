"""The rhythm of training and saving after a start, in whole microseconds, and how far it got in a given time.

Everything is counted from the moment at which training begins. Training runs ``steps`` steps of ``one_us``, then stands
still for ``blocking_us``; the save lands ``persist_us`` after. The first round may be shorter: no save is being written
yet, so nothing is waited for (``stall``) and nothing skipped (``skip``).

Whole numbers are held in float64, which is exact up to 2^53 and, in NumPy, several times as fast as int64. Quotients
are exact too: for whole x and w below 2^52, ``floor(x / w)`` in float64 is the true one, because a quotient that is
just below a whole number k is so by at least 1/w, more than the rounding of x/w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tachograph_collector.model.check import Floats, ModelError
from tachograph_collector.model.simulate.design import Design

LONGEST_US = 1 << 51
"""Some 70 years: sums and quotients of durations up to this are exact."""


def whole_us(name: str, seconds: float) -> int:
    """``seconds`` as whole microseconds; refuses what is too long to be summed exactly."""
    us = round(seconds * 1e6)
    if us > LONGEST_US:
        raise ModelError(f"{name} is {seconds:g}; expected at most {LONGEST_US / 1e6:.3g} seconds")
    return us


@dataclass(frozen=True, slots=True)
class Schedule:
    """A design's rhythm in whole microseconds."""

    one_us: int
    first_steps: int
    steps: int
    first_blocking_us: int
    blocking_us: int
    persist_us: int

    @classmethod
    def of(cls, design: Design) -> Schedule:
        """The rhythm of a design; steps are shortened until they fill its interval.

        ``stall``: a save that is due waits, training standing still, until the one before has landed; the waiting is
        part of its blocking time. ``skip``: it does not take place, so the next one is an interval later.
        """
        interval_us = max(1, whole_us("interval_s", design.interval_s))
        step_us = max(1, whole_us("step_s", design.step_s))
        steps = -(-interval_us // step_us)
        one_us = max(1, round(interval_us / steps))
        blocking_us = whole_us("blocking_s", design.blocking_s)
        persist_us = whole_us("persist_s", design.persist_s or 0.0)
        training_us = steps * one_us
        if design.overrun == "skip":
            rounds = max(1, -(-persist_us // training_us))
            return cls(one_us, steps, rounds * steps, blocking_us, blocking_us, persist_us)
        wait_us = max(0, persist_us - training_us)
        return cls(one_us, steps, steps, blocking_us, blocking_us + wait_us, persist_us)

    @property
    def first_us(self) -> int:
        """Length of the first round."""
        return self.first_steps * self.one_us + self.first_blocking_us

    @property
    def round_us(self) -> int:
        """Length of every further round."""
        return self.steps * self.one_us + self.blocking_us

    @property
    def ahead_us(self) -> int:
        """By how much the first round is shorter than the others."""
        return self.round_us - self.first_us

    def saves(self, time_us: Floats) -> Floats:
        """How many saves' blocking parts have ended by ``time_us``, of 0 or more."""
        done = (time_us + self.ahead_us) / self.round_us if self.ahead_us else time_us / self.round_us
        return np.floor(done, out=done)

    def landed(self, time_us: Floats) -> Floats:
        """How many saves have landed by ``time_us``, of any sign."""
        written_us = time_us - self.persist_us
        return self.saves(np.maximum(written_us, 0, out=written_us))

    def end_us(self, save: Floats) -> Floats:
        """When the blocking part of save number ``save``, from 1, ends."""
        return save * self.round_us - self.ahead_us

    def first_save(self, time_us: Floats) -> Floats:
        """The number of the first save whose blocking part ends at ``time_us`` or later."""
        return np.maximum(np.ceil((time_us + self.ahead_us) / self.round_us), 1)

    def steps_at(self, save: Floats) -> Floats:
        """How many steps save number ``save`` holds, none for 0."""
        return self.work_us(save) / self.one_us

    def work_us(self, save: Floats) -> Floats:
        """How long the steps took that save number ``save`` holds."""
        work_us = save * (self.steps * self.one_us)
        if self.first_steps != self.steps:
            work_us -= (self.steps - self.first_steps) * self.one_us * (save > 0)
        return work_us

    def standstill_us(self, time_us: Floats, saves: Floats) -> Floats:
        """Time spent standing still to save until ``time_us``, with ``saves`` saves ended by then."""
        into = saves * -self.round_us
        into += time_us
        if self.ahead_us:
            further = saves > 0
            into += self.ahead_us * further
            into -= np.where(further, self.steps, self.first_steps) * self.one_us
            np.maximum(into, 0, out=into)
            into -= (self.blocking_us - self.first_blocking_us) * further
        else:
            into -= self.steps * self.one_us
            np.maximum(into, 0, out=into)
        into += saves * self.blocking_us
        return into
