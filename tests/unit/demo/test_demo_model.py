"""What the demo trains is a real model: its gradient is the slope of its loss, and steps along it learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from demo.model import NUM_WEIGHTS, first_weights, loss_and_gradient, write_shard


def _batch(tmp_path: Path, size: int) -> np.ndarray:
    write_shard(tmp_path / "shard.npy", rank=1)
    return np.load(tmp_path / "shard.npy")[:size].astype(np.float64)


def test_the_gradient_is_the_slope_of_the_loss(tmp_path: Path) -> None:
    batch, weights = _batch(tmp_path, 16), first_weights().astype(np.float64)
    _, gradient = loss_and_gradient(weights, batch)
    for index in np.random.default_rng(3).integers(0, NUM_WEIGHTS, 12):
        there, here = weights.copy(), weights.copy()
        there[index] += 1e-5
        here[index] -= 1e-5
        slope = (loss_and_gradient(there, batch)[0] - loss_and_gradient(here, batch)[0]) / 2e-5
        assert abs(slope - gradient[index]) < 1e-5


def test_steps_along_it_learn(tmp_path: Path) -> None:
    batch, weights = _batch(tmp_path, 256), first_weights()
    first, _ = loss_and_gradient(weights, batch)
    for _ in range(60):
        weights = weights - 0.2 * loss_and_gradient(weights, batch)[1]
    assert loss_and_gradient(weights, batch)[0] < 0.6 * first


def test_each_rank_has_examples_of_its_own_and_all_follow_one_rule(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_shard(tmp_path / f"{rank}.npy", rank)
    mine, other = (np.load(tmp_path / f"{rank}.npy") for rank in (0, 1))
    assert not np.array_equal(mine[0], other[0])
    weights = first_weights()
    before = loss_and_gradient(weights, other[:512])[0]
    for _ in range(80):
        weights = weights - 0.2 * loss_and_gradient(weights, mine[:2048])[1]
    assert loss_and_gradient(weights, other[:512])[0] < before
