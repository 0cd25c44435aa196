"""Runs as stretches, from one stop of training to the next, and the accounts that they add up to.

A stretch is a restart and the training after it. It ends with a failure, with a planned stop (replicas rejoin) or with
the run. A failure keeps what had landed; a stretch that completed no step was all restart, the step in flight included:
nothing shows that it was training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tachograph_collector.model.simulate.outcome import Ints
from tachograph_collector.model.simulate.restarts import Bools
from tachograph_collector.model.simulate.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Stretches:
    """The stretches of ``n`` runs, arrays of shape (n, most stretches of any run), in order of time.

    Those beyond a run's end have a length of 0 or less.
    """

    begin_us: Ints
    restart_us: Ints
    end_us: Ints
    """When training stops."""
    failed_us: Ints
    """When a failure decides what is kept: ``end_us``, or later where a planned stop waits for its save to land."""
    fails: Bools
    is_by_peer: Bools | bool
    """The failure that ends it is made good from a peer's memory."""
    missing: Ints | None = None
    """Replicas that are missing in it; None where the design isn't elastic."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over each run's stretches, shape (n,); what is no work and no save is restart."""

    kept_us: Ints
    checkpoint_us: Ints
    lost_us: Ints
    missed_us: Ints
    """Kept time times the replicas that were missing in it."""


def sums(stretches: Stretches, schedule: Schedule, *, peer_holds_newest: bool) -> Sums:
    """Each run's accounts."""
    trained_us = training_us(stretches, schedule)
    saves = schedule.saves(trained_us)
    standstill_us = schedule.standstill_us(trained_us, saves)
    surviving = landed_saves(stretches, schedule, trained_us, saves, peer_holds_newest=peer_holds_newest)
    banked_us = schedule.steps_at(surviving) * schedule.one_us
    worked_us = trained_us - standstill_us
    lives = ~stretches.fails
    lives &= trained_us > 0
    # What no failure ends is kept, but for the step in flight.
    whole_us = worked_us[lives]
    whole_us -= whole_us % schedule.one_us
    banked_us[lives] = worked_us[lives] = whole_us
    kept_us = banked_us.sum(axis=1)
    missed_us = (banked_us * stretches.missing).sum(axis=1) if stretches.missing is not None else np.zeros_like(kept_us)
    return Sums(kept_us, standstill_us.sum(axis=1), worked_us.sum(axis=1) - kept_us, missed_us)


def training_us(stretches: Stretches, schedule: Schedule) -> Ints:
    """Time from the beginning of training to its end; 0 where no step was completed."""
    trained_us = stretches.end_us - stretches.begin_us
    trained_us -= stretches.restart_us
    trained_us *= trained_us >= schedule.one_us
    return trained_us


def landed_saves(
    stretches: Stretches, schedule: Schedule, trained_us: Ints, saves: Ints, *, peer_holds_newest: bool
) -> Ints:
    """How many saves of each stretch a failure can't take away."""
    if stretches.failed_us is stretches.end_us:
        landed = schedule.landed(trained_us) if schedule.persist_us else saves
    else:
        later_us = stretches.failed_us - stretches.end_us
        landed = np.minimum(schedule.landed(trained_us + later_us), saves)
    if peer_holds_newest:
        landed = np.where(stretches.is_by_peer, saves, landed)
    return landed
