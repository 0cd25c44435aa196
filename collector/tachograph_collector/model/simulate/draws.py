"""Random numbers of which every run has its own: run ``i`` draws the same whether it is simulated alone or among many.

A draw is addressed by seed, purpose, block and run: each (seed, purpose, block) is a stream of its own, in which each
run owns one row of a fixed width.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from tachograph_collector.model.check import Floats, ModelError
from tachograph_collector.model.simulate.design import Failures
from tachograph_collector.model.simulate.outcome import Ints

MOST_FAILURES = 1_000_000
"""Expected failures in one run beyond which a simulation is refused: its answer would be 0 anyway."""


class Purpose(IntEnum):
    """What a random number decides."""

    GAP = 0
    IS_CLUSTERED = 1
    CLUSTERED_GAP = 2
    PEER = 3
    CORRUPTION = 4


def uniforms(seed: int, purpose: Purpose, block: int, first_run: int, shape: tuple[int, int]) -> Floats:
    """Numbers in [0, 1) for ``shape[0]`` runs from ``first_run`` on, ``shape[1]`` each."""
    bits = np.random.PCG64(np.random.SeedSequence([seed, int(purpose), block]))
    bits.advance(first_run * shape[1])
    return np.random.Generator(bits).random(shape)


def width(mean_gap_s: float, duration_us: int, name: str = "mtbf_s") -> int:
    """How many gaps per run nearly always suffice to fill ``duration_us``."""
    expected = duration_us / (mean_gap_s * 1e6)
    if expected > MOST_FAILURES:
        raise ModelError(
            f"{name} is too short: gaps of {mean_gap_s:g} s on average make {expected:.3g} failures in "
            f"{duration_us / 1e6:g} s; expected at most {MOST_FAILURES:,}"
        )
    return int(expected + 4 * expected**0.5 + 4)


def failure_times(failures: Failures, duration_us: int, seed: int, first_run: int, num_runs: int) -> Ints:
    """When failures strike, microseconds from the run's start, rising; the last of each row is past the run's end."""
    columns = width(failures.mean_gap_s, duration_us)

    def block(number: int, columns: int) -> Floats:
        shape = (num_runs, columns)
        gaps = _exponential(uniforms(seed, Purpose.GAP, number, first_run, shape))
        if failures.shape != 1.0:
            gaps **= 1 / failures.shape
        gaps *= failures.scale_s
        if failures.cluster_probability:
            soon = uniforms(seed, Purpose.IS_CLUSTERED, number, first_run, shape) < failures.cluster_probability
            near = 1 - uniforms(seed, Purpose.CLUSTERED_GAP, number, first_run, shape)
            near *= failures.cluster_within_s
            gaps = np.where(soon, near, gaps)
        return gaps

    return _filled(block, columns, duration_us)


def corruption_times(mean_gap_s: float, duration_us: int, seed: int, first_run: int, num_runs: int) -> Ints:
    """When corruption strikes, as ``failure_times``; memoryless."""
    columns = width(mean_gap_s, duration_us, "corruption.mean_gap_s")

    def block(number: int, columns: int) -> Floats:
        return mean_gap_s * _exponential(uniforms(seed, Purpose.CORRUPTION, number, first_run, (num_runs, columns)))

    return _filled(block, columns, duration_us)


def chances(purpose: Purpose, failures: Failures, duration_us: int, seed: int, first_run: int, like: Ints) -> Floats:
    """A number in [0, 1) for each failure of ``like``, which ``failure_times`` gave for the same arguments."""
    columns = width(failures.mean_gap_s, duration_us)
    blocks = [uniforms(seed, purpose, 0, first_run, (len(like), columns))]
    while (have := sum(block.shape[1] for block in blocks)) < like.shape[1]:
        shape = (len(like), min(_further(columns), like.shape[1] - have))
        blocks.append(uniforms(seed, purpose, len(blocks), first_run, shape))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)


def _filled(block: Callable[[int, int], Floats], columns: int, duration_us: int) -> Ints:
    """Sums of gaps, with as many blocks of them as it takes until every row is past ``duration_us``."""
    times = np.cumsum(_whole_gaps(block(0, columns), duration_us), axis=1)
    number = 0
    while np.min(times[:, -1]) < duration_us:
        number += 1
        gaps = _whole_gaps(block(number, _further(columns)), duration_us)
        times = np.concatenate([times, times[:, -1:] + np.cumsum(gaps, axis=1)], axis=1)
    return times


def _further(columns: int) -> int:
    """Width of the blocks after the first."""
    return columns // 4 + 8


def _whole_gaps(gaps_s: Floats, duration_us: int) -> Ints:
    """Gaps as whole microseconds, at least 1. Beyond the run's end they are all the same: no sum overflows."""
    gaps_s *= 1e6
    np.clip(gaps_s, 1, duration_us + 1, out=gaps_s)
    np.rint(gaps_s, out=gaps_s)
    return gaps_s.astype(np.int64)


def _exponential(uniform: Floats) -> Floats:
    """Exponential numbers of mean 1, one for each uniform one, in place."""
    np.negative(uniform, out=uniform)
    np.log1p(uniform, out=uniform)
    return np.negative(uniform, out=uniform)
