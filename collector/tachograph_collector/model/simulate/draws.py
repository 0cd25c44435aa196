"""Random numbers of which every run has its own: run ``i`` draws the same whether it is simulated alone or among many.

Runs take their numbers in order, a fixed number each, from one stream per purpose. The few that need more draw them
from further streams, in which each run has its place.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import numpy as np

from tachograph_collector.model.check import Floats, ModelError
from tachograph_collector.model.simulate.design import Failures

MOST_FAILURES = 1_000_000
"""Expected failures in one run beyond which a simulation is refused: its answer would be 0 anyway."""

SLICE = 1 << 20
"""How many numbers are passed over at once."""


class Purpose(IntEnum):
    """What a random number decides."""

    GAP = 0
    IS_CLUSTERED = 1
    CLUSTERED_GAP = 2
    PEER = 3
    CORRUPTION = 4


def width(mean_gap_s: float, duration_us: int, name: str = "mtbf_s") -> int:
    """How many gaps per run nearly always suffice to fill ``duration_us``."""
    expected = duration_us / (mean_gap_s * 1e6)
    if expected > MOST_FAILURES:
        raise ModelError(
            f"{name} is too short: gaps of {mean_gap_s:g} s on average make {expected:.3g} failures in "
            f"{duration_us / 1e6:g} s; expected at most {MOST_FAILURES:,}"
        )
    return int(expected + 3.5 * expected**0.5 + 4)


class Draws:
    """The random numbers of runs from ``first_run`` on. Times are whole microseconds from a run's start."""

    def __init__(self, failures: Failures, duration_us: int, seed: int, first_run: int = 0) -> None:
        self._failures = failures
        self._duration_us = duration_us
        self._seed = seed
        self._first_run = first_run
        self._columns = width(failures.mean_gap_s, duration_us)
        self._taken = dict.fromkeys(Purpose, first_run)
        self._streams: dict[Purpose, np.random.Generator] = {}

    def failure_times(self, num_runs: int) -> Floats:
        """When failures strike the next ``num_runs`` runs, each row rising until it is past the run's end."""
        return self._filled(self._gaps, num_runs, self._columns, Purpose.GAP)

    def corruption_times(self, num_runs: int, mean_gap_s: float) -> Floats:
        """When corruption strikes them, likewise; memoryless."""
        columns = width(mean_gap_s, self._duration_us, "corruption.mean_gap_s")

        def gaps(first_run: int, block: int, shape: tuple[int, int]) -> Floats:
            return self._exponential(Purpose.CORRUPTION, first_run, block, shape) * (mean_gap_s * 1e6)

        return self._filled(gaps, num_runs, columns, Purpose.CORRUPTION)

    def chances(self, purpose: Purpose, times_us: Floats) -> Floats:
        """A number in [0, 1) for each failure of ``times_us``, which ``failure_times`` has just given."""
        num_runs, columns = times_us.shape
        first_run = self._taken[purpose]
        self._taken[purpose] += num_runs
        blocks = [self._uniform(purpose, first_run, 0, (num_runs, self._columns))]
        while sum(block.shape[1] for block in blocks) < columns:
            blocks.append(self._uniform(purpose, first_run, len(blocks), (num_runs, _further(self._columns))))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def _gaps(self, first_run: int, block: int, shape: tuple[int, int]) -> Floats:
        failures = self._failures
        gaps = self._exponential(Purpose.GAP, first_run, block, shape)
        if failures.shape != 1.0:
            gaps **= 1 / failures.shape
        gaps *= failures.scale_s * 1e6
        if failures.cluster_probability:
            soon = self._uniform(Purpose.IS_CLUSTERED, first_run, block, shape) < failures.cluster_probability
            near = self._uniform(Purpose.CLUSTERED_GAP, first_run, block, shape)
            near *= failures.cluster_within_s * 1e6
            gaps = np.where(soon, near, gaps)
        return gaps

    def _filled(self, gaps: _Gaps, num_runs: int, columns: int, purpose: Purpose) -> Floats:
        """Running sums of gaps, with as many blocks as it takes until every row is past the run's end."""
        first_run = self._taken[purpose]
        self._taken[purpose] += num_runs
        times_us = _summed(gaps(first_run, 0, (num_runs, columns)), self._duration_us)
        block = 0
        while times_us[:, -1].min() < self._duration_us:
            block += 1
            more_us = _summed(gaps(first_run, block, (num_runs, _further(columns))), self._duration_us)
            times_us = np.concatenate([times_us, times_us[:, -1:] + more_us], axis=1)
        return times_us

    def _exponential(self, purpose: Purpose, first_run: int, block: int, shape: tuple[int, int]) -> Floats:
        """Exponential numbers of mean 1."""
        if block:
            return -np.log1p(-self._uniform(purpose, first_run, block, shape))
        stream = self._streams.get(purpose)
        if stream is None:
            stream = self._streams[purpose] = np.random.Generator(self._bits(purpose, 0))
            # How much a stream moves for one of these numbers varies: those of the runs before are drawn as well.
            ahead = self._first_run * shape[1]
            for start in range(0, ahead, SLICE):
                stream.standard_exponential(min(SLICE, ahead - start))
        return stream.standard_exponential(shape)

    def _uniform(self, purpose: Purpose, first_run: int, block: int, shape: tuple[int, int]) -> Floats:
        """Numbers in [0, 1)."""
        if block:
            bits = self._bits(purpose, block)
            return np.random.Generator(bits.advance(first_run * shape[1])).random(shape)
        stream = self._streams.get(purpose)
        if stream is None:
            bits = self._bits(purpose, 0).advance(self._first_run * shape[1])
            stream = self._streams[purpose] = np.random.Generator(bits)
        return stream.random(shape)

    def _bits(self, purpose: Purpose, block: int) -> np.random.PCG64:
        return np.random.PCG64(np.random.SeedSequence([self._seed, int(purpose), block]))


class _Gaps(Protocol):
    def __call__(self, first_run: int, block: int, shape: tuple[int, int]) -> Floats: ...


def _further(columns: int) -> int:
    """Width of the blocks after the first."""
    return columns // 4 + 8


def _summed(gaps_us: Floats, duration_us: int) -> Floats:
    """Running sums of gaps that are rounded up to whole microseconds."""
    if gaps_us.max() > duration_us:
        # They end a run anyway, and are cut so that no sum overflows.
        np.minimum(gaps_us, duration_us + 1, out=gaps_us)
    np.ceil(gaps_us, out=gaps_us)
    # Integers are summed several times as fast as floats here.
    whole_us = gaps_us.astype(np.int64)
    gaps_us[...] = whole_us.cumsum(axis=1, out=whole_us)
    return gaps_us
