"""The best interval of any goodput curve, by search: for the models without a closed-form optimum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tachograph_collector.model.check import Floats, ModelError, positive

REACH = 1e4
"""The search covers ``around / REACH`` to ``around * REACH``."""
COARSE, FINE, ZOOMS = 801, 65, 4
"""Points of the first grid and of the further ones, each between the neighbours of the best so far: steps of 2 %,
then of 7e-4, 2e-5, 7e-7 and 2e-8 of the interval."""


def best_interval(curve: Callable[[Floats], Floats], around: ArrayLike) -> float:
    """The tau at which ``curve`` is highest, by grids on a logarithmic scale that close in on the best point.

    ``curve`` takes an array of intervals and gives their goodput; ``around`` is a first guess in the same unit, such as
    Young's. A grid, not a descent, so that curves with several tops (observed gaps, nearly regular failures) end on the
    highest that 2 % steps can tell. A top is flat: the goodput is exact to 15 digits, tau itself to about 7. Raises
    ``ModelError`` where the curve has no top within four decades of ``around``: free checkpoints, or restarts so long
    that nothing is ever kept.
    """
    guess = positive("around", around)
    if guess.ndim:
        raise ModelError(f"around is an array of shape {guess.shape}; expected one number")
    grid = np.geomspace(guess / REACH, guess * REACH, COARSE)
    values = curve(grid)
    best = int(np.argmax(values))
    if best in (0, COARSE - 1) or values[best] <= 0:
        raise ModelError(
            f"the curve has no top from tau = {grid[0]:g} to {grid[-1]:g}; expected checkpoints that cost something "
            "and restarts that end before the next failure"
        )
    highest = (values[best], grid[best])
    for _ in range(ZOOMS):
        grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], FINE)
        values = curve(grid)
        best = int(np.argmax(values))
        # A saw's tooth can fall between the points of a finer grid: no zoom may lose height.
        highest = max(highest, (values[best], grid[best]))
    return float(highest[1])
