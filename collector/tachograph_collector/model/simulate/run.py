"""Simulate many runs of a design at once."""

from __future__ import annotations

from tachograph_collector.model.simulate.design import Design, Failures
from tachograph_collector.model.simulate.outcome import Outcome


def simulate(design: Design, failures: Failures, *, duration_s: float, num_runs: int, seed: int) -> Outcome:
    """Simulate ``num_runs`` runs of ``duration_s`` seconds; run ``i`` is the same whatever the number of runs."""
    raise NotImplementedError
