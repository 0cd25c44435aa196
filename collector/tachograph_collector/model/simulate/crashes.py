"""Runs that failures stop, as stretches. Between failures nothing is random, so a stretch is one row of arithmetic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tachograph_collector.model.check import Floats
from tachograph_collector.model.simulate.design import Elastic
from tachograph_collector.model.simulate.draws import Draws
from tachograph_collector.model.simulate.outcome import Ints
from tachograph_collector.model.simulate.restarts import Restarts, Rules, restarts
from tachograph_collector.model.simulate.stretches import Stretches


class Crashed(NamedTuple):
    """Runs that failures stop."""

    stretches: Stretches
    after: Restarts
    """What follows each failure."""
    num_failures: Ints


def crashed(rules: Rules, draws: Draws, duration_us: int, num_runs: int) -> Crashed:
    """The next ``num_runs`` runs that ``draws`` has numbers for."""
    times_us = draws.failure_times(num_runs)
    after = restarts(rules, draws, times_us)
    # Times rise, and the last is past the end: the first that isn't below it is found far sooner than all are counted.
    num_failures = (times_us < duration_us).argmin(axis=1)
    ends_us = np.minimum(times_us, duration_us, out=times_us)
    if rules.design.elastic is not None:
        return Crashed(_elastic(rules, rules.design.elastic, after, ends_us, num_failures), after, num_failures)
    length_us = np.empty_like(ends_us)
    length_us[:, 0] = ends_us[:, 0]
    np.subtract(ends_us[:, 1:], ends_us[:, :-1], out=length_us[:, 1:])
    total_us = after.total_us(rules.parts)
    restart_us = np.empty((*total_us.shape[:-1], ends_us.shape[1]))
    restart_us[..., 0] = 0
    restart_us[..., 1:] = total_us[..., :-1] if total_us.ndim else total_us
    return Crashed(Stretches(length_us, restart_us, num_failures, after.is_by_peer), after, num_failures)


def _elastic(rules: Rules, elastic: Elastic, after: Restarts, ends_us: Floats, num_failures: Ints) -> Stretches:
    """Each gap between failures as two stretches: until the replicas rejoin (if they do), and from there on."""
    schedule, parts = rules.schedule, rules.parts
    runs, gaps = ends_us.shape
    most = elastic.replicas - elastic.min_replicas
    length_us, restart_us, later_us, absent = (np.zeros((runs, 2 * gaps)) for _ in range(4))
    # At the end of a save the stop waits until it has landed; where nothing rejoins, the second half has no length.
    restart_us[:, 1::2] = schedule.persist_us + parts.reload_us + parts.warmup_us
    reload_us = np.broadcast_to(after.reload_us(parts), ends_us.shape)
    swapped = np.broadcast_to(np.asarray(after.is_swapped), ends_us.shape)
    missing, due_us, begin_us = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    for k in range(gaps):
        if k:
            told_us = begin_us + parts.detect_us
            without = ~swapped[:, k - 1]
            goes_on = without & (missing < most)
            due_us = np.where(goes_on, np.maximum(due_us, told_us + parts.replace_us), due_us)
            missing = np.where(goes_on, missing + 1, np.where(without, 0, missing))
            fills_us = np.where(goes_on, parts.reconfigure_us, np.where(without, parts.replace_us, parts.swap_us))
            restart_us[:, 2 * k] = parts.detect_us + fills_us + reload_us[:, k - 1] + parts.warmup_us
        training_us = begin_us + restart_us[:, 2 * k]
        rejoin_us = training_us + schedule.end_us(schedule.first_save(due_us - training_us))
        rejoins = (missing > 0) & (rejoin_us < ends_us[:, k])
        stop_us = np.where(rejoins, rejoin_us, ends_us[:, k])
        length_us[:, 2 * k] = stop_us - begin_us
        length_us[:, 2 * k + 1] = later_us[:, 2 * k] = ends_us[:, k] - stop_us
        absent[:, 2 * k] = missing
        missing = np.where(rejoins, 0, missing)
        due_us = np.where(rejoins, 0, due_us)
        begin_us = ends_us[:, k]
    by_peer = np.repeat(np.broadcast_to(np.asarray(after.is_by_peer), ends_us.shape), 2, axis=1)
    return Stretches(length_us, restart_us, 2 * num_failures + 1, by_peer, later_us, absent)
