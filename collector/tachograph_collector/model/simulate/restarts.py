"""How long each failure's restart takes: what a spare saves, and how the state comes back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tachograph_collector.model.check import Floats
from tachograph_collector.model.simulate.design import Design
from tachograph_collector.model.simulate.draws import Draws, Purpose
from tachograph_collector.model.simulate.schedule import Schedule, whole_us

Bools = NDArray[np.bool_]


class Parts(NamedTuple):
    """The parts of a restart in whole microseconds."""

    detect_us: int
    replace_us: int
    swap_us: int
    reconfigure_us: int
    reload_us: int
    peer_reload_us: int
    warmup_us: int

    @classmethod
    def of(cls, design: Design) -> Parts:
        """A design's parts; what it does without takes as long as what it has instead."""
        swap_s = design.spares.swap_s if design.spares is not None and design.spares.count else design.replace_s
        reconfigure_s = design.replace_s if design.elastic is None else design.elastic.reconfigure_s
        peer_s = design.reload_s if design.peer_reload_s is None else design.peer_reload_s
        return cls(
            whole_us("detect_s", design.detect_s),
            whole_us("replace_s", design.replace_s),
            whole_us("spares.swap_s", swap_s),
            whole_us("elastic.reconfigure_s", reconfigure_s),
            whole_us("reload_s", design.reload_s),
            whole_us("peer_reload_s", peer_s),
            whole_us("warmup_s", design.warmup_s),
        )


class Rules(NamedTuple):
    """A design with what follows from it, worked out once for all runs."""

    design: Design
    schedule: Schedule
    parts: Parts

    @classmethod
    def of(cls, design: Design) -> Rules:
        """The rules of a design."""
        return cls(design, Schedule.of(design), Parts.of(design))


class Restarts(NamedTuple):
    """What follows each failure; arrays of the shape of the failures' times, or one value for all of them."""

    is_swapped: Bools | bool
    """A spare takes the failed node's place."""
    is_by_peer: Bools | bool
    """The state comes from a peer's memory."""

    def replace_us(self, parts: Parts) -> Floats:
        """From detection until the place of the failed node is filled."""
        return np.where(self.is_swapped, float(parts.swap_us), float(parts.replace_us))

    def reload_us(self, parts: Parts) -> Floats:
        """Reading the state back."""
        return np.where(self.is_by_peer, float(parts.peer_reload_us), float(parts.reload_us))

    def total_us(self, parts: Parts) -> Floats:
        """From the failure until training begins again."""
        return parts.detect_us + self.replace_us(parts) + self.reload_us(parts) + parts.warmup_us


def restarts(rules: Rules, draws: Draws, times_us: Floats) -> Restarts:
    """What follows each of the failures at ``times_us``, of shape (runs, failures), that ``draws`` has just given."""
    design = rules.design
    is_swapped: Bools | bool = False
    if design.spares is not None and design.spares.count:
        repair_us = whole_us("spares.repair_s", design.spares.repair_s)
        is_swapped = _swapped(times_us + rules.parts.detect_us, design.spares.count, repair_us) if repair_us else True
    is_by_peer: Bools | bool = design.peer_share == 1
    if 0 < design.peer_share < 1:
        is_by_peer = draws.chances(Purpose.PEER, times_us) < design.peer_share
    return Restarts(is_swapped, is_by_peer)


def _swapped(wanted_us: Floats, count: int, repair_us: int) -> Bools:
    """Whether a spare is free when each failure wants one; the node it replaces is a spare after its repair."""
    runs, num_failures = wanted_us.shape
    free_from_us = np.zeros((runs, count))
    rows = np.arange(runs)
    swapped = np.empty(wanted_us.shape, dtype=np.bool_)
    for k in range(num_failures):
        slot = free_from_us.argmin(axis=1)
        now_us, free_us = wanted_us[:, k], free_from_us[rows, slot]
        swapped[:, k] = is_free = free_us <= now_us
        free_from_us[rows, slot] = np.where(is_free, now_us + repair_us, free_us)
    return swapped
