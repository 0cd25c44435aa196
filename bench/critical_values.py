"""Simulate the critical values of the Anderson-Darling test for the exponential with its mean estimated.

python bench/critical_values.py             the table that ``model/critical_values.py`` holds; about a minute
python bench/critical_values.py --by-size   one column for each number of gaps: the factor 1 + 0.6/n evens them out

Exponential gaps are drawn with a fixed seed, their statistic is computed as the model computes it, and its quantiles
are taken over all sizes alike.
"""

from __future__ import annotations

import argparse

import numpy as np
from tachograph_collector.model.memoryless import statistics_of_rows

SIZES = (10, 14, 20, 30, 50, 100, 200, 500)
LEVELS = (0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001)
SEED = 20_260_301
NUM_GAPS = 40_000_000
"""Drawn for each size, at most a quarter million samples: 80,000 of the largest."""


def statistics(size: int, num_gaps: int = NUM_GAPS, seed: int = SEED) -> np.ndarray:
    """The statistic of many samples of ``size`` exponential gaps."""
    rng = np.random.default_rng((seed, size))
    left, found = min(num_gaps // size, 250_000), []
    while left > 0:
        num = min(left, 2_000_000 // size)
        drawn = rng.standard_exponential((num, size))
        drawn.sort(axis=1)
        found.append(statistics_of_rows(drawn))
        left -= num
    return np.concatenate(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Simulate the Anderson-Darling test's critical values.")
    parser.add_argument("--by-size", action="store_true", help="one column for each number of gaps")
    told = parser.parse_args()
    by_size = np.array([np.quantile(statistics(size), [1 - level for level in LEVELS]) for size in SIZES])
    if told.by_size:
        print("level   " + "".join(f"{f'n = {size}':>10}" for size in SIZES))
        for level, row in zip(LEVELS, by_size.T, strict=True):
            print(f"{level:<8g}" + "".join(f"{value:10.3f}" for value in row))
        return
    print("    (1.0, 0.0),")
    for level, value in zip(LEVELS, by_size.mean(axis=0), strict=True):
        print(f"    ({level:g}, {value:.3f}),")


if __name__ == "__main__":
    main()
