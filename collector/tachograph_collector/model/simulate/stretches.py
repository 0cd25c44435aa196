"""Runs as stretches, from one stop of training to the next, and the accounts that they add up to.

A stretch is a restart and the training after it. It ends with a failure, with a planned stop (replicas rejoin) or with
the run. A failure keeps what had landed; a stretch that completed no step was all restart, the step in flight included:
nothing shows that it was training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.model.check import Floats
from tachograph_collector.model.simulate.restarts import Bools
from tachograph_collector.model.simulate.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Stretches:
    """The stretches of ``n`` runs in order, whole microseconds, arrays of shape (n, most stretches of any run)."""

    length_us: Floats
    """0 for those beyond a run's end, and for those that don't take place."""
    restart_us: Floats
    """How long the restart wants to take, shape (n, most) or (most,)."""
    last: NDArray[np.intp]
    """Which of them the run ends in, shape (n,). All before end with a failure, unless ``later_us`` says otherwise."""
    is_by_peer: Bools | bool
    """The failure that ends it is made good from a peer's memory."""
    later_us: Floats | None = None
    """How long after its end the failure struck that decides what is kept of it: 0, or more after a planned stop."""
    missing: Floats | None = None
    """Replicas that are missing in it; None where the design isn't elastic."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over each run's stretches, shape (n,); what is no work and no save is restart."""

    kept_us: Floats
    checkpoint_us: Floats
    lost_us: Floats
    missed_us: Floats
    """Kept time times the replicas that were missing in it."""


def sums(stretches: Stretches, schedule: Schedule, *, peer_holds_newest: bool) -> Sums:
    """Each run's accounts."""
    trained_us = training_us(stretches, schedule)
    saves = schedule.saves(trained_us)
    standstill_us = schedule.standstill_us(trained_us, saves)
    landed = landed_saves(stretches, schedule, trained_us, saves, peer_holds_newest=peer_holds_newest)
    banked_us = schedule.work_us(landed)
    rows, last = np.arange(len(trained_us)), stretches.last
    # What no failure ends is kept, but for the step in flight. After a planned stop nothing had failed either.
    ends = [last] if stretches.missing is None else [last, last - 1]
    in_flight_us = np.zeros(len(trained_us))
    for place in ends:
        worked_us = trained_us[rows, place] - standstill_us[rows, place]
        flying_us = np.fmod(worked_us, schedule.one_us)
        banked_us[rows, place] = worked_us - flying_us
        in_flight_us += flying_us
    kept_us, checkpoint_us = _row_sums(banked_us), _row_sums(standstill_us)
    lost_us = _row_sums(trained_us) - checkpoint_us - kept_us - in_flight_us
    missed_us = _row_sums(banked_us * stretches.missing) if stretches.missing is not None else np.zeros(1)
    return Sums(kept_us, checkpoint_us, lost_us, missed_us)


def _row_sums(array: Floats) -> Floats:
    """Sums over each row; ``einsum`` takes less time for rows this short than ``sum``, and whole numbers are exact."""
    sums_us: Floats = np.einsum("ij->i", array)
    return sums_us


def training_us(stretches: Stretches, schedule: Schedule) -> Floats:
    """Time from the beginning of training to its end; 0 where no step was completed."""
    trained_us = stretches.length_us - stretches.restart_us
    np.putmask(trained_us, trained_us < schedule.one_us, 0)
    return trained_us


def landed_saves(
    stretches: Stretches, schedule: Schedule, trained_us: Floats, saves: Floats, *, peer_holds_newest: bool
) -> Floats:
    """How many saves of each stretch a failure can't take away."""
    if stretches.later_us is not None:
        landed = np.minimum(schedule.landed(trained_us + stretches.later_us), saves)
    else:
        landed = schedule.landed(trained_us) if schedule.persist_us else saves
    if peer_holds_newest:
        landed = np.where(stretches.is_by_peer, saves, landed)
    return landed
