"""Runs that silent corruption strikes too, advanced stop by stop, all runs at once.

Corruption strikes while the run trains and stays in its state and in every save that ends after it, until it is noticed
a fixed time later or a failure happens to go back to a save from before. When it is noticed, the run goes back to the
newest clean save that retention has left, and starts from scratch if there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tachograph_collector.model.check import Floats
from tachograph_collector.model.simulate.design import Corruption, Retention
from tachograph_collector.model.simulate.draws import Draws
from tachograph_collector.model.simulate.history import History, Places
from tachograph_collector.model.simulate.outcome import Ints
from tachograph_collector.model.simulate.restarts import Bools, Rules, restarts
from tachograph_collector.model.simulate.schedule import whole_us

NEVER = np.inf
EVERY_SAVE = Retention(last=1 << 53)


class Stop(NamedTuple):
    """One stop of all runs, arrays of shape (n,); of runs that are over, of no length."""

    begin_us: Floats
    restart_us: Floats
    end_us: Floats
    is_noticed: Bools
    """Corruption was noticed; else a failure struck, or the run ended."""
    is_end: Bools
    """The run is over."""
    is_by_peer: Bools
    """The failure is made good from a peer's memory."""
    resume_steps: Floats
    """The step from which the next stretch goes on."""


@dataclass(frozen=True, slots=True)
class Corrupted:
    """The accounts of runs that corruption struck, shape (n,)."""

    kept_us: Floats
    checkpoint_us: Floats
    lost_us: Floats
    num_failures: Ints
    num_from_scratch: Ints
    stops: list[Stop] = field(default_factory=list)


def corrupted(
    rules: Rules, draws: Draws, corruption: Corruption, duration_us: int, num_runs: int, *, remember: bool = False
) -> Corrupted:
    """The next ``num_runs`` runs that ``draws`` has numbers for; with ``remember`` every stop of theirs too."""
    design, schedule, parts = rules
    crashes_us = draws.failure_times(num_runs)
    after = restarts(rules, draws, crashes_us)
    after_crash_us = np.broadcast_to(after.total_us(parts), crashes_us.shape)
    by_peer = np.broadcast_to(np.asarray(after.is_by_peer), crashes_us.shape)
    strikes_us = draws.corruption_times(num_runs, corruption.mean_gap_s)
    detection_us = whole_us("corruption.detection_s", corruption.detection_s)
    after_notice_us = parts.detect_us + parts.swap_us + parts.reload_us + parts.warmup_us
    history = History(num_runs, schedule, design.retention or EVERY_SAVE)

    rows = np.arange(num_runs)
    crash, strike = np.zeros(num_runs, dtype=np.intp), np.zeros(num_runs, dtype=np.intp)
    begin_us, restart_us = np.zeros(num_runs), np.zeros(num_runs)
    corrupt_us = np.full(num_runs, NEVER)
    checkpoint_us, worked_us, kept_us = np.zeros(num_runs), np.zeros(num_runs), np.zeros(num_runs)
    num_failures, num_from_scratch = np.zeros(num_runs, dtype=np.int64), np.zeros(num_runs, dtype=np.int64)
    is_over = np.zeros(num_runs, dtype=np.bool_)
    stops: list[Stop] = []
    while not is_over.all():
        training_us = begin_us + restart_us
        crash_us = np.minimum(crashes_us[rows, crash], duration_us)
        # Strikes before training begins, or while the state is corrupt already, change nothing.
        floor_us = np.where(corrupt_us == NEVER, training_us, np.minimum(crash_us, corrupt_us + detection_us))
        strike = _first_from(strikes_us, strike, floor_us)
        struck_us = strikes_us[rows, strike]
        strikes = (corrupt_us == NEVER) & (struck_us < crash_us)
        corrupt_us = np.where(strikes, struck_us, corrupt_us)
        noticed_us = np.where(corrupt_us == NEVER, NEVER, corrupt_us + detection_us)
        is_noticed = (noticed_us < crash_us) & ~is_over
        end_us = np.where(is_over, begin_us, np.where(is_noticed, noticed_us, crash_us))
        ends = ~is_noticed & (crash_us == duration_us)
        crashes = ~is_noticed & ~ends & ~is_over

        trained_us = end_us - training_us
        np.putmask(trained_us, trained_us < schedule.one_us, 0)
        saves = schedule.saves(trained_us)
        standstill_us = schedule.standstill_us(trained_us, saves)
        work_us = trained_us - standstill_us
        work_us -= np.where(ends, np.fmod(work_us, schedule.one_us), 0)
        checkpoint_us += standstill_us
        worked_us += work_us
        kept_us = np.where(ends & ~is_over, history.steps * schedule.one_us + work_us, kept_us)

        landed = schedule.landed(trained_us)
        if design.peer_holds_newest:
            landed = np.where(crashes & by_peer[rows, crash], saves, landed)
        goes_on = crashes | is_noticed
        history.bank(training_us, np.where(goes_on, landed, 0))
        # A crash heals a corruption if it goes back to a save from before it.
        heals = crashes & (history.newest_us <= corrupt_us)
        corrupt_us = np.where(heals, NEVER, corrupt_us)
        if is_noticed.any():
            which = np.flatnonzero(is_noticed)
            num_from_scratch[which] += history.go_back(which, corrupt_us[which])
            corrupt_us[which] = NEVER
        if remember:
            peer = crashes & by_peer[rows, crash]
            stops.append(Stop(begin_us, restart_us, end_us, is_noticed, ends, peer, history.steps.copy()))
        num_failures += goes_on
        restart_us = np.where(is_noticed, float(after_notice_us), np.where(crashes, after_crash_us[rows, crash], 0))
        begin_us = end_us
        crash += crashes
        is_over |= ends
    return Corrupted(kept_us, checkpoint_us, worked_us - kept_us, num_failures, num_from_scratch, stops)


def _first_from(times_us: Floats, at: Places, floor_us: Floats) -> Places:
    """For each row the first column from ``at`` on that is at ``floor_us`` or later."""
    rows = np.arange(len(at))
    last = times_us.shape[1] - 1
    while np.any(early := (times_us[rows, at] < floor_us) & (at < last)):
        at = at + early
    return at
