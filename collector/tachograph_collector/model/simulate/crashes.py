"""Runs that failures stop, as stretches. Between failures nothing is random, so a stretch is one row of arithmetic."""

from __future__ import annotations

import numpy as np

from tachograph_collector.model.simulate.design import Design, Elastic, Failures
from tachograph_collector.model.simulate.draws import failure_times
from tachograph_collector.model.simulate.outcome import Ints
from tachograph_collector.model.simulate.restarts import Bools, Parts, Restarts, restarts
from tachograph_collector.model.simulate.schedule import Schedule
from tachograph_collector.model.simulate.stretches import Stretches


def stretches(
    design: Design, failures: Failures, duration_us: int, seed: int, first_run: int, num_runs: int
) -> tuple[Stretches, Restarts]:
    """The stretches of runs ``first_run`` to ``first_run + num_runs``, and what follows each of their failures."""
    times_us = failure_times(failures, duration_us, seed, first_run, num_runs)
    parts = Parts.of(design)
    after = restarts(design, parts, failures, times_us, duration_us, seed, first_run)
    begin_us = np.zeros_like(times_us)
    begin_us[:, 1:] = times_us[:, :-1]
    end_us = np.minimum(times_us, duration_us)
    if design.elastic is not None:
        return _elastic(design, design.elastic, parts, after, begin_us, times_us, duration_us), after
    restart_us = np.zeros_like(times_us)
    total_us = after.total_us(parts)
    restart_us[:, 1:] = total_us[:, :-1] if total_us.ndim else total_us
    return Stretches(begin_us, restart_us, end_us, end_us, times_us < duration_us, after.is_by_peer), after


def _elastic(
    design: Design,
    elastic: Elastic,
    parts: Parts,
    after: Restarts,
    begin_us: Ints,
    times_us: Ints,
    duration_us: int,
) -> Stretches:
    """Each gap between failures as two stretches: until the replicas rejoin (if they do), and from there on."""
    schedule = Schedule.of(design)
    runs, gaps = times_us.shape
    most = elastic.replicas - elastic.min_replicas
    wait_us = schedule.persist_us + parts.reload_us + parts.warmup_us
    shape = (runs, 2 * gaps)
    begins, restart, ends, decided = (np.zeros(shape, dtype=np.int64) for _ in range(4))
    absent = np.zeros(shape, dtype=np.int64)
    reload_us = np.broadcast_to(after.reload_us(parts), times_us.shape)
    swapped = np.broadcast_to(np.asarray(after.is_swapped), times_us.shape)
    missing, due_us = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    for k in range(gaps):
        start_us, stop_us = begin_us[:, k], np.minimum(times_us[:, k], duration_us)
        if k:
            told_us = start_us + parts.detect_us
            arrives_us = told_us + parts.replace_us
            without = ~swapped[:, k - 1]
            goes_on = without & (missing < most)
            due_us = np.where(goes_on, np.maximum(due_us, arrives_us), due_us)
            missing = np.where(goes_on, missing + 1, np.where(without, 0, missing))
            fills_us = np.where(goes_on, parts.reconfigure_us, np.where(without, parts.replace_us, parts.swap_us))
            restart[:, 2 * k] = parts.detect_us + fills_us + reload_us[:, k - 1] + parts.warmup_us
        training_us = start_us + restart[:, 2 * k]
        rejoin_us = training_us + schedule.end_us(_first_save(schedule, due_us - training_us))
        rejoins = (missing > 0) & (rejoin_us < stop_us)
        begins[:, 2 * k] = start_us
        ends[:, 2 * k] = np.where(rejoins, rejoin_us, stop_us)
        decided[:, 2 * k] = stop_us
        absent[:, 2 * k] = missing
        # Where nothing rejoins, the second half has no length.
        begins[:, 2 * k + 1] = ends[:, 2 * k]
        restart[:, 2 * k + 1] = wait_us
        ends[:, 2 * k + 1] = decided[:, 2 * k + 1] = stop_us
        missing = np.where(rejoins, 0, missing)
        due_us = np.where(rejoins, 0, due_us)
    fails = np.repeat(times_us < duration_us, 2, axis=1)
    by_peer: Bools = np.repeat(np.broadcast_to(np.asarray(after.is_by_peer), times_us.shape), 2, axis=1)
    # A stop that waited until its save had landed loses nothing, whoever restores a later failure.
    return Stretches(begins, restart, ends, decided, fails, by_peer, absent)


def _first_save(schedule: Schedule, due_us: Ints) -> Ints:
    """The number of the first save whose blocking part ends at ``due_us`` or later."""
    return np.maximum(-((-due_us - schedule.ahead_us) // schedule.round_us), 1)
