"""What is trained: a network of two hidden layers that learns, from made-up examples, to tell ten classes apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
NUM_FEATURES, WIDTH, NUM_CLASSES = 64, 192, 10
NUM_EXAMPLES = 4096
"""Of each rank's shard."""
WRONG_LABELS = 0.2
"""That part of the labels is drawn by lot, so that the loss ends well above 0, as it does in earnest."""
SHAPES = ((NUM_FEATURES, WIDTH), (WIDTH, WIDTH), (WIDTH, NUM_CLASSES))
NUM_WEIGHTS = sum(rows * columns for rows, columns in SHAPES)


def first_weights(seed: int = 0) -> Vector:
    """Weights to begin with, the same on all ranks."""
    draw = np.random.default_rng(seed)
    layers = [draw.normal(0, np.sqrt(2 / shape[0]), shape).ravel() for shape in SHAPES]
    return np.concatenate(layers).astype(np.float32)


def write_shard(path: Path, rank: int) -> None:
    """A rank's examples: a row each, its features and then its class, which a hidden rule decides."""
    rule = np.random.default_rng(42).normal(size=(NUM_FEATURES, NUM_CLASSES))
    draw = np.random.default_rng(1000 + rank)
    inputs = draw.normal(size=(NUM_EXAMPLES, NUM_FEATURES))
    classes = np.argmax(inputs @ rule, axis=1)
    wrong = draw.random(NUM_EXAMPLES) < WRONG_LABELS
    classes[wrong] = draw.integers(0, NUM_CLASSES, int(wrong.sum()))
    np.save(path, np.column_stack([inputs, classes]).astype(np.float32))


def loss_and_gradient(weights: Vector, batch: Vector) -> tuple[float, Vector]:
    """Cross-entropy of one batch, in nats, and its gradient."""
    layers = _layers(weights)
    inputs, classes = batch[:, :-1], batch[:, -1].astype(int)
    activations = [inputs]
    for layer in layers[:-1]:
        activations.append(np.maximum(activations[-1] @ layer, 0))
    scores = activations[-1] @ layers[-1]
    scores -= scores.max(axis=1, keepdims=True)
    log_shares = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    rows = np.arange(len(batch))
    loss = float(-log_shares[rows, classes].mean())

    above = np.exp(log_shares)
    above[rows, classes] -= 1
    above /= len(batch)
    gradients = []
    for number in range(len(layers) - 1, -1, -1):
        gradients.append((activations[number].T @ above).ravel())
        if number:
            above = (above @ layers[number].T) * (activations[number] > 0)
    return loss, np.concatenate(gradients[::-1]).astype(np.float32)


def _layers(weights: Vector) -> list[Vector]:
    ends = np.cumsum([rows * columns for rows, columns in SHAPES])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(weights, ends), SHAPES, strict=True)]
