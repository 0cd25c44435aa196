"""What a simulation gives: the accounts of every run, in whole microseconds, and the goodput that they amount to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tachograph_collector.model.check import Floats, ModelError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The accounts of ``n`` simulated runs of one length, arrays of shape (n,). The four sum to ``wall_us``."""

    wall_us: int
    kept_us: Ints
    checkpoint_us: Ints
    lost_us: Ints
    restart_us: Ints
    num_failures: Ints
    """Failures that struck, in training, saves and restarts; corruptions that were noticed among them."""
    num_from_scratch: Ints
    """Corruptions that left no clean save."""
    useful_us: Floats
    """Kept time weighted with the share of replicas that trained: ``kept_us`` unless the design is elastic."""
    hardware_share: float
    """Training nodes over all that are paid for."""

    @property
    def kept_s(self) -> Floats:
        """Work that is part of the model at the run's end, seconds."""
        return self.kept_us / 1e6

    @property
    def checkpoint_s(self) -> Floats:
        """Time in which training stood still to save, seconds."""
        return self.checkpoint_us / 1e6

    @property
    def lost_s(self) -> Floats:
        """Work done and thrown away, seconds."""
        return self.lost_us / 1e6

    @property
    def restart_s(self) -> Floats:
        """Time without training, seconds."""
        return self.restart_us / 1e6

    @property
    def goodputs(self) -> Floats:
        """Each run's goodput, 0 to 1, per hardware that is paid for."""
        return self.useful_us / self.wall_us * self.hardware_share

    @property
    def goodput(self) -> float:
        """Goodput over all runs, 0 to 1: kept over wall (a ratio of means; all runs are of one length)."""
        return float(np.mean(self.goodputs))

    @property
    def standard_error(self) -> float:
        """Of ``goodput``, from the spread between runs; NaN for a single run."""
        runs = len(self.kept_us)
        return float(np.std(self.goodputs, ddof=1)) / runs**0.5 if runs > 1 else float("nan")

    def goodput_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Interval for the expected goodput, Student's t over the runs; needs at least two of them."""
        runs = len(self.kept_us)
        if runs < 2:
            raise ModelError(f"num_runs is {runs}; expected at least 2 for an interval")
        if not 0 < confidence < 1:
            raise ModelError(f"confidence is {confidence!r}; expected a number between 0 and 1")
        reach = float(stdtrit(runs - 1, 0.5 + confidence / 2)) * self.standard_error
        return self.goodput - reach, self.goodput + reach
